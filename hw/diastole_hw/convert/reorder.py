"""From words of a group to the order of the memory image: block by block."""

from amaranth.hdl import Array, Cat, Const, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.convert.geometry import Geometry
from diastole_hw.convert.intake import word_layout
from diastole_hw.invariant import invariant
from diastole_hw.memory.ram import Ram
from diastole_hw.place import place
from diastole_sim.spec.numerics import Numerics


def ordered_layout(sizes: Geometry) -> data.StructLayout:
    """Elements in the order of an image, a word of them; ``last`` marks the end of a group."""
    bits = sizes.lanes * max(sizes.element_bits)
    return data.StructLayout({"elements": unsigned(bits), "last": 1})


class Reorder(wiring.Component):
    """Hold two groups of the first copy, written row by row of the tensor and read block by block.

    Written: word s of row r holds ``lanes`` neighbouring elements of row r of the tensor; a group
    has ``block`` rows of 8 blocks. Read: words of ``lanes`` elements in the order of the image,
    block j, row r, column c at element ``(j * block + r) * block + c``.

    Of a group that the tensor ends in come the words of its first blocks alone, all of theirs: as
    many are read as were written.

    Where a word covers P > 1 blocks, the memory has P banks, one per chunk of ``block`` elements:
    chunk j mod P of row r goes to bank ``(j xor f r) mod P``, f = max(1, P / block). A written word
    (one r, P values of j) and a word read (P successive pairs j, r) thus never use a bank twice.

    Timing: the first word of a group is valid 2 cycles after ``filled``; one word per cycle in and
    out. ``o`` is registered (in the banks' outputs); reading stops while ``o`` waits.

    Parameters
    ----------
    numerics : Numerics
    data_width : int
        As in :class:`Geometry`.

    Members
    -------
    write_en : In(1)
    write_at : In(:func:`word_layout`)
        The word's place in its tile. The half must be free; not checked.
    write_data : In(lanes * element_bits)
    filled : In(1)
        A pulse, with the last word of a half written: the halves are filled in turn.
    freed : Out(1)
        A pulse when the last word of a half has been read: it may be written from the next cycle.
    o : Out(stream of :func:`ordered_layout`)
    """

    def __init__(self, *, numerics: Numerics, data_width: int):
        self.numerics, self.data_width = numerics, data_width
        sizes = self.geometry = Geometry(numerics=numerics, data_width=data_width)
        self.element_bits = max(sizes.element_bits)
        bits = sizes.lanes * self.element_bits
        super().__init__(
            {
                "write_en": In(1),
                "write_at": In(word_layout(sizes)),
                "write_data": In(bits),
                "filled": In(1),
                "freed": Out(1),
                "o": Out(stream.Signature(ordered_layout(sizes))),
            }
        )

    @property
    def _spread(self) -> int:
        """f of the class's docstring."""
        return max(1, self.geometry.word_chunks // self.geometry.block)

    def elaborate(self, platform):
        m = Module()
        sizes = self.geometry
        count = Signal(range(sizes.group_words))  # words of the group that are read
        write_half = Signal()
        half = Signal()
        full = Signal(range(3))  # halves to be read
        move = Signal()
        read = Signal()
        last = Signal()
        m.d.comb += self.o.p.last.eq(last)
        m.d.comb += move.eq(self.o.ready | ~self.o.valid)
        m.d.comb += read.eq(move & full.any())
        end = count == self._last_word(m, half)
        m.d.comb += self.freed.eq(read & end)
        m.d.sync += full.eq(full + self.filled - self.freed)
        invariant(m, platform, ~self.write_en | (full != 2), "a half is written before it was read")
        invariant(m, platform, ~self.filled | (full != 2), "more than two halves are full")
        with m.If(self.filled):
            m.d.sync += write_half.eq(~write_half)
        with m.If(move):
            m.d.sync += [self.o.valid.eq(full.any()), last.eq(end)]
        with m.If(read):
            m.d.sync += count.eq(count + 1)
            with m.If(end):
                m.d.sync += [count.eq(0), half.eq(~half)]
        self._chunk_banks(m, platform, count, write_half, half, read)
        return m

    def _last_word(self, m, half):
        """Number of the last word that a half has."""
        words = range(self.geometry.group_words)
        written = Signal(words)  # so far, of the half that is written
        held = Array(Signal(words, name=f"last_word{n}") for n in range(2))
        filling = Signal()
        with m.If(self.write_en):
            m.d.sync += written.eq(written + 1)
        with m.If(self.filled):
            m.d.sync += [held[filling].eq(written), written.eq(0), filling.eq(~filling)]
        return held[half]

    def _chunk_banks(self, m, platform, count, write_half, half, read):
        sizes = self.geometry
        chunks = sizes.word_chunks
        bits = sizes.chunk * self.element_bits
        select = Signal(max(1, exact_log2(chunks)))  # bank of chunk n is n xor select
        with m.If(read):
            m.d.sync += select.eq(self._first_bank(count))
        row = self.write_at.row[: exact_log2(sizes.block)]
        write_addr = Cat(self.write_at.word[: exact_log2(sizes.row_words)], row, write_half)
        write_select = (row * self._spread) & (chunks - 1)
        written = Array(self.write_data.word_select(n, bits) for n in range(chunks))
        results = []
        for n in range(chunks):
            ram = Ram(width=bits, depth=2 * sizes.group_words)
            m.submodules[f"bank{n}"] = place(ram, platform)
            results.append(ram.read_data)
            m.d.comb += [
                ram.write_en.eq(self.write_en),
                ram.write_addr.eq(write_addr),
                ram.write_data.eq(written[write_select ^ n]),
                ram.read_en.eq(read),
                ram.read_addr.eq(Cat(self._read_addr(count, n), half)),
            ]
        results = Array(results)
        m.d.comb += self.o.p.elements.eq(
            Cat(results[select ^ self._relative_bank(n)] for n in range(chunks))
        )

    def _relative_bank(self, chunk):
        """Bank of a chunk of a word read, exclusive-or the bank of the word's first chunk."""
        block = self.geometry.block
        if self.geometry.word_chunks <= block:  # the chunks are rows of one block
            return chunk
        return chunk // block | chunk % block * self._spread  # whole blocks, one after the other

    def _fields(self, count):
        """Block (8), row and word within a block's row, of the first chunk of a word read."""
        sizes = self.geometry
        index = Cat(Const(0, exact_log2(sizes.word_chunks)), count)  # in chunks
        word_bits, row_bits = exact_log2(sizes.block_words), exact_log2(sizes.block)
        return (
            index[word_bits + row_bits : word_bits + row_bits + 3],
            index[word_bits : word_bits + row_bits],
            index[:word_bits],
        )

    def _first_bank(self, count):
        block, row, _ = self._fields(count)
        return (block ^ (row * self._spread)) & (self.geometry.word_chunks - 1)

    def _read_addr(self, count, bank):
        """Address within a half, in bank number ``bank``, of the chunk of a word read."""
        sizes = self.geometry
        block, row, word = self._fields(count)
        chunk_bits, spread_bits = exact_log2(sizes.word_chunks), exact_log2(self._spread)
        relative = (self._first_bank(count) ^ bank)[:chunk_bits]  # _relative_bank of its chunk
        bank_row = row | (relative >> spread_bits)
        return Cat(word, block[chunk_bits:], bank_row[: exact_log2(sizes.block)])
