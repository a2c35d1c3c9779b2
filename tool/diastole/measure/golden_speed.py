"""Seconds that the golden model takes for conversions and products, by format; stacks of them."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diastole.measure.figure import Figure, at_least
from diastole_sim.golden.device import GoldenDevice
from diastole_sim.spec.numerics import Numerics

SIDE = 512
ATTEMPTS = 3
STACK, STACK_SIDE, STACK_ATTEMPTS = 32, 64, 20
LEAST_RATIO = 3.0
"""How much faster a stack is asked to be than the loop over it."""
HEADING = (
    f"{'block':>5} {'format':>10} {'groups':>7} {'w':>4} {'F':>3} {'data':>5} "
    f"{'nearest':>8} {'stoch.':>8} {'product':>8} exact"
)
STACK_HEADING = f"{'format':>10} {'groups':>7} {'loop ms':>8} {'stack ms':>8} {'ratio':>8}"


@dataclass(frozen=True)
class Case:
    """Numbers to time: all classes in one format, dY rounded stochastically."""

    block: int
    format: str
    grouping: str | None = None
    window: int | None = None
    fraction: int = 18

    @property
    def numerics(self) -> Numerics:
        plain = {"format": self.format, "rounding": "nearest", "grouping": self.grouping}
        return Numerics.from_dict(
            {
                "block": self.block,
                "x": plain,
                "w": plain,
                "dy": plain | {"rounding": "stochastic-b"},
                "random_bits": 8,
                "fraction": self.fraction,
                "headroom": 9,
                "window": self.window,
            }
        )


CASES = (
    *(Case(block, "bfp4") for block in (1, 4, 8, 32)),
    Case(8, "bfp8"),
    Case(8, "bfp4", "1x16"),
    Case(8, "fp8_e4m3"),
    Case(8, "fp8_e4m3", window=20),
    Case(8, "fp8_e4m3", window=0, fraction=0),
    Case(8, "fp8_e5m2", fraction=14),
    Case(8, "fp8_e5m2", window=48, fraction=0),
    Case(8, "bf16"),
    Case(8, "mxint8"),
    Case(8, "mxfp8_e4m3"),
    Case(8, "mxfp8_e4m3", window=0, fraction=9),
    Case(8, "mxfp8_e5m2"),
    Case(8, "mxfp6_e3m2"),
    Case(8, "mxfp6_e2m3"),
    Case(8, "mxfp4_e2m1"),
    Case(8, "nvfp4", fraction=28),
)


def data(side: int = SIDE) -> dict[str, NDArray[np.float32]]:
    """``plain``: normal numbers. ``wide``: with exponents so far apart that every block sum must be
    shifted alone, the slowest case."""
    rng = np.random.default_rng(0)
    plain = rng.standard_normal((side, side)).astype(np.float32)
    wide = (plain * 2.0 ** rng.integers(-60, 60, plain.shape)).astype(np.float32)
    return {"plain": plain, "wide": wide}


def lines(case: Case, arrays: dict[str, NDArray[np.float32]]) -> Iterator[str]:
    """A line of seconds for each kind of data."""
    chosen = case.numerics
    device = GoldenDevice(chosen)
    words = (
        f"{chosen.block:5} {chosen.x.format.name:>10} {chosen.x.grouping!s:>7} "
        f"{chosen.product_bits('x', 'w'):4} {chosen.fraction:3}"
    )
    for kind, array in arrays.items():
        x, w = device.convert(array, "x", tag=0), device.convert(array, "w", tag=1)
        nearest = seconds(lambda a=array: device.convert(a, "x", tag=0))
        stochastic = seconds(lambda a=array: device.convert(a, "dy", tag=2))
        product = seconds(lambda x=x, w=w: device.forward(x, w))
        exact = device.forward(x, w).exact
        yield f"{words} {kind:>5} {nearest:8.3f} {stochastic:8.3f} {product:8.3f} {exact}"


def stack_seconds(case: Case) -> tuple[float, float]:
    """Of a loop of calls, each a product with its conversions, and of the stack of the same."""
    device, rng = GoldenDevice(case.numerics), np.random.default_rng(0)
    x, w = rng.standard_normal((2, STACK, STACK_SIDE, STACK_SIDE)).astype(np.float32)

    def loop() -> None:
        for own, other in zip(x, w, strict=True):
            device.forward(own, other)

    # In turn, so that other work on the computer slows both.
    pairs = [
        (seconds(loop, 1), seconds(lambda: device.forward(x, w), 1)) for _ in range(STACK_ATTEMPTS)
    ]
    return min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)


def stack_line(case: Case) -> str:
    """The same for people."""
    loop, stack = stack_seconds(case)
    words = f"{case.format:>10} {case.numerics.x.grouping!s:>7}"
    return f"{words} {1e3 * loop:8.1f} {1e3 * stack:8.1f} {loop / stack:8.1f}"


def figures() -> Iterator[Figure]:
    """The figure of the README."""
    loop, stack = stack_seconds(CASES[2])
    what = f"golden stack of {STACK} x {STACK_SIDE}^3, over the loop"
    yield at_least(what, loop / stack, LEAST_RATIO, "{:.1f} x")


def seconds(work: Callable[[], object], attempts: int = ATTEMPTS) -> float:
    """The best of some attempts."""
    times: list[float] = []
    for _ in range(attempts):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
