"""The index of a tile's first element in its tensor: found out anew, not carried along with it."""

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
    """Count the tiles of a tensor, row of tiles by row of tiles, as
    :class:`diastole_hw.convert.intake.tensor_walk.TensorWalk` visits them where tensors come in no
    patches.

    Timing: ``index`` is a register, of the first tile from the cycle after ``start`` on, of the
    next one from the cycle after ``leaves`` on.

    Parameters
    ----------
    sizes : ConverterSizes

    Members
    -------
    start : In(1)
        A tensor begins; none of its tiles leaves in this cycle.
    cls, cols : In(2), In(24)
        Of the tensor; must hold until its last tile has left.
    leaves, last_col : In(1), In(1)
        A tile leaves, and whether it is the last one of its row of tiles.
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
        tile_cols = by_class(m, self.cls, sizes.of_classes(sizes.tile_cols), "tile_cols")
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
    """What a row of tiles has of something of which a row of elements has ``one``."""
    shifts = [exact_log2(rows) for rows in sizes.of_classes(sizes.tile_rows)]
    if len(set(shifts)) == 1:
        return one << shifts[0]
    shifted = Signal(len(one) + max(shifts), name=f"tile_{name}")
    with m.Switch(cls):
        for number, shift in enumerate(shifts):
            with m.Case(number):
                m.d.comb += shifted.eq(one << shift)
    return shifted
