"""Accuracy and passes of training whose widths change, in the format fast, on the golden model."""

import multiprocessing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import mean
from typing import Any

from diastole.config.file import from_document
from diastole.measure.figure import Figure, near
from diastole_sim.golden.device import GoldenDevice
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.train import run_task
from diastole_sim.train.precision import Precision

TASK = "digits"
SEEDS = (0, 1, 2, 3, 4)
WORKERS = 2
ACCURACY_WITHIN, PASSES_WITHIN = 0.005, 0.15
"""By which means of seeds may differ from what a prototype found."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """How widths are chosen, and what a prototype found: accuracy, and passes by MACs."""

    options: Mapping[str, Any]
    accuracy: float
    passes: float


ROWS = {
    "high": Row(options={"kind": "high"}, accuracy=0.9789, passes=4),
    "low": Row(options={"kind": "low"}, accuracy=0.9528, passes=1),
    "fast .6 .3": Row(options={"kind": "fast"}, accuracy=0.9672, passes=1.34),
    "fast .6 .5": Row(options={"kind": "fast", "beta": 0.5}, accuracy=0.9706, passes=2.08),
    "fast .4 .3": Row(options={"kind": "fast", "alpha": 0.4}, accuracy=0.9739, passes=2.54),
    "low-to-high 250": Row(
        options={"kind": "low-to-high", "switch": 250}, accuracy=0.9706, passes=1.5
    ),
    "low-to-high 200": Row(
        options={"kind": "low-to-high", "switch": 200}, accuracy=0.9733, passes=2
    ),
}

Job = tuple[str, int, int | None]
"""A run: its row, seed and steps (None: the task's own number)."""


def train_precision(job: Job) -> dict[str, Any]:
    """One run, as plain values: a file that says nothing but the formats."""
    name, seed, steps = job
    numerics = from_document({"format": dict.fromkeys(CLASS_NAMES, "fast")}).numerics
    precision = Precision(classes=CLASS_NAMES, **ROWS[name].options)
    result = run_task(
        TASK,
        GoldenDevice(numerics, seed),
        backend="golden",
        seed=seed,
        steps=steps,
        precision=precision,
    )
    return result.to_json()


def figures(steps: int | None = None) -> Iterator[Figure]:
    """Means of seeds."""
    jobs = [(name, seed, steps) for name in ROWS for seed in SEEDS]
    with multiprocessing.Pool(WORKERS) as pool:
        runs = dict(zip(jobs, pool.map(train_precision, jobs), strict=True))
    for name, row in ROWS.items():
        own = [runs[name, seed, steps] for seed in SEEDS]
        accuracy = mean(run["accuracy"] for run in own)
        passes = mean(run["mean_passes"] for run in own)
        what = f"{TASK}, seeds 0 to {SEEDS[-1]}, precision {name}"
        yield near(f"{what}: accuracy", accuracy, row.accuracy, ACCURACY_WITHIN, "{:.2%}")
        yield near(f"{what}: passes", passes, row.passes, PASSES_WITHIN, "{:.2f}")
