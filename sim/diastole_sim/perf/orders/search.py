"""Search the cheapest loops for products that run together, over all orders, tiles and
placements."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np

from diastole_sim.perf.orders.loops import Cut, Grid, Matrix, placements
from diastole_sim.perf.orders.systolic import SystolicMachine
from diastole_sim.spec.integers import ceil_div


class Shape(NamedTuple):
    """Sizes of X (m x k), W (k x n) and dY (m x n) in elements."""

    m: int
    n: int
    k: int


class Work(NamedTuple):
    """Work that runs at one time: cycles of the array, and bytes to and from memory."""

    array_cycles: int
    moved_bytes: int

    def cycles(self, machine: SystolicMachine) -> float:
        """Return the cycles of the work. Loads and stores hide behind the array, or the array
        behind loads and stores (double buffering)."""
        return max(self.array_cycles, self.moved_bytes / machine.bytes_per_cycle)


@dataclass(frozen=True)
class Schedule:
    """Pieces of work in sequence."""

    name: str
    work: tuple[Work, ...]

    @property
    def moved_bytes(self) -> int:
        return sum(each.moved_bytes for each in self.work)

    def cycles(self, machine: SystolicMachine) -> float:
        return sum(each.cycles(machine) for each in self.work)


def cheapest(machine: SystolicMachine, schedules: Iterable[Schedule]) -> Schedule:
    """Return the fastest schedule. Of equally fast schedules return the schedule that moves the
    fewest bytes, then the first."""
    return min(schedules, key=lambda each: (each.cycles(machine), each.moved_bytes))


def tile_sides(side: int, size: int) -> list[int]:
    """Return sides of tiles along ``size`` elements, in whole sides of the array: the smallest side
    for every possible number of tiles."""
    sides = ceil_div(size, side)
    return sorted({ceil_div(sides, count) * side for count in range(1, sides + 1)})


@cache
def search(
    machine: SystolicMachine,
    sizes: Shape,
    tensors: tuple[Matrix, ...],
    orders: tuple[str, ...],
    whole: str = "",
) -> Work | None:
    """Return the fastest work over all loops over tiles, in any of ``orders``, that fit the
    scratchpad. Of equally fast loops return the work that moves the fewest bytes. Return None if no
    loops fit.

    ``tensors``: all tensors of a step of the loops, read or written; every result is a product.
    ``whole``: axes with a single tile.
    """
    by_axis = sizes._asdict()
    axes = [tile_sides(machine.side, by_axis[axis])[-1 if axis in whole else 0 :] for axis in "mnk"]
    grid = [each.ravel() for each in np.meshgrid(*axes, indexing="ij")]
    tiles: dict[str, Grid] = dict(zip("mnk", (each.astype(np.int64) for each in grid), strict=True))
    fastest: list[tuple[float, int, int]] = []
    for order in orders:
        cut = Cut(order, by_axis, tiles)
        array = array_cycles(machine, tensors, cut)
        for placed in product(*(list(placements(machine, each, cut)) for each in tensors)):
            stored_bytes = sum((each.stored for each in placed), np.zeros_like(array))
            moved = sum((each.moved for each in placed), np.zeros_like(array))
            fits = np.flatnonzero(stored_bytes <= machine.scratchpad_bytes)
            if fits.size:
                fastest.append(_fastest(machine, array[fits], moved[fits]))
    if not fastest:
        return None
    _, moved_bytes, cycles = min(fastest)
    return Work(cycles, moved_bytes)


def _fastest(machine: SystolicMachine, array: Grid, moved: Grid) -> tuple[float, int, int]:
    """Return cycles, bytes and array cycles of the best entry."""
    cycles = np.maximum(array, moved / machine.bytes_per_cycle)
    least = cycles.min()
    near = np.flatnonzero(cycles == least)
    best = near[moved[near].argmin()]
    return float(least), int(moved[best]), int(array[best])


def array_cycles(machine: SystolicMachine, tensors: tuple[Matrix, ...], cut: Cut) -> Grid:
    """Return the array's cycles for all products whose results are among ``tensors``. Contractions
    are cut as the loops are."""
    total = np.zeros_like(cut.tiles["m"])
    for result in (each for each in tensors if each.result):
        (axis,) = set(cut.order) - set(result.axes)
        rows, lanes = (cut.sizes[each] for each in result.axes)
        passes = machine.passes(rows, lanes)
        total = total + passes * (cut.sizes[axis] + cut.counts[axis] * machine.fill_cycles)
    return total
