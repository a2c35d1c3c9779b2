"""Accuracy of training by the format of the master weights and the rounding of updates to it.

On the golden model of the preset `nano`; all but the master weights as in every other run.
"""

import multiprocessing
from collections.abc import Iterator
from statistics import mean, stdev

from diastole.config.presets import PRODUCTS_ONLY
from diastole.measure.figure import Figure, shown
from diastole_sim.golden.device import GoldenDevice
from diastole_sim.train import run_task
from diastole_sim.train.master import Master

TASK = "digits"
SEEDS = (0, 1, 2, 3, 4)
WORKERS = 2
MASTERS = {
    "float32": Master(),
    "bf16 nearest": Master(kind="bf16", rounding="nearest"),
    "bf16 stochastic-b": Master(kind="bf16"),
    "bf16 stochastic-a, 4 bits": Master(kind="bf16", rounding="stochastic-a", bits=4),
    "bf16 stochastic-b, 4 bits": Master(kind="bf16", rounding="stochastic-b", bits=4),
    "fp16 nearest": Master(kind="fp16", rounding="nearest"),
    "fp16 stochastic-b": Master(kind="fp16"),
    "e6m9 nearest": Master(kind="e6m9", rounding="nearest"),
    "e6m9 stochastic-b": Master(kind="e6m9"),
}

Job = tuple[str, int, int | None]
"""A run: its masters, seed and steps (None: the task's own number)."""


def train_master(job: Job) -> float:
    """Held-out accuracy of one run."""
    name, seed, steps = job
    device = GoldenDevice(PRODUCTS_ONLY["nano"].numerics, seed=seed)
    return run_task(
        TASK, device, backend="golden", seed=seed, steps=steps, master=MASTERS[name]
    ).accuracy


def figures(steps: int | None = None) -> Iterator[Figure]:
    """Mean of the seeds, and the standard deviation of one."""
    jobs = [(name, seed, steps) for name in MASTERS for seed in SEEDS]
    with multiprocessing.Pool(WORKERS) as pool:
        found = dict(zip(jobs, pool.map(train_master, jobs, chunksize=1), strict=True))
    for name in MASTERS:
        own = [found[name, seed, steps] for seed in SEEDS]
        what = f"{TASK}, seeds 0 to {SEEDS[-1]}, master {name}"
        yield shown(f"{what}: accuracy", mean(own), "{:.2%}")
        yield shown(f"{what}: deviation", stdev(own), "{:.2%}")
