"""A run of a comparison: the inputs of its key, its results, and a run that fails."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from diastole.compare import jobs
from diastole.compare.jobs import Job, plain, run_job, samples_sha256
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.program.run import ProgramRun, golden_machine
from diastole_sim.spec.numerics import Numerics
from diastole_sim.train import run_task
from diastole_sim.train.precision import Precision
from diastole_sim.train.samples import Samples
from diastole_sim.trainer.job import weights_sha256
from diastole_sim.trainer.options import ProgramOptions
from support.host_perceptron import samples_by_host
from support.small_programs import make_limits


def numerics(name="bfp4", **more):
    one = {"format": name, "rounding": "nearest"}
    return Numerics.from_dict(
        {"x": one, "w": one, "dy": one | {"rounding": "stochastic-b"}}
        | {"block": 8, "random_bits": 8, "fraction": 22, "headroom": 14}
        | more
    )


@pytest.fixture
def job(rng):
    random = np.random.default_rng(rng.randrange(2**32))
    samples = Samples(
        inputs=random.standard_normal((40, 5)).astype(np.float32),
        labels=random.integers(0, 3, 40),
    )
    return Job(
        name="mine",
        task=samples_by_host(samples, "mine.npz"),
        data=samples_sha256(samples),
        steps=3,
        seed=1,
        numerics=numerics(),
    )


FAST = Precision(kind="fast", classes=("x", "w", "dy"))


def test_the_key_hangs_on_all_that_decides_the_bits(job):
    others = [
        replace(job, data="other"),
        replace(job, steps=4),
        replace(job, seed=2),
        replace(job, numerics=None),
        replace(job, numerics=numerics("bfp5")),
        replace(job, numerics=numerics(fraction=20)),
        replace(job, options={"precision": FAST}),
        replace(job, options={"precision": replace(FAST, alpha=0.5)}),
        replace(job, task=replace(job.task, name="other")),
        replace(job, version="other"),
    ]
    assert len({job.key, *(other.key for other in others)}) == 1 + len(others)
    assert replace(job, name="another name").key == job.key
    assert pickle.loads(pickle.dumps(job)).key == job.key
    assert len(job.key) == 64


def test_the_key_of_data_hangs_on_every_number():
    samples = Samples(inputs=np.zeros((2, 3), np.float32), labels=np.zeros(2, np.int64))
    keys = {samples_sha256(samples)}
    other = samples.inputs.copy()
    other[1, 2] = 1
    for changed in (
        replace(samples, inputs=other),
        replace(samples, inputs=samples.inputs.reshape(3, 2)),
        replace(samples, labels=np.array([0, 1])),
    ):
        keys.add(samples_sha256(changed))
    assert len(keys) == 4


def test_the_version_hangs_on_every_source_and_table(monkeypatch, tmp_path):
    for folder in ("spec", "golden", "device", "train", "perf"):
        (tmp_path / folder / "inner").mkdir(parents=True)
        (tmp_path / folder / "inner" / "a.py").write_text("1")
    monkeypatch.setattr(jobs.diastole_sim, "__file__", str(tmp_path / "__init__.py"))
    seen = {jobs.numerics_version.__wrapped__()}
    for folder in ("spec", "golden", "device", "train"):
        (tmp_path / folder / "inner" / "a.py").write_text("2")
        seen.add(jobs.numerics_version.__wrapped__())
    (tmp_path / "golden" / "b.py").write_text("")
    seen.add(jobs.numerics_version.__wrapped__())
    (tmp_path / "spec" / "inner" / "table.txt").write_text("1 2 3")
    seen.add(jobs.numerics_version.__wrapped__())
    assert len(seen) == 7
    (tmp_path / "perf" / "inner" / "a.py").write_text("2")
    assert jobs.numerics_version.__wrapped__() in seen


def test_options_as_plain_values():
    value = {"precision": FAST, "master": None, "list": (1, 2.5, True)}
    assert plain(value) == {
        "precision": {
            "kind": "fast", "classes": ["x", "w", "dy"], "alpha": 0.6, "beta": 0.3, "switch": None
        },
        "master": None,
        "list": [1, 2.5, True],
    }  # fmt: skip


def test_a_run_finds_what_training_finds(job):
    record = run_job(job)
    result = run_task(
        job.task, NumpyDevice(numerics(), 1), backend="golden", steps=3, seed=1, float_run=False
    )
    assert record["error"] is None
    assert (record["loss"], record["accuracy"]) == (result.loss, result.accuracy)
    assert record["weights_sha256"] == result.weights_sha256
    assert (record["key"], record["name"], record["seed"]) == (job.key, "mine", 1)
    assert record["widths"] == {}
    assert json.loads(json.dumps(record)) == record
    single = run_job(replace(job, numerics=None))
    assert single["weights_sha256"] != record["weights_sha256"]
    assert single["numerics"] == "float32"


def test_a_machine_that_does_whole_steps(job):
    options = ProgramOptions(limits=make_limits(numerics()), optimizer="adamw", hidden=(6,))
    record = run_job(replace(job, options={"program": options}))
    assert record["error"] is None
    made = options.program(job.task, numerics(), steps=3, seed=1)
    machine = golden_machine(made.program, numerics(), options.limits, seed=1)
    run = ProgramRun(program=made.program, machine=machine)
    run.train(3)
    assert record["weights_sha256"] == weights_sha256(run)
    assert record["products"] == 3 * 5 + 2
    assert json.loads(json.dumps(record)) == record
    other = replace(job, options={"program": replace(options, hidden=(7,))})
    assert other.key not in (job.key, record["key"])


def test_mean_widths_of_a_run(job):
    options = {"precision": Precision(kind="low-to-high", classes=("x", "w", "dy"), switch=2)}
    record = run_job(replace(job, numerics=numerics("fast"), options=options))
    assert record["error"] is None
    assert record["widths"]["layer0.W"] == (2 + 2 + 4) / 3
    assert record["mean_passes"] == pytest.approx((1 + 1 + 4) / 3, abs=0.05)


def test_a_run_that_fails_says_why(job):
    """A contraction that is too long for its accumulators; another version; anything else."""
    small = numerics(block=1, headroom=1)
    record = run_job(replace(job, numerics=small))
    assert record["error"].startswith("ValueError: ")
    assert "loss" not in record
    assert record["key"] == replace(job, numerics=small).key
    record = run_job(replace(job, version="older"))
    assert record["error"] == ("RuntimeError: the worker has another version of diastole")
    assert run_job(replace(job, options={"colour": 3}))["error"].startswith("TypeError: ")


def test_one_thread_of_blas(job, monkeypatch):
    import threadpoolctl

    seen = []

    def run_task(*given, **options):
        seen.extend(
            pool["num_threads"]
            for pool in threadpoolctl.threadpool_info()
            if pool["user_api"] == "blas"
        )
        raise ValueError("enough")

    monkeypatch.setattr(jobs, "run_task", run_task)
    assert run_job(job)["error"] == "ValueError: enough"
    assert seen
    assert set(seen) == {1}
