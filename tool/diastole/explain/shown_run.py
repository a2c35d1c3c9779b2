"""The story of a product: its passes, sums, blocks and beats, as the page has them."""

from dataclasses import dataclass, field
from typing import NamedTuple

from diastole_hw.plan.modes import OPERATION_OF, Mode
from diastole_hw.plan.plan import Plan
from diastole_sim.spec.operations import MatrixProduct, Tensor

ENGINE = "core.engine."
DATAPATH = f"{ENGINE}datapath."
EAST, NORTH = 0, 1
"""Directions as slots number them."""


class Untrue(Exception):
    """The waves and the tensors do not say the same."""


@dataclass(frozen=True, kw_only=True)
class ShownWay:
    """A direction in use: the product that it computes, what streams and what is held, and the axes
    that vectors, rows of cells and columns of cells count.

    The fused pass computes dX turned: what the product streams is held, and the reverse.
    """

    direction: int
    product: MatrixProduct
    streamed: Tensor
    held: Tensor
    t: str
    rows: str
    cols: str


@dataclass(frozen=True, kw_only=True)
class Pass:
    """A pass, with the cycle of its first slot and of the first word that it holds.

    ``t0``, ``count``: the first vector, in elements, and how many; of every direction in use, one
    behind the other. ``row``, ``col``: the blocks, along the axes of rows and of columns of cells,
    that the cell in the corner has. ``rows``, ``cols``: how many the tensor has.
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
    """A block of an operand, by its row and column as it is stored, in a scratchpad: ``came``, the
    cycle in which its first vector is there, ``last``, that of its last reading."""

    operand: str
    row: int
    col: int
    came: int
    last: int


@dataclass(kw_only=True)
class ShownRun:
    """A product on the array, or two in the fused pass; cycles count from the start of its loops.

    ``sums``: by slot, cell (row by row) and lane, what the cell adds up to. ``reads``: by
    cycle, what a beat from memory is of. ``writes``: (cycle, result, row, first column, columns).
    ``waits``: by cycle, ``l`` or ``a`` where the array waits for what is loaded, or for room for
    sums.
    """

    mode: Mode
    ways: tuple[ShownWay, ...]
    cycles: int = 0
    passes: list[Pass] = field(default_factory=list[Pass])
    sums: list[list[list[int]]] = field(default_factory=list[list[list[int]]])
    arrivals: list[Arrival] = field(default_factory=list[Arrival])
    reads: str = ""
    writes: list[tuple[int, str, int, int, int]] = field(
        default_factory=list[tuple[int, str, int, int, int]]
    )
    waits: str = ""


def ways_of(plan: Plan, mode: Mode) -> tuple[ShownWay, ...]:
    """The directions that a mode uses, in the order of its slots."""
    if mode != Mode.FUSED:
        use = plan.use(mode)
        (product,) = OPERATION_OF[mode].products
        rows, cols = (use.contraction, use.lanes) if use.north else (use.lanes, use.contraction)
        return (_way(int(use.north), product, product.held, rows, cols),)
    to_north, to_east = OPERATION_OF[mode].products
    held, rows, cols = to_east.held, to_east.result.columns, to_east.contraction
    return (_way(EAST, to_east, held, rows, cols), _way(NORTH, to_north, held, rows, cols))


def _way(direction: int, product: MatrixProduct, held: Tensor, rows: str, cols: str) -> ShownWay:
    (streamed,) = (tensor for tensor in product.factors if tensor != held)
    (t,) = set(streamed.axes) - {product.contraction}
    return ShownWay(
        direction=direction,
        product=product,
        streamed=streamed,
        held=held,
        t=t,
        rows=rows,
        cols=cols,
    )
