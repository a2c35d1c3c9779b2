"""First pass over a group: from the reader into the buffer, with the blocks' exponents."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole.convert.geometry import Geometry
from diastole.convert.walk import group_layout
from diastole_sim.program.image import GROUP_BLOCKS


def measured_layout(block: int) -> data.StructLayout:
    """A group of :func:`group_layout` and the largest exponent field of each of its blocks."""
    exponents = data.ArrayLayout(unsigned(8), GROUP_BLOCKS)
    return data.StructLayout({"group": group_layout(block), "exponents": exponents})


class Intake(wiring.Component):
    """Write the words of groups into the halves of a buffer, and find their blocks' exponents.

    Words go to address ``(half * block + row) * row_words + word``, half 0 first, then in turn.
    What lies outside the tensor is written as zeros; no data are taken for such words, and pad
    lanes of a beat are ignored. A block's exponent is the largest exponent field of its finite
    numbers (0 for subnormals: a block without finite normal numbers has exponent 0).

    Timing: one word per cycle. A group takes ``block * row_words`` cycles and waits for a free half
    first; ``o`` is valid 2 cycles after its last word was taken, when all its words are written.
    ``data.ready`` does not depend on ``data.valid``.

    Parameters
    ----------
    block, data_width : int
        Block side and bits of a beat, as in :class:`Geometry`.

    Members
    -------
    group : In(stream of :func:`group_layout`)
    data : In(stream of unsigned(data_width))
        The beats that :class:`ReadRequests` asks for.
    freed : In(1)
        A pulse: the half filled longest ago may be written again.
    write_en : Out(1)
    write_addr : Out(range of 2 * group words)
    write_data : Out(32 * lanes)
    o : Out(stream of :func:`measured_layout`)
    """

    def __init__(self, *, block: int, data_width: int):
        self.geometry = Geometry(block=block, data_width=data_width)
        self.block, self.data_width = block, data_width
        super().__init__(
            {
                "group": In(stream.Signature(group_layout(block))),
                "data": In(stream.Signature(unsigned(data_width))),
                "freed": In(1),
                "write_en": Out(1),
                "write_addr": Out(range(2 * self.geometry.group_words)),
                "write_data": Out(32 * self.geometry.lanes),
                "o": Out(stream.Signature(measured_layout(block))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        sizes = self.geometry
        row = Signal(range(sizes.block))
        word = Signal(range(sizes.row_words))
        half = Signal()
        free = Signal(range(3), init=2)
        move = Signal()  # the second stage is not held up by `o`
        take = Signal()
        inside = Signal()
        first = (row == 0) & (word == 0)
        last = (row == sizes.block - 1) & (word == sizes.row_words - 1)
        column = word << exact_log2(sizes.lanes)
        m.d.comb += move.eq(self.o.ready | ~self.o.valid)
        m.d.comb += inside.eq((row < self.group.p.rows) & (column < self.group.p.cols))
        may = self.group.valid & move & free.any()
        m.d.comb += self.data.ready.eq(may & inside)
        m.d.comb += take.eq(may & (self.data.valid | ~inside))
        m.d.comb += self.group.ready.eq(take & last)
        m.d.sync += free.eq(free + self.freed - (take & last))

        with m.If(take):
            m.d.sync += word.eq(word + 1)
            with m.If(word == sizes.row_words - 1):
                m.d.sync += [word.eq(0), row.eq(row + 1)]
            with m.If(last):
                m.d.sync += [row.eq(0), half.eq(~half)]
            m.d.sync += self.write_addr.eq(Cat(word, row, half))
            m.d.sync += self.write_data.eq(self._masked(column, inside))
        with m.If(move):
            m.d.sync += self.write_en.eq(take)
        self._measure(m, take, first, last, move)
        return m

    def _masked(self, column, inside):
        """The word taken: zeros in the lanes that lie outside the tensor."""
        sizes = self.geometry
        beat = self.data.payload
        if sizes.floats > sizes.lanes:  # a beat holds the rows of several groups
            part = self.group.p.address[exact_log2(4 * sizes.lanes) : exact_log2(4 * sizes.floats)]
            beat = beat.word_select(part, 32 * sizes.lanes)
        keep = (inside & (column + n < self.group.p.cols) for n in range(sizes.lanes))
        return Cat(Mux(k, beat.word_select(n, 32), 0) for n, k in enumerate(keep))

    def _measure(self, m, take, first, last, move):
        """Second stage: join the exponents of the word written to those of its blocks."""
        written_first = Signal()
        written_last = Signal()
        group = Signal(group_layout(self.geometry.block))
        so_far = Signal(data.ArrayLayout(unsigned(8), GROUP_BLOCKS))
        joined = Signal(data.ArrayLayout(unsigned(8), GROUP_BLOCKS))
        for n in range(GROUP_BLOCKS):
            exponent = self._chunk_exponent(m, n)
            before = Mux(written_first, 0, so_far[n])
            m.d.comb += joined[n].eq(Mux(exponent > before, exponent, before))
        with m.If(move):
            m.d.sync += [written_first.eq(first), written_last.eq(take & last)]
            m.d.sync += self.o.valid.eq(written_last)
            with m.If(self.write_en):
                m.d.sync += so_far.eq(joined)
            with m.If(written_last):
                m.d.sync += [self.o.p.group.eq(group), self.o.p.exponents.eq(joined)]
            with m.If(take & last):
                m.d.sync += group.eq(self.group.p)

    def _chunk_exponent(self, m, n):
        """Largest exponent field that the word written has in block ``n``, 0 if it has none."""
        sizes = self.geometry
        word = self.write_addr[: exact_log2(sizes.row_words)]
        here = word >> exact_log2(sizes.block_words) == n // sizes.word_chunks
        start = n % sizes.word_chunks * sizes.chunk
        largest = 0
        for lane in range(start, start + sizes.chunk):
            field = Signal(8, name=f"block{n}_field{lane}")
            field_all = self.write_data.word_select(lane, 32)[23:31]
            m.d.comb += field.eq(Mux(here & (field_all != 0xFF), field_all, 0))
            larger = Signal(8, name=f"block{n}_largest{lane}")
            m.d.comb += larger.eq(Mux(field > largest, field, largest))
            largest = larger
        return largest
