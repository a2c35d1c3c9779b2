"""The check of a product: what it must notice of every fault in its Verilog.

A scene drives the machine and notes what it sees: bits of results, every register after every
command, what was on the bus, cycles. Without a fault the golden model judges the results, and all
that was seen is recorded; with a fault the same must be seen again. So a fault is noticed by one
wrong bit, by a counter, or by a single cycle.

Scenes that notice most stand first.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from diastole_sim.host.errors import HardwareError, ProductError
from mutation.scenes_of_commands import errors, flights, resets, small_tiles, sudden_resets, windows
from mutation.scenes_of_products import (
    all_but_one,
    every_kind,
    full_buffers,
    given_scales,
    long_rows,
    nests,
    odd_sizes,
    one_result,
    slow_memory,
    stalls,
)
from mutation.scenes_of_registers import registers
from mutation.watch import Log, Noted

Scene = Callable[[Path, Log], None]
SCENES: tuple[Scene, ...] = (
    every_kind,
    registers,
    errors,
    stalls,
    nests,
    flights,
    odd_sizes,
    resets,
    slow_memory,
    all_but_one,
    one_result,
    given_scales,
    windows,
    sudden_resets,
    full_buffers,
    long_rows,
    small_tiles,
)


Recorded = dict[Scene, Noted]


def record(product: Path, scenes: Iterable[Scene] = SCENES) -> Recorded:
    """What each scene sees without a fault; AssertionError if the golden model disagrees."""
    found: Recorded = {}
    for scene in scenes:
        log = Log()
        scene(product, log)
        found[scene] = log.noted
    return found


def noticed(product: Path, recorded: Recorded) -> str | None:
    """What notices the fault that the environment names; None if nothing does."""
    for scene, expected in recorded.items():
        try:
            scene(product, Log(expected))
        except (AssertionError, HardwareError, ProductError) as error:
            return f"{scene.__name__}: {str(error).partition(chr(10))[0][:60]}"
    return None
