"""Reorder the words of a group into the order of the memory image, block by block."""

from amaranth.hdl import Array, Assert, Cat, Const, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.memory.ram import Ram
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes

_STACKS = 4


def ordered_layout(sizes: ConverterSizes) -> data.StructLayout:
    """Return the layout of a word of elements in the order of an image; ``last`` marks the end of a
    group."""
    bits = sizes.lanes * sizes.lane_bits
    return data.StructLayout({"elements": unsigned(bits), "last": 1})


class Reorder(wiring.Component):
    """Bring the words of groups of the first copy into the order of the image, block by block.

    Write: word s of row r has ``lanes`` neighbouring elements of row r of the tensor. A group is
    written block by block, a block row by row. If a word covers P > 1 blocks, these blocks are a
    *stack* and are written together. Only stacks need any reordering. The memory holds four stacks,
    written one after the other.

    Read: words of ``lanes`` elements in the order of the image, block j, row r, column c at element
    ``(j * block + r) * block + c``.

    The memory of the stacks has P banks, a bank per chunk of ``block`` elements. Chunk j of row r
    goes to bank ``(j xor f r) mod P``, f = max(1, P / block). Neither a written word (one r, P
    values of j) nor a read word (P successive pairs j, r) uses a bank twice.

    Timing: 1 word per cycle in and out. The input is never stalled. If no word covers several
    blocks, a word is output in the next cycle, and must be accepted then. Else the first word of a
    stack is output 2 cycles after the last word of the stack is written. ``o`` may wait while the
    memory has free space, for 2 stacks.

    Parameters
    ----------
    sizes : ConverterSizes

    Members
    -------
    write_en : In(1)
    write_data : In(lanes * element_bits)
        A word. The memory must have free space.
    filled : In(1)
        A pulse with the last written word of a group.
    o : Out(stream of :func:`ordered_layout`)
    """

    def __init__(self, sizes: ConverterSizes):
        self.sizes = sizes
        self.element_bits = sizes.lane_bits
        bits = sizes.lanes * self.element_bits
        super().__init__(
            {
                "write_en": In(1),
                "write_data": In(bits),
                "filled": In(1),
                "o": Out(stream.Signature(ordered_layout(sizes))),
            }
        )

    @property
    def _spread(self) -> int:
        """Factor f of the bank number, as the class's docstring has it."""
        return max(1, self.sizes.word_chunks // self.sizes.block)

    def elaborate(self, platform):
        m = Module()
        if self.sizes.word_chunks == 1:
            self._pass_on(m)
        else:
            self._reorder_stacks(m)
        return m

    def _pass_on(self, m):
        """Output the words in the order of the input."""
        m.d.sync += [
            self.o.valid.eq(self.write_en),
            self.o.p.elements.eq(self.write_data),
            self.o.p.last.eq(self.filled),
        ]
        m.d.sync += Assert(~self.o.valid | self.o.ready, "nobody takes a word")

    def _reorder_stacks(self, m):
        """Write and read the words stack by stack."""
        rows = self.sizes.block  # words of a stack
        written = Signal(range(rows * _STACKS))
        count = Signal(range(rows * _STACKS))  # next word to read, counted over all stacks
        full = Signal(range(_STACKS + 1))  # stacks to be read
        ends = Array(Signal(name=f"ends{n}") for n in range(_STACKS))  # a stack ends its group
        came, move, read, last, left = (
            Signal(name=name) for name in ("came", "move", "read", "last", "left")
        )
        stack_bits = exact_log2(_STACKS)
        end = (count & (rows - 1)) == rows - 1
        m.d.comb += [
            came.eq(self.write_en & ((written & (rows - 1)) == rows - 1)),
            self.o.p.last.eq(last),
            move.eq(self.o.ready | ~self.o.valid),
            read.eq(move & full.any()),
            left.eq(read & end),
        ]
        m.d.sync += full.eq(full + came - left)
        m.d.sync += Assert(~self.write_en | (full != _STACKS), "no room for a word")
        with m.If(self.write_en):
            m.d.sync += written.eq(written + 1)
        with m.If(came):
            m.d.sync += ends[written[-stack_bits:]].eq(self.filled)
        with m.If(move):
            m.d.sync += [self.o.valid.eq(full.any())]
            m.d.sync += last.eq(end & ends[count[-stack_bits:]])
        with m.If(read):
            m.d.sync += count.eq(count + 1)
        self._chunk_banks(m, written, count, read)

    def _chunk_banks(self, m, written, count, read):
        sizes = self.sizes
        chunks = sizes.word_chunks
        bits = sizes.chunk * self.element_bits
        select = Signal(exact_log2(chunks))  # bank of chunk n is n xor select
        with m.If(read):
            m.d.sync += select.eq(self._first_bank(count))
        row = written[: exact_log2(sizes.block)]
        write_select = (row * self._spread) & (chunks - 1)
        parts = Array(self.write_data.word_select(n, bits) for n in range(chunks))
        results = []
        for n in range(chunks):
            m.submodules[f"bank{n}"] = ram = Ram(width=bits, depth=max(2, _STACKS * sizes.block))
            results.append(ram.read_data)
            m.d.comb += [
                ram.write_en.eq(self.write_en),
                ram.write_addr.eq(written),
                ram.write_data.eq(parts[write_select ^ n]),
                ram.read_en.eq(read),
                ram.read_addr.eq(Cat(self._read_row(count, n), count[-exact_log2(_STACKS) :])),
            ]
        results = Array(results)
        m.d.comb += self.o.p.elements.eq(
            Cat(results[select ^ self._relative_bank(n)] for n in range(chunks))
        )

    def _relative_bank(self, chunk):
        """Return the bank of a chunk of a read word, exclusive-or the bank of the word's first
        chunk."""
        block = self.sizes.block
        if self.sizes.word_chunks <= block:  # the chunks are rows of one block
            return chunk
        return chunk // block | chunk % block * self._spread  # whole blocks, one after the other

    def _first(self, count):
        """Return the block within the stack, and the row, of the first chunk of a read word."""
        sizes = self.sizes
        index = Cat(Const(0, exact_log2(sizes.word_chunks)), count)  # number of the chunk
        row_bits = exact_log2(sizes.block)
        return index[row_bits:][: exact_log2(sizes.word_chunks)], index[:row_bits]

    def _first_bank(self, count):
        block, row = self._first(count)
        return (block ^ (row * self._spread)) & (self.sizes.word_chunks - 1)

    def _read_row(self, count, bank):
        """Return the row in bank number ``bank`` at which the chunk of a read word lies."""
        sizes = self.sizes
        _, row = self._first(count)
        chunk_bits, spread_bits = exact_log2(sizes.word_chunks), exact_log2(self._spread)
        relative = (self._first_bank(count) ^ bank)[:chunk_bits]  # _relative_bank of its chunk
        return (row | (relative >> spread_bits))[: exact_log2(sizes.block)]
