"""Transpose the words of a strip into the order of the second copy's image, block by block."""

from amaranth.hdl import Array, Assert, Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.convert.image.reorder import ordered_layout
from diastole_hw.convert.tile_layouts import word_layout
from diastole_hw.memory.ram import Ram
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes


class TransposedReorder(wiring.Component):
    """Store two strips of elements, written row by row and read as groups of the second copy.

    Write: ``lanes`` neighbours of a row of the tensor, in any order. Read: a group for every column
    of blocks from the left. The words of a group have ``lanes`` elements in the order of the image:
    block j, column c, row r at element ``(j * block + c) * block + r`` of the group.

    If the tensor ends in a strip, only the words of the first blocks in both directions come, and
    all words of these blocks. The word at the end of the last row comes last. Only these blocks are
    read.

    A bank per lane holds the elements. Element n of a word of row r goes to bank
    ``n xor (r mod lanes)``: neither a written word nor a read word uses a bank twice.

    Timing: the first word is valid 2 cycles after ``filled``; 1 word per cycle in and out. ``o`` is
    registered (in the outputs of the banks); reading stops while ``o`` waits.

    Parameters
    ----------
    sizes : ConverterSizes
        Sizes with a class of two copies.

    Members
    -------
    write_en : In(1)
    write_at : In(:func:`word_layout`)
        Place of the word in its tile. The half must be free; not checked.
    write_data : In(lanes * element_bits)
    filled : In(1)
        A pulse with the last word written to a half. The halves are filled alternately.
    freed : Out(1)
        A pulse when the last word of a half is read. The half may be written from the next cycle
        on.
    o : Out(stream of :func:`ordered_layout`)
    """

    def __init__(self, sizes: ConverterSizes):
        self.sizes = sizes
        self.element_bits = sizes.lane_bits
        super().__init__(
            {
                "write_en": In(1),
                "write_at": In(word_layout(sizes)),
                "write_data": In(sizes.lanes * self.element_bits),
                "filled": In(1),
                "freed": Out(1),
                "o": Out(stream.Signature(ordered_layout(sizes))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        sizes = self.sizes
        count = Signal(range(sizes.group_words))  # words of the group already read
        group = Signal(range(sizes.strip_groups))
        write_half = Signal()
        half = Signal()
        full = Signal(range(3))  # halves to be read
        move = Signal()
        read = Signal()
        end = Signal()  # the word is the last of its group
        last = Signal()
        last_count, last_group = self._ends(m, write_half, half)
        m.d.comb += [
            move.eq(self.o.ready | ~self.o.valid),
            read.eq(move & full.any()),
            end.eq(count == last_count),
            self.freed.eq(read & end & (group == last_group)),
            self.o.p.last.eq(last),
        ]
        m.d.sync += full.eq(full + self.filled - self.freed)
        m.d.sync += Assert(~self.write_en | (full != 2), "a half is written before it was read")
        m.d.sync += Assert(~self.filled | (full != 2), "more than two halves are full")
        with m.If(self.filled):
            m.d.sync += write_half.eq(~write_half)
        with m.If(move):
            m.d.sync += [self.o.valid.eq(full.any()), last.eq(end)]
        with m.If(read):
            m.d.sync += count.eq(count + 1)
            with m.If(end):
                m.d.sync += [count.eq(0), group.eq(group + 1)]
            with m.If(self.freed):
                m.d.sync += [group.eq(0), half.eq(~half)]
        self._banks(m, count, group, write_half, half, read)
        return m

    def _ends(self, m, write_half, half):
        """Return the numbers of the last word of a group, and of the last group, in the half that
        is read."""
        sizes = self.sizes
        row_bits, word_bits = exact_log2(sizes.block), exact_log2(sizes.block_words)
        blocks = Array(Signal(3, name=f"last_block{n}") for n in range(2))
        groups = Array(Signal(range(sizes.strip_groups), name=f"last_group{n}") for n in range(2))
        with m.If(self.filled):
            m.d.sync += blocks[write_half].eq(self.write_at.row >> row_bits)
            m.d.sync += groups[write_half].eq(self.write_at.word >> word_bits)
        within = (1 << row_bits + word_bits) - 1
        return blocks[half] << row_bits + word_bits | within, groups[half]

    def _banks(self, m, count, group, write_half, half, read):
        sizes = self.sizes
        bits = self.element_bits
        lane_bits, word_bits = exact_log2(sizes.lanes), exact_log2(sizes.block_words)
        row_bits, strip_row_bits = exact_log2(sizes.block), exact_log2(sizes.strip_rows)
        strip_words = sizes.strip_cols // sizes.lanes
        write_word = self.write_at.word[: exact_log2(strip_words)]
        write_row = self.write_at.row[:strip_row_bits]
        write_skew = self.write_at.row[:lane_bits]
        written = Array(self.write_data.word_select(n, bits) for n in range(sizes.lanes))

        word, row, block = count[:word_bits], count[word_bits:][:row_bits], count[-3:]
        skew = row[:lane_bits]
        late_skew = Signal(lane_bits)
        with m.If(read):
            m.d.sync += late_skew.eq(skew)
        results = []
        for n in range(sizes.lanes):
            ram = Ram(width=bits, depth=2 * sizes.strip_rows * strip_words)
            m.submodules[f"bank{n}"] = ram
            results.append(ram.read_data)
            m.d.comb += [
                ram.write_en.eq(self.write_en),
                ram.write_addr.eq(Cat(write_word, write_row, write_half)),
                ram.write_data.eq(written[write_skew ^ n]),
                ram.read_en.eq(read),
                ram.read_addr.eq(
                    Cat(row[lane_bits:], group, (skew ^ n)[:lane_bits], word, block, half)
                ),
            ]
        results = Array(results)
        m.d.comb += self.o.p.elements.eq(Cat(results[late_skew ^ n] for n in range(sizes.lanes)))
