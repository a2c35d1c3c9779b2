"""Visit the blocks of a tensor in order."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_output
from diastole_hw.vector.stream_layouts import VectorShape, visited_layout
from diastole_sim.spec.image import MAX_SIZE


class BlockWalk(wiring.Component):
    """Visit every block of a tensor once, by rows of blocks or by columns of blocks.

    Timing: the first block is offered in the cycle after ``start``, then 1 block per cycle. All
    outputs are functions of registers and of ``rows``, ``cols`` and ``by_columns``.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    start : In(1)
        Pulse, after the last block of the previous walk.
    rows, cols : In(range(MAX_SIZE + 1))
        Extents of the tensor, at least 1. Stable until the last block is accepted.
    by_columns : In(1)
        Visit by columns of blocks. Stable until the last block is accepted.
    blocks : Out(stream of visited_layout(shape))
    """

    blocks: stream.Interface

    def __init__(self, shape: VectorShape):
        self.shape = shape
        super().__init__(
            {
                "start": In(1),
                "rows": In(range(MAX_SIZE + 1)),
                "cols": In(range(MAX_SIZE + 1)),
                "by_columns": In(1),
                "blocks": Out(stream.Signature(visited_layout(shape))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        block = self.blocks.p
        i, j = data_output(m, block.i, "i"), data_output(m, block.j, "j")
        last_row = block_extent(m, self.shape, self.rows, i, block.rows, "row")
        last_col = block_extent(m, self.shape, self.cols, j, block.cols, "col")
        accepted = Signal()
        across, down = Signal(), Signal()  # step to the next column, to the next row of blocks
        m.d.comb += [
            block.first.eq(Mux(self.by_columns, i, j) == 0),
            block.last.eq(Mux(self.by_columns, last_row, last_col)),
            block.first_row.eq(i == 0),
            block.end.eq(last_row & last_col),
            accepted.eq(self.blocks.valid & self.blocks.ready),
            across.eq(~self.by_columns | last_row),
            down.eq(self.by_columns | last_col),
        ]
        with m.If(accepted):
            m.d.sync += self.blocks.valid.eq(~block.end)
            with m.If(across):
                m.d.sync += j.eq(Mux(last_col, 0, j + 1))
            with m.If(down):
                m.d.sync += i.eq(Mux(last_row, 0, i + 1))
        with m.If(self.start):
            m.d.sync += [self.blocks.valid.eq(1), i.eq(0), j.eq(0)]
        return m


def block_extent(m, shape: VectorShape, size, number, inside, name: str):
    """Set ``inside`` to the extent of block ``number`` inside a tensor of ``size`` elements in this
    direction. Return whether the block is the last block."""
    last = Signal(name=f"last_{name}")
    most = Signal.like(size, name=f"most_{name}")  # number of the last row or column
    bits = shape.row_bits
    m.d.comb += [
        most.eq(size - 1),
        last.eq(number == most[bits:]),
        inside.eq(Mux(last, most[:bits] + 1, shape.block)),
    ]
    return last
