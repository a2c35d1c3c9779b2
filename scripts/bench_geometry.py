"""Trains one network on arrays of every geometry: all must end in the same bits.

    python scripts/bench_geometry.py [STEPS]

Arrays of 1 x 1, 2 x 2, 3 x 2 and 4 x 1 cells with B = 4, transposing in place and at the edge, each
with two seeds of stalls, and the golden model. Prints a line per run; exit 1 if two hashes differ.
"""

import sys
from collections.abc import Iterator

from diastole.backend import cached_product
from diastole.config import ArrayConfig, Config
from diastole_sim.golden.machine import GoldenDevice
from diastole_sim.rtl import Device
from diastole_sim.train import run_task

STEPS = 50
CELLS = ((1, 1), (2, 2), (3, 2), (4, 1))
STALL_SEEDS = (1, 2)
BLOCK = 4  # the block side decides the bits, so it is one for all


def configs() -> Iterator[Config]:
    for transpose in ("in_place", "edge"):
        for rows, cols in CELLS:
            array = ArrayConfig(rows=rows, cols=cols, block=BLOCK, transpose=transpose)
            yield Config(name=f"cells_{rows}x{cols}_{transpose}", array=array)


def hashes(steps: int = STEPS) -> Iterator[tuple[str, str]]:
    """(run, SHA-256 of the trained weights), the golden model's first."""
    golden = GoldenDevice(next(configs()).numerics)
    yield "golden", run_task("digits", golden, backend="golden", steps=steps).weights_sha256
    for config in configs():
        for stalls in STALL_SEEDS:
            with Device(cached_product(config), stalls=stalls) as device:
                result = run_task("digits", device, backend="rtl", steps=steps)
            yield f"{config.name}, stalls {stalls}", result.weights_sha256


def main() -> int:
    found = set()
    for run, sha256 in hashes(int(sys.argv[1]) if len(sys.argv) > 1 else STEPS):
        found.add(sha256)
        print(f"{run:28} {sha256}", flush=True)
    print(f"{len(found)} result{'s' * (len(found) > 1)}")
    return int(len(found) > 1)


if __name__ == "__main__":
    sys.exit(main())
