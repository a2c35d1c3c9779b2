"""Accuracy of training by the kind of draws, on the golden model, in the format of the presets."""

import multiprocessing
from collections.abc import Iterator
from statistics import mean
from typing import Any

from diastole.config.file import from_document
from diastole.measure.figure import Figure, shown
from diastole_sim.golden.device import GoldenDevice
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.train import run_task

TASK = "digits"
SEEDS = (0, 1, 2, 3, 4)
WORKERS = 2
FORMATS = ("bfp4", "bfp2")
ROUNDED = {"dY": ("dy",), "X, W and dY": CLASS_NAMES}
"""What is rounded stochastically, by rule B; the rest to nearest."""
KINDS: dict[str, dict[str, Any]] = {
    "counter, 8 bits": {"kind": "counter", "bits": 8},
    "counter, 3 bits": {"kind": "counter", "bits": 3},
    "lfsr, 8 of 24 bits": {"kind": "lfsr", "bits": 8, "lfsr_bits": 24},
    "lfsr3": {"kind": "lfsr3"},
    "data, 8 bits": {"kind": "data", "bits": 8},
}
"""By name, the keys of ``rounding`` beside the rules."""

Job = tuple[str, str, str, int, int | None]
"""A run: a format, what is rounded, a kind, seed and steps (None: the task's own number)."""


def train_draws(job: Job) -> float:
    """The accuracy of one run, of a file that says nothing else."""
    name, rounded, kind, seed, steps = job
    rules = dict.fromkeys(CLASS_NAMES, "nearest")
    rules |= dict.fromkeys(ROUNDED[rounded], "stochastic-b")
    document = {"format": dict.fromkeys(CLASS_NAMES, name), "rounding": rules | KINDS[kind]}
    device = GoldenDevice(from_document(document).numerics, seed)
    return run_task(TASK, device, backend="golden", seed=seed, steps=steps).accuracy


def figures(steps: int | None = None) -> Iterator[Figure]:
    """Means of seeds."""
    cases = [(name, rounded, kind) for name in FORMATS for rounded in ROUNDED for kind in KINDS]
    jobs = [(*case, seed, steps) for case in cases for seed in SEEDS]
    with multiprocessing.Pool(WORKERS) as pool:
        accuracies = dict(zip(jobs, pool.map(train_draws, jobs), strict=True))
    for case in cases:
        name, rounded, kind = case
        accuracy = mean(accuracies[(*case, seed, steps)] for seed in SEEDS)
        what = f"{TASK}, {name}, {rounded} by {kind}"
        yield shown(what, accuracy, "{:.2%}")
