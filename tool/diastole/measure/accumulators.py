"""Float accumulators beside integers: how busy `nano` is, and accuracy of training."""

import multiprocessing
from collections.abc import Iterator
from statistics import mean
from typing import Any

from diastole.backend import cached_product
from diastole.config.file import from_document
from diastole.config.keys import Config
from diastole.config.presets import PRODUCTS_ONLY
from diastole.devices import Device
from diastole.measure import area_accumulators
from diastole.measure.area import LEFT_OUT, Mapper
from diastole.measure.figure import Figure, at_most, shown
from diastole.measure.utilisation import SIDE, convert, multiply_held, normal_operands, used
from diastole_sim.golden.device import GoldenDevice
from diastole_sim.spec.operations import OPERATIONS
from diastole_sim.train import run_task

MOST_LOST = 0.01
"""Of the time of the multipliers, beside integers."""
TASK = "digits"
WITH_CHUNKS = ("ibm-fp8", "hfp8")
"""Published numbers whose accumulators are floats of e6m9."""
SEEDS = (0, 1, 2, 3, 4)
WORKERS = 2
ACCUMULATORS = {
    "integers": ["accumulator.kind=integer"],
    "e6m9, chunks of 64": [],
    "e6m9, chunks of 16": ["accumulator.chunk=16"],
    "e6m5, chunks of 16": ["accumulator.chunk=16", "accumulator.mantissa=e6m5"],
    "m = 3, chunks of 16": ["accumulator.chunk=16", "accumulator.mantissa=3"],
}
"""What differs from `numbers`. A contraction of the digits has 64 elements at most: one chunk."""

Job = tuple[str, str, int, int | None]
"""A run: its numbers, accumulators, seed and steps (None: the task's own number)."""


def train_accumulators(job: Job) -> float:
    """Held-out accuracy of a run on the golden model."""
    numbers, accumulators, seed, steps = job
    config = from_document({"numbers": numbers}, ACCUMULATORS[accumulators])
    device = GoldenDevice(config.numerics, seed)
    return run_task(TASK, device, backend="golden", seed=seed, steps=steps).accuracy


def accuracies(steps: int | None = None) -> Iterator[Figure]:
    """Means of seeds."""
    jobs = [
        (numbers, name, seed, steps)
        for numbers in WITH_CHUNKS
        for name in ACCUMULATORS
        for seed in SEEDS
    ]
    with multiprocessing.Pool(WORKERS) as pool:
        runs = dict(zip(jobs, pool.map(train_accumulators, jobs), strict=True))
    for numbers in WITH_CHUNKS:
        for name in ACCUMULATORS:
            value = mean(runs[numbers, name, seed, steps] for seed in SEEDS)
            what = f"{TASK}, seeds 0 to {SEEDS[-1]}, {numbers}, {name}: accuracy"
            yield shown(what, value, "{:.2%}")


def figures(mapper: Mapper) -> Iterator[Figure]:
    """All of this, and areas."""
    yield from area_accumulators.figures(mapper)
    yield from whole(mapper)
    yield from utilisations()
    yield from accuracies()


def whole(mapper: Mapper, config: Config = PRODUCTS_ONLY["nano"]) -> Iterator[Figure]:
    """Of all of a machine but its memories with a clocked read."""
    for one in (config, floating(config)):
        what = f"NAND2 equivalents of {one.name}, {LEFT_OUT}"
        yield shown(what, mapper.machine(one).whole, "{:,.0f}")


def busy(config: Config, side: int) -> dict[str, float]:
    """By operation, the share of the multipliers that products of side x side x side keep busy, by
    the counters of the Verilog."""
    found: dict[str, float] = {}
    with Device(cached_product(config)) as device:
        held = convert(device, normal_operands(side))
        for op in OPERATIONS:
            found[op] = used(config, multiply_held(device, op, held), side)
    return found


def floating(config: Config) -> Config:
    """The same machine with accumulators e6m9."""
    values: dict[str, Any] = config.to_dict()
    return from_document(values, [f"name={config.name}_e6m9", "accumulator.kind=float"])


def utilisations(config: Config = PRODUCTS_ONLY["nano"], side: int = SIDE) -> Iterator[Figure]:
    """Of every product of side x side x side, what floats lose."""
    integers, floats = busy(config, side), busy(floating(config), side)
    for op in OPERATIONS:
        what = f"{config.name}, {op}, {side}^3"
        yield shown(f"utilisation with integers, {what}", integers[op], "{:.2%}")
        yield shown(f"utilisation with e6m9, {what}", floats[op], "{:.2%}")
        yield at_most(f"points lost, {what}", integers[op] - floats[op], MOST_LOST, "{:.2%}")
