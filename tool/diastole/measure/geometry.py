"""One network trained on arrays of every geometry: all must end in the same bits."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from diastole.backend import cached_product
from diastole.config.file import from_document
from diastole.config.keys import ArrayConfig, Config
from diastole.devices import Device
from diastole.measure.figure import Figure
from diastole_sim.golden.device import GoldenDevice
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.train import run_task
from diastole_sim.train.session import Trainer

STEPS, FORMAT_STEPS = 50, 12
CELLS = ((1, 1), (2, 2), (3, 2), (4, 1))
BLOCK = 4  # the block side decides the bits, so it is one for all
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
Make = Callable[[Config, int | None], AbstractContextManager[Trainer]]
"""The device of a configuration, with stalls from a seed."""


def hardware(config: Config, stalls: int | None) -> Device:
    return Device(cached_product(config), stalls=stalls)


def bfp4_everywhere(steps: int = STEPS) -> Iterator[tuple[str, Runs]]:
    """Every geometry, in place and at the edge, each with two seeds of stalls."""
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


def six_formats(steps: int = FORMAT_STEPS) -> Iterator[tuple[str, Runs]]:
    """Three geometries in each format, with and without stalls."""
    for label, (name, grouping) in FORMATS.items():
        groups = {} if grouping is None else {"block": dict.fromkeys(CLASS_NAMES, grouping)}
        configs = [
            from_document(
                {
                    "name": f"cells_{rows}x{cols}_{label.replace(' ', '_')}",
                    "array": {"rows": rows, "cols": cols, "block": BLOCK},
                    "format": dict.fromkeys(CLASS_NAMES, name),
                }
                | groups
            )
            for rows, cols in CELLS[:3]
        ]
        yield label, (configs, (None, 1), steps)


def hashes(runs: Runs, make: Make = hardware) -> Iterator[tuple[str, str]]:
    """(run, SHA-256 of the trained weights), the golden model's first."""
    configs, stall_seeds, steps = runs
    golden = GoldenDevice(configs[0].numerics)
    yield "golden", run_task("digits", golden, backend="golden", steps=steps).weights_sha256
    for config in configs:
        for stalls in stall_seeds:
            with make(config, stalls) as device:
                result = run_task("digits", device, backend="rtl", steps=steps)
            yield f"{config.name}, stalls {stalls}", result.weights_sha256


def figures(make: Make = hardware, steps: int = STEPS) -> Iterator[Figure]:
    """One: that all hashes are one."""
    for _, runs in bfp4_everywhere(steps):
        found = dict(hashes(runs, make))
        count = len(set(found.values()))
        yield Figure(
            what=f"hashes of {len(found)} trainings on {len(CELLS)} arrays",
            asked="1",
            measured=f"{count}: {found['golden'][:16]}",
            met=count == 1,
        )
