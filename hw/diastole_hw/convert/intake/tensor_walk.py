"""Visit a tensor tile by tile, in the order in which the converter reads the tensor."""

from amaranth.hdl import Assert, Const, Module, Mux
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.convert.by_class import by_class
from diastole_hw.convert.intake.tile_index import of_tile_rows
from diastole_hw.convert.tile_layouts import (
    walked_layout,
)
from diastole_hw.convert.tile_order import Numbers, cut_layout, make_tile_order
from diastole_hw.random.draws import INDEX_BITS
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.image import EXTENT_BITS, PITCH_BITS
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes


class TensorWalk(wiring.Component):
    """Visit the tiles of a tensor, row of tiles by row of tiles, or patch by patch.

    Timing: the first tile is valid in the cycle after ``start``; 1 tile per cycle. ``o.valid`` is a
    register. ``o.payload`` is combinational from registers and ``cls``.

    Parameters
    ----------
    sizes : ConverterSizes
    in_patches : bool
        True if a chain may stream tensors in patches.

    Members
    -------
    start : In(1)
        Begin a tensor. Allowed only while no tile of the previous tensor is left; not checked.
    cls : In(2)
    rows, cols : In(24)
        At least 1; not checked. Must hold until the last tile is accepted, as must all inputs but
        ``start``.
    source : In(40)
        Address of the float tensor, aligned to beats.
    pitch : In(27)
        Bytes from a row of floats to the next.
    cut : In(:func:`diastole_hw.convert.tile_order.cut_layout`)
        Present with ``in_patches``. ``o.p.address`` is arbitrary if the tensor is cut.
    o : Out(stream of :func:`walked_layout`)
        ``index`` is valid only with ``in_patches``; else
        :class:`diastole_hw.convert.intake.tile_index.TileIndex` counts the index.
    """

    def __init__(self, sizes: ConverterSizes, *, in_patches: bool = False):
        self.in_patches = in_patches
        self.sizes = sizes
        super().__init__(
            ({"cut": In(cut_layout())} if in_patches else {})
            | {
                "start": In(1),
                "cls": In(2),
                "rows": In(EXTENT_BITS),
                "cols": In(EXTENT_BITS),
                "source": In(ADDRESS_BITS),
                "pitch": In(PITCH_BITS),
                "o": Out(stream.Signature(walked_layout(self.sizes))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        sizes = self.sizes
        tile_rows = by_class(m, self.cls, sizes.by_class(sizes.tile_rows), "tile_rows")
        tile_cols = by_class(m, self.cls, sizes.by_class(sizes.tile_cols), "tile_cols")
        tile = self.o.p
        order = make_tile_order(
            m,
            "order",
            cut=self.cut if self.in_patches else None,
            start=self.start,
            advance=self.o.valid & self.o.ready,
            last_row=tile.last_row,
            last_col=tile.last_col,
        )
        row_bytes = of_tile_rows(m, sizes, self.cls, self.pitch, "pitch")
        rows_left, _ = order.follow(m, Numbers(self.rows, 0, -tile_rows), "rows_left")
        cols_left, _ = order.follow(m, Numbers(self.cols, -tile_cols, 0), "cols_left")
        if self.in_patches:
            row_elements = of_tile_rows(m, sizes, self.cls, self.cols)
            numbers = Numbers(Const(0, INDEX_BITS), tile_cols, row_elements)
            index, _ = order.follow(m, numbers, "index")
            m.d.comb += tile.index.eq(index)
        # Every tile's address is aligned to so many bytes.
        aligned = min(4 * min(sizes.by_class(sizes.tile_cols)), sizes.beat_bytes)
        addresses = Numbers(self.source, tile_cols << 2, row_bytes, unit=aligned)
        address, _ = order.follow(m, addresses, "address")
        first_row, first_col = order.firsts(m)
        m.d.comb += [
            tile.first_row.eq(first_row),
            tile.first_col.eq(first_col),
            tile.address.eq(address),
            tile.rows.eq(Mux(tile.last_row, rows_left, tile_rows)),
            tile.cols.eq(Mux(tile.last_col, cols_left, tile_cols)),
            tile.last_row.eq(rows_left <= tile_rows),
            tile.last_col.eq(cols_left <= tile_cols),
        ]
        with m.If(order.advance & tile.last_row & tile.last_col):
            m.d.sync += self.o.valid.eq(0)
        with m.If(self.start):
            m.d.sync += self.o.valid.eq(1)
        some = self.rows.any() & self.cols.any()
        m.d.sync += Assert(~self.start | ~self.o.valid, "started with tiles left")
        m.d.sync += Assert(~self.start | some, "started without elements")
        return m
