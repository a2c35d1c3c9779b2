"""Data of a product as the page shows it: passes, sums, blocks and beats."""

from dataclasses import dataclass, field
from typing import NamedTuple

from diastole_hw.plan.modes import OPERATION_OF, Mode
from diastole_hw.plan.plan import Plan
from diastole_sim.spec.operations import MatrixProduct, Tensor

ENGINE = "core.engine."
DATAPATH = f"{ENGINE}datapath."
EAST, NORTH = 0, 1
"""Directions east and north, as slots number them."""


class WavesDisagree(Exception):
    """The waves and the tensors contradict each other."""


@dataclass(frozen=True, kw_only=True)
class ShownDirection:
    """A direction in use: its product, the streaming and the stationary operand, and the axes that
    vectors, rows of cells and columns of cells count.

    The fused pass computes the transpose of dX: the streaming operand of the product is stationary
    in the cells, and the reverse.
    """

    direction: int
    product: MatrixProduct
    streaming: Tensor
    stationary: Tensor
    t: str
    rows: str
    cols: str


@dataclass(frozen=True, kw_only=True)
class Pass:
    """A pass of the array.

    - ``first``, ``loads``: cycles of the first slot, and of the first word of the stationary
      blocks.
    - ``t0``, ``count``: first vector, in elements, and number of vectors, for every direction in
      use, one direction after the other.
    - ``row``, ``col``: blocks of the corner cell, along the axes of rows and of columns of cells.
    - ``rows``, ``cols``: number of blocks along the two axes that the tensor has in the pass.
    """

    first: int
    loads: int
    t0: int
    count: int
    row: int
    col: int
    rows: int
    cols: int


class Arrival(NamedTuple):
    """A block of an operand in a scratchpad, by row and column as stored. ``came`` is the cycle in
    which the first vector of the block is present. ``last`` is the cycle of the last read."""

    operand: str
    row: int
    col: int
    came: int
    last: int


@dataclass(kw_only=True)
class ShownRun:
    """A product on the array, or two in the fused pass. Cycles count from the start of the loops.

    - ``sums``: partial sum of the cell by slot, cell (row by row) and lane.
    - ``reads``: by cycle, the first letter of the tensor of a beat from memory, ``c`` for a
      command.
    - ``writes``: (cycle, result, row, first column, columns).
    - ``waits``: by cycle, ``l`` where the array waits for loaded blocks, ``a`` where the array
      waits for free accumulators.
    """

    mode: Mode
    ways: tuple[ShownDirection, ...]
    cycles: int = 0
    passes: list[Pass] = field(default_factory=list[Pass])
    sums: list[list[list[int]]] = field(default_factory=list[list[list[int]]])
    arrivals: list[Arrival] = field(default_factory=list[Arrival])
    reads: str = ""
    writes: list[tuple[int, str, int, int, int]] = field(
        default_factory=list[tuple[int, str, int, int, int]]
    )
    waits: str = ""


def ways_of(plan: Plan, mode: Mode) -> tuple[ShownDirection, ...]:
    """Return the directions that a mode uses, in the order of the mode's slots."""
    if mode != Mode.FUSED:
        use = plan.use(mode)
        (product,) = OPERATION_OF[mode].products
        rows, cols = (use.contraction, use.lanes) if use.north else (use.lanes, use.contraction)
        return (_direction(int(use.north), product, product.stationary, rows, cols),)
    to_north, to_east = OPERATION_OF[mode].products
    stationary, rows, cols = to_east.stationary, to_east.result.columns, to_east.contraction
    return (
        _direction(EAST, to_east, stationary, rows, cols),
        _direction(NORTH, to_north, stationary, rows, cols),
    )


def _direction(
    direction: int, product: MatrixProduct, stationary: Tensor, rows: str, cols: str
) -> ShownDirection:
    (streamed,) = (tensor for tensor in product.factors if tensor != stationary)
    (t,) = set(streamed.axes) - {product.contraction}
    return ShownDirection(
        direction=direction,
        product=product,
        streaming=streamed,
        stationary=stationary,
        t=t,
        rows=rows,
        cols=cols,
    )
