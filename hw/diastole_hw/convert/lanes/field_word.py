"""Select the bytes that a word adds to the exponent field of its group: every unit once."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.convert.by_class import by_class, of_vectors
from diastole_hw.convert.image.exponents import field_banks, field_layout
from diastole_hw.convert.tile_layouts import word_layout
from diastole_sim.spec.formats import NAN_EXPONENT
from diastole_sim.spec.require import require_int
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes


class FieldWord(wiring.Component):
    """Output the exponent bytes of the units that a word is the first to have in its group, if
    words come row by row.

    In the first copy all lanes have the same square or row vector, if words are no longer than
    blocks. If words are longer, every chunk (the part of a word in a block) has its own square. In
    the second copy every lane has its own column vector. A byte is the exponent of the unit,
    lowered by the fold of the unit; a unit of zeros has 0.

    Timing: combinational.

    Parameters
    ----------
    sizes : ConverterSizes
    copy : int
        0 or 1; 1 only if a class has two copies.

    Members
    -------
    cls : In(2)
    at : In(:func:`word_layout`)
        Place of the word in the tile.
    exponents, folds : In(array of lanes unsigned(8))
        Exponent and fold of the unit of every lane, as
        :class:`diastole_hw.convert.lanes.quantise.LaneQuantiser` takes them. ``folds`` is ignored
        if no class may fold.
    first : Out(1)
        The word has bytes to write. In the second copy valid only for classes with two copies.
    o : Out(:func:`field_layout`)
    """

    def __init__(self, sizes: ConverterSizes, *, copy: int):
        self.sizes = sizes
        self.copy = require_int("copy", copy, 0, int(sizes.two_copies))
        bytes_ = data.ArrayLayout(unsigned(8), sizes.lanes)
        super().__init__(
            {
                "cls": In(2),
                "at": In(word_layout(sizes)),
                "exponents": In(bytes_),
                "folds": In(bytes_),
                "first": Out(1),
                "o": Out(field_layout(sizes, copy)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        sizes = self.sizes
        banks = field_banks(sizes, self.copy)
        address = Signal(range(max(sizes.by_class(sizes.exponent_entries))))
        if self.copy:
            self._down(m, address)
        else:
            self._along(m, address)
        alone = 1 << address[: exact_log2(banks)]  # enable of a single byte, else all banks
        whole = self.copy or sizes.word_chunks > 1
        m.d.comb += [
            self.o.row.eq(address >> exact_log2(banks)),
            self.o.enable.eq(2**banks - 1 if whole else alone),
        ]
        for n in range(banks):
            lane = n * sizes.chunk if sizes.word_chunks > 1 else n
            m.d.comb += self.o.values[n].eq(self._lowered(m, lane))
        return m

    def _along(self, m, address):
        """Find the bytes of a word in the first copy: squares from left to right, or the rows of
        vectors."""
        sizes = self.sizes
        in_group = self.at.word[: exact_log2(sizes.row_words)]
        in_block = in_group[: exact_log2(sizes.block_words)]
        block_row = self.at.row[: exact_log2(sizes.block)]
        square = in_group[exact_log2(sizes.block_words) :] << exact_log2(sizes.word_chunks)
        m.d.comb += [address.eq(square), self.first.eq((block_row == 0) & (in_block == 0))]
        if sizes.two_copies:
            with m.If(by_class(m, self.cls, map(int, sizes.vectors), "vectors").bool()):
                run, new = self._run(m, in_group, sizes.lanes)
                m.d.comb += [address.eq(Cat(block_row, run)), self.first.eq(new)]

    def _down(self, m, address):
        """Find the bytes of a word in the second copy: the columns of vectors."""
        sizes = self.sizes
        word_bits = exact_log2(sizes.block_words)
        run, new = self._run(m, self.at.row[: exact_log2(sizes.strip_rows)], 1)
        lane = Const(0, exact_log2(sizes.lanes))
        m.d.comb += [
            address.eq(Cat(lane, self.at.word[:word_bits], run)),
            self.first.eq(new),
            self.o.group.eq(self.at.word >> word_bits),
        ]

    def _run(self, m, place_, unit):
        """Return the number of a vector in its group, and whether a place is the first place of the
        vector in the group. A place is ``unit`` elements."""
        sizes = self.sizes
        # Elements of a vector in a group.
        lengths = [min(sizes.side(cls), sizes.group_cols) for cls in range(3)]
        sides = [length // unit for length in lengths]
        run = Signal(range(max(2, sizes.group_cols // min(lengths))))
        shift = of_vectors(m, self.cls, sizes, [exact_log2(n) for n in sides], "run_shift")
        mask = of_vectors(m, self.cls, sizes, [n - 1 for n in sides], "run_mask")
        m.d.comb += run.eq(place_ >> shift)
        return run, (place_ & mask) == 0

    def _lowered(self, m, n):
        """Return the stored exponent of a lane's unit after folding: 0 for zeros, and unchanged for
        NaN."""
        sizes, exponent, fold = self.sizes, self.exponents[n], self.folds[n]
        if not any(sizes.folds):
            return exponent
        folds = by_class(m, self.cls, map(int, sizes.folds), f"folds{n}").bool()
        depth = by_class(m, self.cls, [c.format.depth + 1 for c in sizes.classes], f"depth{n}")
        byte = Signal(8, name=f"lowered{n}")
        m.d.comb += byte.eq(exponent)
        with m.If(folds & (exponent != NAN_EXPONENT)):
            zeros = (exponent == 0) | (fold == 0)
            m.d.comb += byte.eq(Mux(zeros, 0, exponent - depth + fold))
        return byte
