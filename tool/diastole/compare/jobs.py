"""A training of a comparison: the values that decide the bits, and the results, as plain values."""

import dataclasses
import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import diastole_sim
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.program.run import ProgramRun, golden_machine
from diastole_sim.spec.numerics import Numerics
from diastole_sim.train import TrainResult, run_task
from diastole_sim.train.float_device import FloatDevice
from diastole_sim.train.samples import Samples
from diastole_sim.train.tasks import Task
from diastole_sim.trainer.job import run_program, train_in_float32, weights_sha256
from diastole_sim.trainer.options import RecipeOptions

Record = dict[str, Any]

FLOAT32 = "float32"
_FOLDERS = ("spec", "golden", "device", "graph", "lowering", "train", "trainer", "program")
"""Folders of the simulation with the sources that decide the bits of a training."""
RESULT_KEYS = (
    "loss", "accuracy", "mean_passes", "weights_sha256", "products", "inexact_products",
    "converted", "saturated", "underflowed", "seconds", "not_finite",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Job:
    """A run of a comparison.

    - ``numerics``: None for float32.
    - ``data``: hash by :func:`samples_sha256`.
    - ``options``: arguments of :func:`diastole_sim.train.run_task`; or ``program``, the
      :class:`diastole_sim.trainer.options.ProgramOptions` of a machine that does the whole
      training; or, for float32, ``recipe``, the :class:`diastole_sim.trainer.options.RecipeOptions`
      of a program.
    """

    name: str
    task: Task
    data: str
    steps: int
    seed: int
    numerics: Numerics | None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    version: str = field(default_factory=lambda: numerics_version())

    @property
    def content(self) -> Record:
        """All values that decide the bits, as plain values."""
        return {
            "numerics": FLOAT32 if self.numerics is None else self.numerics.to_dict(),
            "options": plain(self.options),
            "task": self.task.name,
            "data": self.data,
            "network": network_sha256(self.task),
            "steps": self.steps,
            "seed": self.seed,
            "version": self.version,
        }

    @property
    def key(self) -> str:
        """SHA-256 of the content, in hexadecimal."""
        text = json.dumps(self.content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.name}, seed {self.seed}"


def plain(value: Any) -> Any:
    """Return options, which may be dataclasses, as plain values for JSON. A dataclass keeps the
    fields of its ``repr``: for a file of a user, the hash and not the text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = (each.name for each in dataclasses.fields(value) if each.repr)
        return {name: plain(getattr(value, name)) for name in shown}
    if isinstance(value, Mapping):
        items = cast(Mapping[Any, Any], value)
        return {str(key): plain(each) for key, each in items.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in cast(Sequence[Any], value)]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return repr(value)


def samples_sha256(samples: Samples) -> str:
    """Return a hash of inputs and labels, with types and shapes."""
    digest = hashlib.sha256()
    for array in (samples.inputs, samples.labels):
        digest.update(f"{array.dtype.str} {array.shape} ".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def network_sha256(task: Task) -> str | None:
    """Return a hash of a task's graph, with its initial parameters if the task has some. None
    without a graph."""
    if task.graph is None:
        return None
    digest = hashlib.sha256(json.dumps(task.graph.record(), sort_keys=True).encode())
    for name, values in (task.first or {}).items():
        digest.update(f"{name} {values.shape} ".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


@cache
def numerics_version() -> str:
    """Return a hash of all files that decide the bits of a training. Results of another version are
    not used."""
    assert diastole_sim.__file__ is not None
    top = Path(diastole_sim.__file__).parent
    digest = hashlib.sha256()
    for folder in _FOLDERS:
        inside = top / folder
        for source in sorted([*inside.rglob("*.py"), *inside.rglob("*.txt")]):
            digest.update(f"{source.relative_to(top).as_posix()}\0".encode())
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def run_job(job: Job) -> Record:
    """Train on the golden model. An error is a text in ``error`` of the record. BLAS has one
    thread: more threads in several processes cost more time than they save."""
    limits: Any = import_module("threadpoolctl")  # an optional package without types

    record: Record = {"key": job.key, "name": job.name, **job.content}
    try:
        if job.version != numerics_version():
            raise RuntimeError("the worker has another version of diastole")
        with limits.threadpool_limits(1):
            return record | _record(job)
    except Exception as error:  # after any error of a run, the remaining runs go on
        return record | {"error": f"{type(error).__name__}: {error}"}


def _record(job: Job) -> Record:
    if "recipe" in job.options:
        return _in_float32(job, job.options["recipe"]) | {"error": None}
    result = _trained(job)
    record = {name: value for name, value in result.to_json().items() if name in RESULT_KEYS}
    record["widths"] = {
        name: sum(map(int, digits)) / len(digits) for name, digits in (result.widths or {}).items()
    }
    return record | {"error": None}


def _in_float32(job: Job, recipe: RecipeOptions) -> Record:
    """Return the record of a recipe in float32, which converts nothing."""
    started = time.monotonic()
    run, history = train_in_float32(recipe.recipe(job.task, steps=job.steps, seed=job.seed))
    _, loss, accuracy = history.held_out[-1]
    return dict.fromkeys(RESULT_KEYS) | {
        "loss": loss if math.isfinite(loss) else None,
        "accuracy": accuracy if math.isfinite(accuracy) else None,
        "weights_sha256": weights_sha256(run),
        "seconds": time.monotonic() - started,
        "not_finite": list(history.not_finite.values()),
        "widths": {},
    }


def _trained(job: Job) -> TrainResult:
    common: dict[str, Any] = {"backend": "golden", "seed": job.seed, "float_run": False}
    program, numerics = job.options.get("program"), job.numerics
    if program is None or numerics is None:
        device = FloatDevice() if numerics is None else NumpyDevice(numerics, job.seed)
        return run_task(job.task, device, steps=job.steps, **common, **job.options)
    made = program.program(job.task, numerics, steps=job.steps, seed=job.seed)
    machine = golden_machine(made.program, numerics, program.limits, seed=job.seed)
    run = ProgramRun(program=made.program, machine=machine)
    return run_program(run, made, program, **common)
