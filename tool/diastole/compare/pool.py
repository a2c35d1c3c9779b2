"""Do the runs: in the calling process, in several processes of the computer, or on a Dask
cluster."""

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
"""Time in seconds that a scheduler has to answer."""


def run_jobs(jobs: Sequence[Job], *, processes: int, scheduler: str | None) -> Iterator[Record]:
    """Yield the record of every job, in the order in which jobs end. CheckFailed if a process ends
    before its job does. Records found until then are yielded."""
    if scheduler is not None:
        yield from _on_cluster(jobs, scheduler)
    elif processes == 1 or len(jobs) == 1:
        yield from map(run_job, jobs)
    else:
        joblib: Any = import_module("joblib")  # an optional package without types
        with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
            work = partial(run_for, os.getpid())
            yield from _parallel(work, jobs, min(processes, len(jobs)))


def run_for(parent: int, job: Job) -> Record:
    """Run a job as :func:`diastole.compare.jobs.run_job` does, in a process that ends with
    ``parent``. A killed parent sends no message."""
    end_with(parent)
    return run_job(job)


def _parallel(
    work: Callable[[Job], Record], jobs: Sequence[Job], processes: int
) -> Iterator[Record]:
    joblib: Any = import_module("joblib")
    call: Any = joblib.delayed(work)
    options: dict[str, Any] = {"return_as": "generator_unordered", "batch_size": 1}
    try:
        records: Any = joblib.Parallel(n_jobs=processes, **options)(call(job) for job in jobs)
        yield from cast(Iterator[Record], records)
    except BrokenExecutor:
        raise CheckFailed(
            "a process ended before the end of a run, for example because memory ran out; "
            "the same command with a smaller --jobs and the same --results continues"
        ) from None


def _on_cluster(jobs: Sequence[Job], address: str) -> Iterator[Record]:
    distributed: Any = import_module("distributed")
    joblib: Any = import_module("joblib")
    try:
        client = distributed.Client(address, timeout=SECONDS_TO_ANSWER)
    except (OSError, ValueError, TimeoutError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadInput(f"--scheduler: no Dask scheduler answers at {address}: {reason}") from None
    with client:
        _check_workers(client, address)
        with joblib.parallel_config(backend="dask", client=client):
            yield from _parallel(run_job, jobs, -1)


def _check_workers(client: Any, address: str) -> None:
    """Raise BadInput without workers, or for a worker of another version, whose runs would never
    end."""
    try:
        versions = set(client.run(numerics_version).values())
    except Exception as error:  # any error of a worker without diastole
        reason = one_line(f"{type(error).__name__}: {error}")
        raise BadInput(
            f"--scheduler: a worker of {address} cannot import this diastole: {reason}"
        ) from None
    if not versions:
        raise BadInput(f"--scheduler: {address} has no workers")
    if versions != {numerics_version()}:
        raise BadInput(f"--scheduler: a worker of {address} has another version of diastole")
