"""Where a block's elements lie in beats, by the bits of an element."""

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
"""Inputs that have a number per row of the tensor."""


def one_of(kind, kinds):
    """Whether ``kind`` is one of these."""
    found = Const(0, 1)
    for each in kinds:
        found = found | (kind == each)
    return found


def inputs_in_memory(streams):
    """Of every input whether it is used, and is in memory."""
    return [stream.used & one_of(stream.kind, IN_MEMORY) for stream in streams]


def lowest(bits):
    """The lowest bit that is set, alone."""
    return bits & -bits


@dataclass(frozen=True, kw_only=True)
class Packing:
    """Runs of ``run`` elements of ``bits`` bits each, side by side in beats of ``data_width`` bits;
    all powers of two. A run is one of several in a beat, or has several beats."""

    run: int
    bits: int
    data_width: int

    @classmethod
    def of_row(cls, shape: VectorShape, bits: int) -> "Packing":
        """A row of a block, or B numbers of a vector."""
        return cls(run=shape.block, bits=bits, data_width=shape.data_width)

    @classmethod
    def of_mask(cls, shape: VectorShape) -> "Packing":
        """A block of a mask: its elements are rows of B bits."""
        return cls(run=shape.block, bits=shape.block, data_width=shape.data_width)

    @property
    def parts(self) -> int:
        """Beats of a run, at least one."""
        return max(1, self.run * self.bits // self.data_width)

    @property
    def per_beat(self) -> int:
        """Elements of a run that a beat has."""
        return self.run // self.parts

    @property
    def place_bits(self) -> int:
        """log2 of the runs in a beat."""
        return exact_log2(max(1, self.data_width // (self.run * self.bits)))

    def place(self, number):
        """Of run ``number``, in its beat."""
        return number[: self.place_bits]

    def last_part(self, count):
        """The beat in which element ``count`` - 1 is."""
        return (count - 1)[exact_log2(self.per_beat) : exact_log2(self.run)]

    def in_beat(self, element):
        """Of element ``element`` of the run, in those that its beat has of the run."""
        return element[: exact_log2(self.per_beat)]

    def last_of_beat(self, element):
        """Whether element ``element`` of the run is the last one in its beat."""
        return self.in_beat(element).all() if self.per_beat > 1 else Const(1, 1)

    def run_of(self, beat, number):
        """What a beat has of run ``number``."""
        return beat.word_select(self.place(number), self.per_beat * self.bits)

    def offset(self, number):
        """Bytes before run ``number``, whole ones."""
        shift = exact_log2(self.run * self.bits)
        return number << (shift - 3) if shift >= 3 else number >> (3 - shift)


def expected_layout(shape: VectorShape) -> data.StructLayout:
    """A block whose rows are asked for. ``rows``, ``cols``: of it that are in the tensor. ``i``,
    ``j``: the lowest bits of its number, which say where in a beat its elements are. ``listed``:
    the numbers of its gathered rows are read as well, before each stream of them. ``ahead``: and
    after them so many of the next line's, 0 for none. ``again``: inputs that lie in the beats of
    the block before, which are not read another time."""
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
    """Whether an input of this kind has ``block``, which is no line's first, in the beats of the
    block before it in the line."""
    found = one_of(kind, PER_ROW)
    packed = [
        (kinds, Packing.of_row(shape, bits))
        for kinds, bits in (((*WIDE, Kind.COLUMN), WORD), ((Kind.BF16,), 16), (BYTES, 8))
    ]
    for kinds, packing in (*packed, ((Kind.MASK,), Packing.of_mask(shape))):
        if packing.place_bits:
            found = found | (one_of(kind, kinds) & packing.place(block.j).any())
    return found


def segments_layout(shape: VectorShape) -> data.StructLayout:
    """Pieces of ``beats`` beats, in ``rows`` rows of which each is ``pitch`` bytes after the one
    before. The first is at ``base`` + ``count`` * ``pitch``, or in the beat where that is."""
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
    """Of a piece."""
    return max(Packing.of_row(shape, WORD).parts, Packing.of_mask(shape).parts)


def segments_of(m, shape: VectorShape, stream, block, segments):
    """The pieces of ``block`` that an input of memory has, or an output but a row vector; of
    gathered rows as if they were not. ``segments``: what is driven."""
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
