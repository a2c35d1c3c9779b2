"""Count the traffic of tiled loops exactly: bytes of every tensor on chip, and bytes moved."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diastole_sim.perf.orders.systolic import SystolicMachine

Grid = NDArray[np.int64]
"""Array with one number for every way to cut the loops."""


@dataclass(frozen=True)
class Matrix:
    """Matrix over two of the axes m, n, k. ``result``: True for a matrix of sums, False for an
    operand."""

    name: str
    axes: str
    result: bool = False


X, W, DY = Matrix("X", "mk"), Matrix("W", "kn"), Matrix("dY", "mn")
Y, DX, DW = Matrix("Y", "mn", True), Matrix("dX", "mk", True), Matrix("dW", "kn", True)

FORWARD = (X, W, Y)
INPUT_GRADIENT = (DY, W, DX)
WEIGHT_GRADIENT = (X, DY, DW)
BOTH_GRADIENTS = (DY, X, W, DX, DW)


@dataclass(frozen=True)
class Cut:
    """Loops over tiles. ``order``: axes, the outermost first. By axis: ``sizes``, elements;
    ``tiles``, elements of a tile; ``counts``, number of tiles."""

    order: str
    sizes: Mapping[str, int]
    tiles: Mapping[str, Grid]

    @property
    def counts(self) -> dict[str, Grid]:
        return {axis: -(-self.sizes[axis] // tile) for axis, tile in self.tiles.items()}


@dataclass(frozen=True)
class Placement:
    """Placement of one tensor. ``stored``: most bytes on chip. ``moved``: bytes moved in all."""

    stored: Grid
    moved: Grid


def placements(machine: SystolicMachine, tensor: Matrix, cut: Cut) -> Iterator[Placement]:
    """Yield the ways to place a tensor in the scratchpad.

    Two of the three loops choose the tensor's tile. The third loop, ``over``, returns to the tile.
    In the first way, the tensor is moved again in every round of ``over``, and a single tile is on
    chip. In the second way, everything that a round touches is kept. If ``over`` is innermost, the
    tile stays without being kept. A place that is filled more than once exists twice (double
    buffer): one half fills, or is emptied, while the second half is in use.
    """
    counts = cut.counts
    (over,) = set(cut.order) - set(tensor.axes)
    at = cut.order.index(over)
    outside = [axis for axis in cut.order[:at] if axis in tensor.axes]
    inside = [axis for axis in cut.order[at + 1 :] if axis in tensor.axes]
    one = np.ones_like(counts[over])
    whole = {axis: one * cut.sizes[axis] for axis in tensor.axes}
    clipped = {axis: np.minimum(cut.tiles[axis], cut.sizes[axis]) for axis in tensor.axes}

    places = _product(one, (counts[axis] for axis in tensor.axes))
    again = np.where(_product(one, (counts[axis] for axis in inside)) > 1, counts[over], 1)
    yield _placement(machine, tensor, cut, _product(one, clipped.values()), places > 1, again)
    if inside:
        extents = {axis: clipped[axis] if axis in outside else whole[axis] for axis in tensor.axes}
        rounds = _product(one, (counts[axis] for axis in outside))
        yield _placement(machine, tensor, cut, _product(one, extents.values()), rounds > 1, one)


def _placement(
    machine: SystolicMachine,
    tensor: Matrix,
    cut: Cut,
    elements: Grid,
    double: NDArray[np.bool_],
    times: Grid,
) -> Placement:
    """Return a placement. ``times``: visits to the whole tensor. A result that is visited again is
    loaded as sums, and stored as sums except for the last visit."""
    first, second = (cut.sizes[axis] for axis in tensor.axes)
    size = first * second
    stored = elements * np.where(double, 2, 1)
    if not tensor.result:
        width = machine.element_bytes
        return Placement(stored * width, size * width * times)
    spilled = 2 * (times - 1) * machine.sum_bytes
    return Placement(stored * machine.sum_bytes, size * (spilled + machine.result_bytes))


def _product(one: Grid, values: Iterable[Grid]) -> Grid:
    result = one
    for value in values:
        result = result * value
    return result
