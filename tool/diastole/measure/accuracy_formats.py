"""Accuracy of the digits in every number format, on the golden model.

Every format for X, W and dY alike, with its default scales, and all other keys as in the preset
`nano`: nearest rounding, stochastic for dY. Seeds decide weights, order and draws.
"""

import multiprocessing
from collections.abc import Iterator, Sequence
from typing import Any

from diastole.config.file import from_document
from diastole.config.presets import PRODUCTS_ONLY
from diastole.report.format_table import align
from diastole_sim.golden.device import GoldenDevice
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.train import run_task

TASK = "digits"
SEEDS = (0, 1, 2)
WORKERS = 2

Job = tuple[str, str | None, int, int | None]
"""A run: format, groups (None: its own), seed and steps (None: the task's own number)."""


def numerics(name: str, grouping: str | None = None) -> Numerics:
    """The preset `nano` in one format, in the format's own groups or in these."""
    document = PRODUCTS_ONLY["nano"].model_dump(exclude_none=True)
    document |= {"format": dict.fromkeys(CLASS_NAMES, name)}
    if grouping is not None:
        document |= {"block": dict.fromkeys(CLASS_NAMES, grouping)}
    return from_document(document).numerics


def jobs(names: Sequence[str], grouping: str | None, steps: int | None) -> list[Job]:
    """Every format with every seed. BadInput, before anything runs, for groups that one of them
    does not take."""
    for name in names:
        numerics(name, grouping)
    return [(name, grouping, seed, steps) for name in names for seed in SEEDS]


def train_job(job: Job) -> dict[str, Any]:
    """One run, as plain values."""
    name, grouping, seed, steps = job
    device = GoldenDevice(numerics(name, grouping), seed)
    result = run_task(TASK, device, backend="golden", seed=seed, steps=steps).to_json()
    return {"format": name} | result


def train_all(jobs: Sequence[Job]) -> Iterator[dict[str, Any]]:
    """All runs, in their order, in processes of their own."""
    with multiprocessing.Pool(WORKERS) as pool:
        yield from pool.imap(train_job, jobs)


def mean_of_seeds(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over the seeds, in the order of the formats' first runs."""
    means: list[dict[str, Any]] = []
    for name in dict.fromkeys(run["format"] for run in runs):
        same = [run for run in runs if run["format"] == name]
        accuracy, reference, saturated = (
            sum(run[key] for run in same) / len(same)
            for key in ("accuracy", "float_accuracy", "saturated")
        )
        means.append(
            {
                "format": name,
                "accuracy": accuracy,
                "float_accuracy": reference,
                "worst": min(run["accuracy"] for run in same),
                "saturated": saturated,
            }
        )
    return means


def mean_table(means: Sequence[dict[str, Any]]) -> list[str]:
    """The means for people."""
    heading = ["format", "accuracy", "float32", "difference", "worst seed"]
    rows = [
        [
            mean["format"],
            f"{mean['accuracy']:.2%}",
            f"{mean['float_accuracy']:.2%}",
            f"{100 * (mean['accuracy'] - mean['float_accuracy']):+.2f}",
            f"{mean['worst']:.2%}",
        ]
        for mean in means
    ]
    return align([heading, *rows], left=1)


def accuracy_record(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The numbers of every run, and their means."""
    return {
        "task": TASK,
        "seeds": SEEDS,
        "steps": runs[0]["steps"],
        "formats": mean_of_seeds(runs),
        "runs": list(runs),
    }
