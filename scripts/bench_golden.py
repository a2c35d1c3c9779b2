"""Times the golden model on one core: conversions and products of 512 x 512 x 512, by format.

    python scripts/bench_golden.py

Prints seconds, the best of three; asserts nothing. ``wide`` data has exponents so far apart that
every block sum must be shifted alone, the slowest case.
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # read by numpy when it is first imported

import time  # noqa: E402
from collections.abc import Callable  # noqa: E402

import numpy as np  # noqa: E402

from diastole_sim.golden.machine import GoldenDevice  # noqa: E402
from diastole_sim.numerics import Numerics  # noqa: E402

SIDE = 512
NEAREST, STOCHASTIC = "nearest", "stochastic-b"


def numerics(
    block: int, name: str, grouping: str | None, window: int | None, fraction: int
) -> Numerics:
    plain = {"format": name, "rounding": NEAREST, "grouping": grouping}
    return Numerics.from_dict(
        {
            "block": block,
            "x": plain,
            "w": plain,
            "dy": {**plain, "rounding": STOCHASTIC},
            "random_bits": 8,
            "fraction": fraction,
            "headroom": 9,
            "window": window,
        }
    )


def seconds(work: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


CASES = (
    # block, format, grouping, window, fraction
    *((block, "bfp4", None, None, 18) for block in (1, 4, 8, 32)),
    (8, "bfp8", None, None, 18),
    (8, "bfp4", "1x16", None, 18),
    (8, "fp8_e4m3", None, None, 18),
    (8, "fp8_e4m3", None, 20, 18),
    (8, "fp8_e4m3", None, 0, 0),
    (8, "fp8_e5m2", None, None, 14),
    (8, "fp8_e5m2", None, 48, 0),
    (8, "bf16", None, None, 18),
    (8, "mxint8", None, None, 18),
    (8, "mxfp8_e4m3", None, None, 18),
    (8, "mxfp8_e4m3", None, 0, 9),
    (8, "mxfp8_e5m2", None, None, 18),
    (8, "mxfp6_e3m2", None, None, 18),
    (8, "mxfp6_e2m3", None, None, 18),
    (8, "mxfp4_e2m1", None, None, 18),
    (8, "nvfp4", None, None, 28),
)


def main() -> None:
    rng = np.random.default_rng(0)
    plain = rng.standard_normal((SIDE, SIDE)).astype(np.float32)
    wide = (plain * 2.0 ** rng.integers(-60, 60, plain.shape)).astype(np.float32)
    print(
        f"{'block':>5} {'format':>10} {'groups':>7} {'w':>4} {'F':>3} {'data':>5} "
        f"{'nearest':>8} {'stoch.':>8} {'product':>8} exact"
    )
    for case in CASES:
        chosen = numerics(*case)
        device = GoldenDevice(chosen)
        words = (
            f"{chosen.block:5} {chosen.x.format.name:>10} {chosen.x.grouping!s:>7} "
            f"{chosen.product_bits('x', 'w'):4} {chosen.fraction:3}"
        )
        for kind, data in (("plain", plain), ("wide", wide)):
            x, w = device.convert(data, "x", tag=0), device.convert(data, "w", tag=1)
            nearest = seconds(lambda d=device, a=data: d.convert(a, "x", tag=0))
            stochastic = seconds(lambda d=device, a=data: d.convert(a, "dy", tag=2))
            product = seconds(lambda d=device, x=x, w=w: d.forward(x, w))
            exact = device.forward(x, w).exact
            print(f"{words} {kind:>5} {nearest:8.3f} {stochastic:8.3f} {product:8.3f} {exact}")


if __name__ == "__main__":
    main()
