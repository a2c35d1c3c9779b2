"""Trains one network on arrays of every geometry: all must end in the same bits.

    python scripts/bench_geometry.py [STEPS] [--formats]

Arrays of 1 x 1, 2 x 2, 3 x 2 and 4 x 1 cells with B = 4, transposing in place and at the edge, each
with two seeds of stalls, and the golden model. With ``--formats``: 1 x 1, 2 x 2 and 3 x 2 cells of
six formats, with and without stalls, 12 steps. Prints a line per run; exit 1 if two hashes of the
same numbers differ.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence

from diastole.backend import cached_product
from diastole.config import ArrayConfig, Config
from diastole.config_file import from_document
from diastole_sim.golden.machine import GoldenDevice
from diastole_sim.rtl import Device
from diastole_sim.train import run_task

STEPS, FORMAT_STEPS = 50, 12
CELLS = ((1, 1), (2, 2), (3, 2), (4, 1))
BLOCK = 4  # the block side decides the bits, so it is one for all
CLASSES = ("x", "w", "dy")
FORMATS = {
    "bfp4 4x4": ("bfp4", "4x4"),
    "bfp4 1x16": ("bfp4", "1x16"),
    "mxfp8_e4m3": ("mxfp8_e4m3", None),
    "fp8_e5m2": ("fp8_e5m2", None),
    "nvfp4": ("nvfp4", None),
    "mxfp4_e2m1": ("mxfp4_e2m1", None),
}
Runs = tuple[list[Config], Sequence[int | None], int]
"""Configurations of the same numbers, the seeds of stalls, the steps."""


def bfp4_everywhere(steps: int) -> Iterator[tuple[str, Runs]]:
    arrays = (
        ArrayConfig(rows=rows, cols=cols, block=BLOCK, transpose=transpose)
        for transpose in ("in_place", "edge")
        for rows, cols in CELLS
    )
    configs = [
        Config(name=f"cells_{array.rows}x{array.cols}_{array.transpose}", array=array)
        for array in arrays
    ]
    yield "bfp4", (configs, (1, 2), steps)


def six_formats(steps: int) -> Iterator[tuple[str, Runs]]:
    for label, (name, grouping) in FORMATS.items():
        groups = {} if grouping is None else {"block": dict.fromkeys(CLASSES, grouping)}
        configs = [
            from_document(
                {
                    "name": f"cells_{rows}x{cols}_{label.replace(' ', '_')}",
                    "array": {"rows": rows, "cols": cols, "block": BLOCK},
                    "format": dict.fromkeys(CLASSES, name),
                }
                | groups
            )
            for rows, cols in CELLS[:3]
        ]
        yield label, (configs, (None, 1), steps)


def hashes(runs: Runs) -> Iterator[tuple[str, str]]:
    """(run, SHA-256 of the trained weights), the golden model's first."""
    configs, stall_seeds, steps = runs
    golden = GoldenDevice(configs[0].numerics)
    yield "golden", run_task("digits", golden, backend="golden", steps=steps).weights_sha256
    for config in configs:
        for stalls in stall_seeds:
            with Device(cached_product(config), stalls=stalls) as device:
                result = run_task("digits", device, backend="rtl", steps=steps)
            yield f"{config.name}, stalls {stalls}", result.weights_sha256


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("steps", type=int, nargs="?")
    parser.add_argument("--formats", action="store_true", help="six formats instead of bfp4")
    given = parser.parse_args()
    if given.formats:
        wanted = six_formats(given.steps or FORMAT_STEPS)
    else:
        wanted = bfp4_everywhere(given.steps or STEPS)
    failed = False
    for label, runs in wanted:
        found = set()
        for run, sha256 in hashes(runs):
            found.add(sha256)
            print(f"{run:36} {sha256}", flush=True)
        print(f"{label}: {len(found)} result{'s' * (len(found) > 1)}", flush=True)
        failed |= len(found) > 1
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
