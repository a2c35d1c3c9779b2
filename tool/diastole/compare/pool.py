"""Who does the runs: this process, several of this computer, or a cluster of Dask's."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from functools import partial
from importlib import import_module
from typing import Any, cast

from diastole.compare.jobs import Job, Record, numerics_version, run_job
from diastole.console import one_line
from diastole.errors import BadInput, CheckFailed
from diastole.workers import end_with

SECONDS_TO_ANSWER = 10
"""That a scheduler has."""


def run_jobs(jobs: Sequence[Job], *, processes: int, scheduler: str | None) -> Iterator[Record]:
    """What every job found, as they end. CheckFailed where a process ends before its job does; what
    was found before that stays."""
    if scheduler is not None:
        yield from _on_cluster(jobs, scheduler)
    elif processes == 1 or len(jobs) == 1:
        yield from map(run_job, jobs)
    else:
        joblib: Any = import_module("joblib")  # of an extra, and without types
        with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
            work = partial(run_for, os.getpid())
            yield from _parallel(work, jobs, min(processes, len(jobs)))


def run_for(parent: int, job: Job) -> Record:
    """As :func:`diastole.compare.jobs.run_job`, in a process that ends when ``parent`` does, which
    may be killed without a word."""
    end_with(parent)
    return run_job(job)


def _parallel(
    work: Callable[[Job], Record], jobs: Sequence[Job], processes: int
) -> Iterator[Record]:
    joblib: Any = import_module("joblib")
    call: Any = joblib.delayed(work)
    options: dict[str, Any] = {"return_as": "generator_unordered", "batch_size": 1}
    try:
        found: Any = joblib.Parallel(n_jobs=processes, **options)(call(job) for job in jobs)
        yield from cast(Iterator[Record], found)
    except BrokenExecutor:
        raise CheckFailed(
            "a process ended before its run did, as where memory runs out; --jobs with fewer of "
            "them, and the same --results, go on with what is there"
        ) from None


def _on_cluster(jobs: Sequence[Job], address: str) -> Iterator[Record]:
    distributed: Any = import_module("distributed")
    joblib: Any = import_module("joblib")
    try:
        client = distributed.Client(address, timeout=SECONDS_TO_ANSWER)
    except (OSError, ValueError, TimeoutError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadInput(f"--scheduler: no scheduler of Dask at {address}: {reason}") from None
    with client:
        _check_workers(client, address)
        with joblib.parallel_config(backend="dask", client=client):
            yield from _parallel(run_job, jobs, -1)


def _check_workers(client: Any, address: str) -> None:
    """BadInput where there is none, or one has another version: its runs would never end."""
    try:
        versions = set(client.run(numerics_version).values())
    except Exception as error:  # whatever a worker without us says
        reason = one_line(f"{type(error).__name__}: {error}")
        raise BadInput(
            f"--scheduler: a worker of {address} has no such diastole: {reason}"
        ) from None
    if not versions:
        raise BadInput(f"--scheduler: {address} has no workers")
    if versions != {numerics_version()}:
        raise BadInput(f"--scheduler: a worker of {address} has another version of diastole")
