"""Visit the blocks of a product's result, in the order in which the drain sends blocks to a
chain."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_output, data_register
from diastole_hw.schedule.tokens import LENGTH, SIZE
from diastole_hw.vector.stream_layouts import VectorShape, visited_layout
from diastole_hw.vector.streams.block_walk import block_extent


def tiles_layout() -> data.StructLayout:
    """Return the layout of the cut of a result into tiles. ``rows``, ``cols``: extents of the
    result in elements, at least 1. ``t_step``, ``l_step``: rows of blocks and columns of blocks in
    a tile, at least 1. ``lanes_outermost``: tiles are ordered column by column, otherwise row by
    row."""
    return data.StructLayout(
        {"rows": SIZE, "cols": SIZE, "t_step": LENGTH, "l_step": LENGTH, "lanes_outermost": 1}
    )


class ProductWalk(wiring.Component):
    """Visit every block of a result once. Tiles have the order of the product's loop nest. In a
    tile, rows of blocks ascend, and blocks ascend in a row. A line is a row of blocks of a tile.

    Timing: the first block is offered in the cycle after ``start``, then 1 block per cycle. All
    outputs are functions of registers and of ``tiles``.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    start : In(1)
        Pulse, after the last block of the previous walk.
    tiles : In(tiles_layout())
        Stable from the cycle after ``start`` until the last block is accepted.
    blocks : Out(stream of visited_layout(shape))
    """

    tiles: data.View
    blocks: stream.Interface

    def __init__(self, shape: VectorShape):
        self.shape = shape
        super().__init__(
            {
                "start": In(1),
                "tiles": In(tiles_layout()),
                "blocks": Out(stream.Signature(visited_layout(shape))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        block, tiles = self.blocks.p, self.tiles
        i, j = data_output(m, block.i, "i"), data_output(m, block.j, "j")
        top = data_register(i.shape(), name="top")  # first row of blocks of the tile
        left = data_register(j.shape(), name="left")  # first column of blocks of the tile
        last_row = block_extent(m, self.shape, tiles.rows, i, block.rows, "row")
        last_col = block_extent(m, self.shape, tiles.cols, j, block.cols, "col")
        bottom = Signal()  # last row of blocks of the tile
        line_ends = Signal()
        accepted = Signal()
        m.d.comb += [
            bottom.eq(last_row | (i + 1 == top + tiles.t_step)),
            line_ends.eq(last_col | (j + 1 == left + tiles.l_step)),
            block.first.eq(j == left),
            block.last.eq(line_ends),
            block.first_row.eq(i == 0),
            block.end.eq(last_row & last_col),
            accepted.eq(self.blocks.valid & self.blocks.ready),
        ]
        with m.If(accepted):
            m.d.sync += [self.blocks.valid.eq(~block.end), j.eq(j + 1)]
            with m.If(line_ends):
                m.d.sync += [j.eq(left), i.eq(i + 1)]
            with m.If(line_ends & bottom):
                self._next_tile(m, (i, j), (top, left), last_row, last_col)
        with m.If(self.start):
            m.d.sync += [self.blocks.valid.eq(1), i.eq(0), j.eq(0), top.eq(0), left.eq(0)]
        return m

    def _next_tile(self, m, at, corner, last_row, last_col):
        """Go to the first block of the tile beside or below the current tile. ``at`` is the last
        block of the current tile, ``corner`` is the first block."""
        (i, j), (top, left) = at, corner
        following_top = Signal.like(top, name="following_top")
        following_left = Signal.like(left, name="following_left")
        by_columns = self.tiles.lanes_outermost
        below = Mux(by_columns, ~last_row, last_col)
        goes_right = Mux(by_columns, last_row, ~last_col)
        first_row, first_col = by_columns & last_row, ~by_columns & last_col
        m.d.comb += [
            following_top.eq(Mux(first_row, 0, Mux(below, i + 1, top))),
            following_left.eq(Mux(first_col, 0, Mux(goes_right, j + 1, left))),
        ]
        m.d.sync += [
            top.eq(following_top),
            left.eq(following_left),
            i.eq(following_top),
            j.eq(following_left),
        ]
