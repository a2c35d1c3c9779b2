"""Who does the runs: the same results from this process, from several, and from a cluster."""

import json
import os
import pickle
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest

from diastole.compare.jobs import Job, samples_sha256
from diastole.compare.pool import run_jobs
from diastole.errors import CheckFailed
from diastole_sim.spec.numerics import Numerics
from diastole_sim.train.samples import Samples
from diastole_sim.train.tasks import task_of_samples
from diastole_sim.trainer.options import ProgramOptions
from support.small_programs import make_limits

ONE = {"format": "bfp4", "rounding": "nearest"}
NUMERICS = Numerics.from_dict(
    {"x": ONE, "w": ONE, "dy": ONE} | {"block": 8, "random_bits": 8, "fraction": 18, "headroom": 14}
)


@pytest.fixture
def jobs(rng):
    random = np.random.default_rng(rng.randrange(2**32))
    samples = Samples(
        inputs=random.standard_normal((30, 4)).astype(np.float32), labels=np.arange(30) % 3
    )
    given = {"task": task_of_samples(samples, "mine"), "data": samples_sha256(samples), "steps": 2}
    options = ProgramOptions(limits=make_limits(NUMERICS))
    made = [
        Job(name=name, numerics=numerics, seed=seed, options=how, **given)
        for seed in (0, 1)
        for name, numerics, how in (
            ("float32", None, {"recipe": options.in_float32}),
            ("bfp4", NUMERICS, {"program": options}),
        )
    ]
    failing = Job(name="no", numerics=NUMERICS, seed=0, options={"colour": 1}, **given)
    return [*made, failing]


def found(records):
    """By key, without times, as a file has them."""
    return {
        each["key"]: {name: value for name, value in each.items() if name != "seconds"}
        for each in json.loads(json.dumps(list(records)))
    }


CLUSTER = """
import sys
from distributed import LocalCluster

if __name__ == "__main__":
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(processes=True, **options) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@contextmanager
def cluster(folder):
    """A scheduler and two workers, each a process; gives the address."""
    script = folder / "cluster.py"
    script.write_text(CLUSTER)
    process = subprocess.Popen(
        [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.communicate("")


RUN = """
import json, pickle, sys
import distributed
from diastole.compare import pool
from diastole.errors import BadInput

jobs = pickle.load(sys.stdin.buffer)
print(json.dumps(list(pool.run_jobs(jobs, processes=1, scheduler=sys.argv[1]))))

def broken():
    raise ImportError("none of ours")

for version in (broken, lambda: str(id(sys))):
    pool.numerics_version = version
    try:
        list(pool.run_jobs(jobs, processes=1, scheduler=sys.argv[1]))
    except BadInput as error:
        print(str(error).replace(sys.argv[1], "there"))
"""


def test_a_cluster_and_processes_find_the_same(jobs, tmp_path):
    """Dask and its threads are in a process of their own."""
    here = found(run_jobs(jobs, processes=1, scheduler=None))
    assert found(run_jobs(jobs, processes=2, scheduler=None)) == here
    with cluster(tmp_path) as address:
        done = subprocess.run(
            [sys.executable, "-c", RUN, address],
            input=pickle.dumps(jobs),
            capture_output=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr.decode()
    results, *refused = done.stdout.decode().splitlines()
    assert found(json.loads(results)) == here
    assert refused == [
        "--scheduler: a worker of there cannot import this diastole: ImportError: none of ours",
        "--scheduler: a worker of there has another version of diastole",
    ]
    assert [each["error"] is None for each in here.values()] == [True] * 4 + [False]


def test_no_scheduler():
    code = """
from diastole.compare import pool
from diastole.errors import BadInput

pool.SECONDS_TO_ANSWER = 0.2
try:
    list(pool.run_jobs([1, 2], processes=1, scheduler="tcp://127.0.0.1:9"))
except BadInput as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith(
        "--scheduler: no Dask scheduler answers at tcp://127.0.0.1:9: "
    ), done.stderr
    assert done.stdout.count("\n") == 1


class Dying:
    """Ends the process that takes it."""

    def __reduce__(self):
        return os._exit, (1,)


def test_a_process_that_ends(jobs):
    """As one that the system kills: said in a line, with what to do."""
    with pytest.raises(CheckFailed) as caught:
        list(run_jobs([Dying(), Dying()], processes=2, scheduler=None))
    assert str(caught.value) == (
        "a process ended before the end of a run, for example because memory ran out; the "
        "same command with a smaller --jobs and the same --results continues"
    )
