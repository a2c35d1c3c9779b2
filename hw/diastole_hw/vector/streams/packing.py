"""Positions of a block's elements in beats, by the bits of an element."""

from dataclasses import dataclass

from amaranth.hdl import Const, Mux, Signal
from amaranth.lib import data
from amaranth.utils import exact_log2

from diastole_hw.vector.stream_layouts import WORD, VectorShape
from diastole_sim.spec.micro import INPUTS
from diastole_sim.spec.stream_table import IN_MEMORY, Kind

WIDE = (Kind.F32, Kind.GATHERED_F32)
BYTES = (Kind.U8, Kind.GATHERED_U8)
PER_ROW = (Kind.ROW, Kind.LABELS)
"""Kinds of inputs with a number per row of the tensor."""


def one_of(kind, kinds):
    """Return whether ``kind`` is in ``kinds``."""
    matches = Const(0, 1)
    for each in kinds:
        matches = matches | (kind == each)
    return matches


def inputs_in_memory(streams):
    """Return, for every input, whether the input is used and is in memory."""
    return [stream.used & one_of(stream.kind, IN_MEMORY) for stream in streams]


def lowest(bits):
    """Return the lowest set bit alone."""
    return bits & -bits


@dataclass(frozen=True, kw_only=True)
class Packing:
    """Packing of runs in beats of ``data_width`` bits. A run is ``run`` elements of ``bits`` bits
    side by side. All sizes are powers of two. A beat holds a run or several runs, or a run takes
    several beats."""

    run: int
    bits: int
    data_width: int

    @classmethod
    def of_row(cls, shape: VectorShape, bits: int) -> "Packing":
        """Return the packing of a row of a block, or of B numbers of a vector."""
        return cls(run=shape.block, bits=bits, data_width=shape.data_width)

    @classmethod
    def of_mask(cls, shape: VectorShape) -> "Packing":
        """Return the packing of a block of a mask, whose elements are rows of B bits."""
        return cls(run=shape.block, bits=shape.block, data_width=shape.data_width)

    @property
    def parts(self) -> int:
        """Number of beats of a run, at least 1."""
        return max(1, self.run * self.bits // self.data_width)

    @property
    def per_beat(self) -> int:
        """Number of elements of a run in a beat."""
        return self.run // self.parts

    @property
    def place_bits(self) -> int:
        """Bits of a run's position in a beat: log2 of the runs in a beat."""
        return exact_log2(max(1, self.data_width // (self.run * self.bits)))

    def place(self, number):
        """Return the position of run ``number`` in the run's beat."""
        return number[: self.place_bits]

    def last_part(self, count):
        """Return the number of the beat that holds element ``count`` - 1."""
        return (count - 1)[exact_log2(self.per_beat) : exact_log2(self.run)]

    def in_beat(self, element):
        """Return the position of an element among the run's elements in the element's beat."""
        return element[: exact_log2(self.per_beat)]

    def last_of_beat(self, element):
        """Return whether an element is the last element of the run in a beat."""
        return self.in_beat(element).all() if self.per_beat > 1 else Const(1, 1)

    def run_of(self, beat, number):
        """Return the part of run ``number`` that ``beat`` holds."""
        return beat.word_select(self.place(number), self.per_beat * self.bits)

    def offset(self, number):
        """Return the number of whole bytes before run ``number``."""
        shift = exact_log2(self.run * self.bits)
        return number << (shift - 3) if shift >= 3 else number >> (3 - shift)


def expected_layout(shape: VectorShape) -> data.StructLayout:
    """Return the layout of a block whose rows are requested. ``rows``, ``cols``: rows and columns
    of the block inside the tensor. ``i``, ``j``: lowest bits of the block's numbers, which give the
    position of the elements in a beat. ``listed``: the numbers of gathered rows are read too,
    before the rows of every gathered stream. ``ahead``: count of row numbers of the next line that
    are read after the rows, 0 for none. ``again``: inputs in beats of the previous block, which are
    not read again."""
    places = [Packing.of_row(shape, bits).place_bits for bits in (WORD, 16, 8)]
    return data.StructLayout(
        {
            "rows": range(shape.block + 1),
            "cols": range(shape.block + 1),
            "i": places[0],
            "j": max(*places, Packing.of_mask(shape).place_bits),
            "listed": 1,
            "ahead": range(shape.block + 1),
            "again": INPUTS,
        }
    )


def shares_beats(shape: VectorShape, kind, block):
    """Return whether, for an input of this kind, ``block`` lies in beats of the previous block of
    the line. ``block`` is not the first block of a line."""
    shares = one_of(kind, PER_ROW)
    packed = [
        (kinds, Packing.of_row(shape, bits))
        for kinds, bits in (((*WIDE, Kind.COLUMN), WORD), ((Kind.BF16,), 16), (BYTES, 8))
    ]
    for kinds, packing in (*packed, ((Kind.MASK,), Packing.of_mask(shape))):
        if packing.place_bits:
            shares = shares | (one_of(kind, kinds) & packing.place(block.j).any())
    return shares


def segments_layout(shape: VectorShape) -> data.StructLayout:
    """Return the layout of the pieces of a block: ``rows`` pieces of ``beats`` beats, ``pitch``
    bytes apart. The first piece is at ``base`` + ``count`` * ``pitch``, or in the beat with this
    address."""
    return data.StructLayout(
        {
            "base": 40,
            "pitch": 32,
            "count": 24,
            "rows": range(shape.block + 1),
            "beats": range(most_beats(shape) + 1),
        }
    )


def most_beats(shape: VectorShape) -> int:
    """Return the maximum number of beats of a piece."""
    return max(Packing.of_row(shape, WORD).parts, Packing.of_mask(shape).parts)


def segments_of(m, shape: VectorShape, stream, block, segments):
    """Drive ``segments`` with the pieces of ``block`` in a stream in memory: an input, or an output
    except a vector of rows. Gathered rows are treated as rows in sequence."""
    rows, mask = Packing.of_row, Packing.of_mask(shape)
    offset = Signal(40)
    m.d.comb += [
        segments.base.eq(stream.address + offset),
        segments.pitch.eq(stream.pitch),
        segments.count.eq(block.i << shape.row_bits),
        segments.rows.eq(block.rows),
    ]
    with m.Switch(stream.kind):
        for kinds, bits in ((WIDE, WORD), ((Kind.BF16,), 16), (BYTES, 8)):
            with m.Case(*kinds):
                packing = rows(shape, bits)
                m.d.comb += [
                    offset.eq(packing.offset(block.j)),
                    segments.beats.eq(packing.last_part(block.cols) + 1),
                ]
        with m.Case(Kind.MASK):
            m.d.comb += [
                offset.eq(mask.offset(block.j)),
                segments.count.eq(block.i),
                segments.rows.eq(1),
                segments.beats.eq(mask.last_part(block.rows) + 1),
            ]
        with m.Default():
            column = stream.kind == Kind.COLUMN
            packing = rows(shape, WORD)
            count = Mux(column, block.cols, block.rows)
            m.d.comb += [
                offset.eq(packing.offset(Mux(column, block.j, block.i))),
                segments.count.eq(0),
                segments.rows.eq(1),
                segments.beats.eq(packing.last_part(count) + 1),
            ]
