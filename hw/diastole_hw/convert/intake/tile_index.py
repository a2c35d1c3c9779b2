"""Count the index of a tile's first element in its tensor, instead of passing the index with the
tile."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.convert.by_class import by_class
from diastole_hw.data_registers import data_register
from diastole_hw.random.draws import INDEX_BITS
from diastole_sim.spec.image import EXTENT_BITS
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes


class TileIndex(wiring.Component):
    """Count the index of the first element of the oldest tile, row of tiles by row of tiles.

    The order is the order of :class:`diastole_hw.convert.intake.tensor_walk.TensorWalk` for tensors
    that do not come in patches.

    Timing: ``index`` is a register. It belongs to the first tile from the cycle after ``start`` on,
    and to the next tile from the cycle after ``leaves`` on.

    Parameters
    ----------
    sizes : ConverterSizes

    Members
    -------
    start : In(1)
        A tensor begins; none of its tiles leaves in this cycle.
    cls, cols : In(2), In(24)
        Class and columns of the tensor; must hold until the last tile has left.
    leaves, last_col : In(1), In(1)
        A tile leaves; the tile is the last of its row of tiles.
    index : Out(34)
        Row * ``cols`` + column of the oldest tile's first element.
    """

    def __init__(self, sizes: ConverterSizes):
        self.sizes = sizes
        super().__init__(
            {
                "start": In(1),
                "cls": In(2),
                "cols": In(EXTENT_BITS),
                "leaves": In(1),
                "last_col": In(1),
                "index": Out(INDEX_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        sizes = self.sizes
        index, row_index = (data_register(INDEX_BITS, name=name) for name in ("at", "row_at"))
        next_row = Signal(INDEX_BITS)
        tile_cols = by_class(m, self.cls, sizes.by_class(sizes.tile_cols), "tile_cols")
        m.d.comb += [
            self.index.eq(index),
            next_row.eq(row_index + of_tile_rows(m, sizes, self.cls, self.cols)),
        ]
        with m.If(self.leaves):
            m.d.sync += index.eq(index + tile_cols)
            with m.If(self.last_col):
                m.d.sync += [index.eq(next_row), row_index.eq(next_row)]
        with m.If(self.start):
            m.d.sync += [index.eq(0), row_index.eq(0)]
        return m


def of_tile_rows(m: Module, sizes: ConverterSizes, cls, one, name: str = "elements"):
    """Return ``one`` times the number of rows of a tile: the amount for a row of tiles, if ``one``
    is the amount for a row of elements."""
    shifts = [exact_log2(rows) for rows in sizes.by_class(sizes.tile_rows)]
    if len(set(shifts)) == 1:
        return one << shifts[0]
    shifted = Signal(len(one) + max(shifts), name=f"tile_{name}")
    with m.Switch(cls):
        for number, shift in enumerate(shifts):
            with m.Case(number):
                m.d.comb += shifted.eq(one << shift)
    return shifted
