"""Accuracy of trained networks on held-out samples. The golden model has the hardware's bits."""

import statistics
from collections.abc import Iterator, Sequence

from diastole.config.presets import PRODUCTS_ONLY
from diastole.measure.figure import Figure, at_least, at_most, shown
from diastole_sim.golden.device import GoldenDevice
from diastole_sim.train import run_task

SEEDS = range(5)
LEAST, LEAST_MEAN = 0.95, 0.96
"""Asked of the first seed, and of the mean of all."""
MOST_LOST = 0.015
"""That the mean may lie below that of the same runs in float32."""


def figures(seeds: Sequence[int] = SEEDS, steps: int | None = None) -> Iterator[Figure]:
    """Of `nano` on the digits' held-out fifth."""
    found: list[float] = []
    floats: list[float] = []
    for seed in seeds:
        golden = GoldenDevice(PRODUCTS_ONLY["nano"].numerics, seed=seed)
        result = run_task("digits", golden, backend="golden", seed=seed, steps=steps)
        found.append(result.accuracy)
        floats.append(result.float_accuracy)
        what = f"accuracy, seed {seed}"
        first = len(found) == 1
        yield (
            at_least(what, result.accuracy, LEAST, "{:.2%}")
            if first
            else shown(what, result.accuracy, "{:.2%}")
        )
        yield shown(f"accuracy in float32, seed {seed}", result.float_accuracy, "{:.2%}")
    mean, float_mean = statistics.mean(found), statistics.mean(floats)
    yield at_least("accuracy, mean of the seeds", mean, LEAST_MEAN, "{:.2%}")
    yield at_most("accuracy lost to float32, mean", float_mean - mean, MOST_LOST, "{:.2%}")
