"""From rows of a group to the order of the memory image: block by block."""

from amaranth.hdl import Array, Cat, Const, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole.convert.geometry import Geometry
from diastole.emit.place import place
from diastole.memory.ram import Ram


class Reorder(wiring.Component):
    """Hold two groups of elements, written row by row and read block by block.

    Written: word s of row r holds ``lanes`` neighbouring elements of row r of the group. Read:
    words of ``lanes`` elements in the order of the memory image, block j, row r, column c at
    element ``(j * block + r) * block + c``.

    Where a word covers P > 1 blocks, the memory has P banks, one per chunk of ``block`` elements:
    chunk j mod P of row r goes to bank ``(j xor f r) mod P``, f = max(1, P / block). A written word
    (one r, P values of j) and a word read (P successive pairs j, r) thus never use a bank twice.

    Timing: the first word of a group is valid 2 cycles after ``filled``; one word per cycle in and
    out. ``o`` is registered (in the banks' outputs); reading stops while ``o`` waits.

    Parameters
    ----------
    block, data_width : int
        Block side and bits of a beat, as in :class:`Geometry`.
    element_bits : int
        Bits of an element as stored here.

    Members
    -------
    write_en : In(1)
    write_addr : In(range of 2 * group words)
        (half * block + r) * row_words + s. The half must be free; not checked.
    write_data : In(lanes * element_bits)
    filled : In(1)
        A pulse, with the last word of a half written or later: the halves are filled in turn, 0
        first.
    freed : Out(1)
        A pulse when the last word of a half has been read: it may be written from the next cycle.
    o : Out(stream of {"elements": unsigned(lanes * element_bits), "last": 1})
        ``last`` marks the end of a group.
    """

    def __init__(self, *, block: int, data_width: int, element_bits: int):
        self.geometry = Geometry(block=block, data_width=data_width)
        self.block, self.data_width = block, data_width
        self.element_bits = element_bits
        bits = self.geometry.lanes * element_bits
        word = data.StructLayout({"elements": unsigned(bits), "last": 1})
        super().__init__(
            {
                "write_en": In(1),
                "write_addr": In(range(2 * self.geometry.group_words)),
                "write_data": In(bits),
                "filled": In(1),
                "freed": Out(1),
                "o": Out(stream.Signature(word)),
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
        half = Signal()
        full = Signal(range(3))  # halves to be read
        move = Signal()
        read = Signal()
        last = Signal()
        m.d.comb += self.o.p.last.eq(last)
        m.d.comb += move.eq(self.o.ready | ~self.o.valid)
        m.d.comb += read.eq(move & full.any())
        end = count == sizes.group_words - 1
        m.d.comb += self.freed.eq(read & end)
        m.d.sync += full.eq(full + self.filled - self.freed)
        with m.If(move):
            m.d.sync += [self.o.valid.eq(full.any()), last.eq(end)]
        with m.If(read):
            m.d.sync += count.eq(count + 1)
            with m.If(end):
                m.d.sync += [count.eq(0), half.eq(~half)]
        self._banks(m, platform, count, half, read)
        return m

    def _banks(self, m, platform, count, half, read):
        chunks = self.geometry.word_chunks
        bits = self.geometry.chunk * self.element_bits
        select = Signal(max(1, exact_log2(chunks)))  # bank of chunk n is n xor select
        with m.If(read):
            m.d.sync += select.eq(self._first_bank(count))
        row = self.write_addr[exact_log2(self.geometry.row_words) :]
        write_select = (row[: exact_log2(self.geometry.block)] * self._spread) & (chunks - 1)
        written = Array(self.write_data.word_select(n, bits) for n in range(chunks))
        results = []
        for n in range(chunks):
            ram = Ram(width=bits, depth=2 * self.geometry.group_words)
            m.submodules[f"bank{n}"] = place(ram, platform)
            results.append(ram.read_data)
            m.d.comb += [
                ram.write_en.eq(self.write_en),
                ram.write_addr.eq(self.write_addr),
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
