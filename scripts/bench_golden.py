"""Times the golden model on one core: conversions and products of 512 x 512 x 512, by block side.

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


def numerics(block: int, name: str) -> Numerics:
    plain = {"format": name, "rounding": NEAREST}
    return Numerics.from_dict(
        {
            "block": block,
            "x": plain,
            "w": plain,
            "dy": {"format": name, "rounding": STOCHASTIC},
            "random_bits": 8,
            "fraction": 18,
            "headroom": 14,
        }
    )


def seconds(work: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    rng = np.random.default_rng(0)
    plain = rng.standard_normal((SIDE, SIDE)).astype(np.float32)
    wide = (plain * 2.0 ** rng.integers(-60, 60, plain.shape)).astype(np.float32)
    print(
        f"{'block':>5} {'format':>6} {'data':>5} {'nearest':>8} {'stoch.':>8} {'product':>8} exact"
    )
    for block, name in ((1, "bfp4"), (4, "bfp4"), (8, "bfp4"), (8, "bfp8"), (32, "bfp4")):
        device = GoldenDevice(numerics(block, name))
        for kind, data in (("plain", plain), ("wide", wide)):
            x, w = device.convert(data, "x", tag=0), device.convert(data, "w", tag=1)
            nearest = seconds(lambda d=device, a=data: d.convert(a, "x", tag=0))
            stochastic = seconds(lambda d=device, a=data: d.convert(a, "dy", tag=2))
            product = seconds(lambda d=device, x=x, w=w: d.forward(x, w))
            exact = device.forward(x, w).exact
            print(
                f"{block:5} {name:>6} {kind:>5} {nearest:8.3f} {stochastic:8.3f} {product:8.3f} "
                f"{exact}"
            )


if __name__ == "__main__":
    main()
