"""Assemble words of the converter from rows of blocks that a chain streams."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.convert.tile_order import Numbers, TileOrder, cut_layout
from diastole_hw.data_registers import data_register
from diastole_hw.memory.ram import Ram
from diastole_sim.spec.image import EXTENT_BITS
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes

_FLOAT = 32


def block_row_layout(block: int) -> data.ArrayLayout:
    """Return the layout of a row of a block: the floats from the left."""
    return data.ArrayLayout(unsigned(_FLOAT), block)


class WordAssembler(wiring.Component):
    """Assemble the words of a tensor from its blocks. Rows of blocks come from the top, blocks of a
    row from the left, and a block with all its rows. Or patches come one after the other, with
    their blocks in this order.

    Words are output in the order of the blocks, the words of a block row by row. If a word covers
    several blocks, the words of these blocks come row by row. Only words that begin inside the
    tensor are output. Lanes outside the tensor are arbitrary, as in the rows.

    Timing: a word is output in the cycle in which its row is offered. A row is accepted with its
    last word. Rows below the tensor are accepted at once. If a word covers several blocks, a row is
    accepted per cycle, and rows of all blocks but the last wait in a memory. A word is output 1
    cycle after the row of the last of its blocks. ``i.ready`` does not depend on ``i.valid``.

    Parameters
    ----------
    sizes : ConverterSizes

    Members
    -------
    start : In(1)
        A pulse before a tensor; only while not ``busy``.
    rows, cols : In(24)
        At least 1. Must hold until the last row is accepted. Not checked.
    cut : In(:func:`diastole_hw.convert.tile_order.cut_layout`)
        Cut in blocks; must hold as ``rows``. A word covers no blocks of two patches; not checked.
    i : In(stream of :func:`block_row_layout`)
    o : Out(stream of unsigned(32 * lanes))
    busy : Out(1)
        Rows are still to come. No row is accepted while ``busy`` is low.
    """

    def __init__(self, sizes: ConverterSizes):
        self.sizes = sizes
        super().__init__(
            {
                "start": In(1),
                "rows": In(EXTENT_BITS),
                "cols": In(EXTENT_BITS),
                "cut": In(cut_layout()),
                "i": In(stream.Signature(block_row_layout(sizes.block))),
                "o": Out(stream.Signature(unsigned(_FLOAT * sizes.lanes))),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.d.sync += Assert(~self.start | ~self.busy, "started with rows left")
        block = self.sizes.block
        row = Signal(range(block))
        m.submodules.order = order = TileOrder()
        rows_left, _ = order.follow(m, Numbers(self.rows, 0, -block), "rows_left")
        cols_left, _ = order.follow(m, Numbers(self.cols, -block, 0), "cols_left")
        inside = Signal()
        took = Signal()
        block_end = Signal()
        m.d.comb += [
            inside.eq(row < rows_left),
            took.eq(self.i.valid & self.i.ready),
            block_end.eq(took & (row == block - 1)),
            order.start.eq(self.start),
            order.cut.eq(self.cut),
            order.advance.eq(block_end),
            order.last_row.eq(rows_left <= block),
            order.last_col.eq(cols_left <= block),
        ]
        with m.If(took):
            m.d.sync += row.eq(row + 1)
        with m.If(block_end & order.last_row & order.last_col):
            m.d.sync += self.busy.eq(0)
        with m.If(self.start):
            m.d.sync += self.busy.eq(1)
        if self.sizes.word_chunks == 1:
            self._divide(m, inside, cols_left)
        else:
            self._join(m, row, inside, took, block_end, order.last_col)
        return m

    def _divide(self, m, inside, cols_left):
        """Divide a row of a block into words, at least one."""
        sizes = self.sizes
        word = Signal(range(sizes.block_words))
        row_end = Signal()
        beyond = (word + 1) << exact_log2(sizes.lanes)
        row = self.i.payload.as_value()
        m.d.comb += [
            row_end.eq((word == sizes.block_words - 1) | (beyond >= cols_left)),
            self.o.payload.eq(row.word_select(word, _FLOAT * sizes.lanes)),
            self.o.valid.eq(self.busy & self.i.valid & inside),
            self.i.ready.eq(self.busy & (~inside | (row_end & self.o.ready))),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += word.eq(Mux(row_end, 0, word + 1))

    def _join(self, m, row, inside, took, block_end, line_end):
        """Join the rows of several blocks to a word: rows of all blocks but the last wait for the
        last."""
        sizes = self.sizes
        chunk = Signal(range(sizes.word_chunks))
        whole = Signal()  # the row completes a word
        valid = Signal()
        last = data_register(_FLOAT * sizes.block)
        last_chunk = data_register(range(sizes.word_chunks))
        m.d.comb += [
            whole.eq(inside & (line_end | (chunk == sizes.word_chunks - 1))),
            self.i.ready.eq(self.busy & (~whole | ~valid | self.o.ready)),
            self.o.valid.eq(valid),
        ]
        with m.If(~valid | self.o.ready):
            m.d.sync += valid.eq(took & whole)
        with m.If(took & whole):
            m.d.sync += [last.eq(self.i.payload), last_chunk.eq(chunk)]
        with m.If(block_end):
            m.d.sync += chunk.eq(Mux(line_end, 0, chunk + 1))
        parts = []
        for n in range(sizes.word_chunks - 1):
            waiting = Ram(width=_FLOAT * sizes.block, depth=max(2, sizes.block))
            m.submodules[f"waiting{n}"] = waiting
            m.d.comb += [
                waiting.write_en.eq(took & (chunk == n)),
                waiting.write_addr.eq(row),
                waiting.write_data.eq(self.i.payload),
                waiting.read_en.eq(took & whole & (chunk != n)),
                waiting.read_addr.eq(row),
            ]
            parts.append(Mux(last_chunk == n, last, waiting.read_data))
        m.d.comb += self.o.payload.eq(Cat(*parts, last))
