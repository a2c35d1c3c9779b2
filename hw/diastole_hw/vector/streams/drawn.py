"""Draw the random numbers that a chain reads, row by row."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.data_registers import data_output, data_register
from diastole_hw.random.draws import INDEX_BITS, Draws
from diastole_hw.transfer.address import AddressGenerator
from diastole_hw.vector.stream_layouts import STEP_BITS, VectorShape
from diastole_sim.spec.image import EXTENT_BITS
from diastole_sim.spec.rounding import DRAW_BITS
from diastole_sim.spec.sizes.draws import chain_draw_lanes, chain_hashes_ahead


def drawn_layout(shape: VectorShape) -> data.ArrayLayout:
    """Return the layout of a row of random numbers: B draws of 16 bits, lane 0 lowest."""
    return data.ArrayLayout(DRAW_BITS, shape.block)


class DrawnRows(wiring.Component):
    """Draw a random number for every element of the blocks of a chain's tensor.

    Element (row, column) draws all 16 bits of :class:`diastole_hw.random.draws.Draws` with the
    index row * ``columns`` + column. All B rows of a block are drawn. Elements outside the tensor
    have draws of other elements.

    Timing: a row takes B / :func:`diastole_sim.spec.sizes.draws.chain_draw_lanes` cycles. If
    ``columns`` is not a multiple of 4, most rows take the cycles of one more hash. The index of a
    block's first element is computed beside the rows of the block before. This takes 2 cycles, plus
    as many as ``i`` has bits (from the highest 1 on). The first row of a chain comes the latency of
    the draws later than these cycles and the cycles of a row.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    blocks : In(stream of {"i": index, "j": index})
        Row and column of blocks.
    columns : In(range(MAX_SIZE + 1))
        Columns of the tensor.
    seed, tag, step : In(32)
        Stable, as is ``columns``, from 2 cycles before the first block to the last row.
    o : Out(stream of drawn_layout(shape))
        B rows for every block, in the order of ``blocks``. ``o`` is a register.
    """

    blocks: stream.Interface
    o: stream.Interface

    def __init__(self, shape: VectorShape):
        self.shape, self.lanes = shape, chain_draw_lanes(shape.block)
        place = data.StructLayout(dict.fromkeys("ij", shape.index_bits))
        super().__init__(
            {
                "blocks": In(stream.Signature(place)),
                "columns": In(EXTENT_BITS),
                "seed": In(32),
                "tag": In(32),
                "step": In(STEP_BITS),
                "o": Out(stream.Signature(drawn_layout(shape))),
            }
        )

    @property
    def _words(self) -> int:
        """Number of words of a row."""
        return self.shape.block // self.lanes

    def elaborate(self, platform):
        m = Module()
        m.submodules.draws = draws = Draws(
            lanes=self.lanes,
            random_bits=DRAW_BITS,
            copies=1,
            rows=1,
            hashes_ahead=chain_hashes_ahead(self.shape.block),
        )
        m.d.comb += [
            draws.seed.eq(self.seed),
            draws.tag.eq(self.tag),
            draws.step.eq(self.step),
        ]
        self._request(m, draws.i)
        self._collect(m, draws.o)
        return m

    def _request(self, m, words):
        """Request the words of every block, rows ascending."""
        moves, here = Signal(), Signal()  # the next block begins; words of a block are requested
        located, first = self._locate(m, moves)
        index = data_register(INDEX_BITS, name="index")  # first element of the row
        row, word = Signal(range(self.shape.block)), Signal(range(self._words))
        accepted, row_ends, ends = Signal(), Signal(), Signal()
        m.d.comb += [
            words.valid.eq(here),
            words.p.index.eq(index + (word << exact_log2(self.lanes))),
            words.p.goes_on.eq(word != 0),
            accepted.eq(words.valid & words.ready),
            row_ends.eq(accepted & (word == self._words - 1)),
            ends.eq(row_ends & (row == self.shape.block - 1)),
            moves.eq(located & (~here | ends)),
        ]
        with m.If(accepted):
            m.d.sync += word.eq(Mux(row_ends, 0, word + 1))
        with m.If(row_ends):
            m.d.sync += [row.eq(Mux(ends, 0, row + 1)), index.eq(index + self.columns)]
        with m.If(moves):
            m.d.sync += index.eq(first)
        m.d.sync += here.eq(moves | (here & ~ends))

    def _locate(self, m, moves):
        """Compute the index of the first element of the next block. Return whether the index is
        known, and the index."""
        low, occupied = self.shape.row_bits, Signal()
        locate = AddressGenerator(count_bits=self.shape.index_bits)
        m.submodules.locate = locate
        m.d.comb += [
            self.blocks.ready.eq(~occupied),
            locate.start.eq(self.blocks.valid & self.blocks.ready),
            locate.base.eq(self.blocks.p.j << low),
            locate.pitch.eq(self.columns << low),
            locate.count.eq(self.blocks.p.i),
        ]
        m.d.sync += occupied.eq(locate.start | (occupied & ~moves))
        return occupied & locate.ready, locate.address

    def _collect(self, m, words):
        """Collect the words of a row."""
        row = data_output(m, self.o.payload, "row_drawn")
        word, last = Signal(range(self._words), name="collected"), Signal()
        m.d.comb += [
            last.eq(word == self._words - 1),
            words.ready.eq(~self.o.valid | self.o.ready),
        ]
        with m.If(words.ready):
            m.d.sync += self.o.valid.eq(words.valid & last)
        with m.If(words.valid & words.ready):
            m.d.sync += [
                Value.cast(row).word_select(word, len(words.p[0])).eq(words.p[0]),
                word.eq(Mux(last, 0, word + 1)),
            ]
