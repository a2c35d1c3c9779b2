"""Pack rows of numbers into beats."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.bus.services import write_beat_layout
from diastole_hw.vector.float.narrow import bf16_of, byte_of, counts_as_zero
from diastole_hw.vector.stream_layouts import WORD, VectorShape, row_layout
from diastole_hw.vector.streams.packing import Packing
from diastole_sim.spec.micro import OUTPUTS
from diastole_sim.spec.stream_table import Kind


def packing_layout(shape: VectorShape) -> data.StructLayout:
    """Return the layout of a block of an output. ``i``, ``j``: lowest bits of the block's numbers,
    which give the position of the elements in a beat. ``last``, ``end``: last block of the line, of
    the walk."""
    places = [Packing.of_row(shape, bits).place_bits for bits in (WORD, 16, 8)]
    return data.StructLayout(
        {
            "stream": range(OUTPUTS),
            "rows": range(shape.block + 1),
            "cols": range(shape.block + 1),
            "i": places[0],
            "j": max(*places, Packing.of_mask(shape).place_bits),
            "last": 1,
            "end": 1,
        }
    )


def byte_ends(shape: VectorShape, block):
    """Return whether a mask is written after ``block``: the mask bits of the line up to ``block``
    are whole bytes, or the line ends."""
    bits = shape.block**2
    if bits >= 8:
        return Const(1, 1)
    return block.last | block.j[: exact_log2(8 // bits)].all()


class RowPack(wiring.Component):
    """Pack a row of a block, or a part of a row, into a beat.

    Bits of a mask are kept until a beat is full, or the block ends. If a block has less than a
    byte, bits are kept until a byte is full, or the line ends. Bits of a mask outside the tensor
    are zeros.

    Timing: combinational. Bits of a mask are stored at the end of a cycle with ``accepted``.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    kind : In(4)
        Kind of the output.
    block : In(packing_layout(shape))
    row : In(range(B)), part : In(range(B))
        Row slot; beat of the row.
    numbers : In(row_layout(shape))
    accepted : In(1)
        The row is finished in this cycle.
    beat : Out(write_beat_layout(data_width))
        Bytes outside the tensor have no write strobes. In a mask all bytes of a block have write
        strobes.
    last_part : Out(1)
        The beat is the last beat of the row.
    emits : Out(1)
        The row produces a beat. Only a row of a mask may produce none.
    """

    block: data.View
    numbers: data.View
    beat: data.View

    def __init__(self, shape: VectorShape):
        self.shape = shape
        super().__init__(
            {
                "kind": In(4),
                "block": In(packing_layout(shape)),
                "row": In(range(shape.block)),
                "part": In(range(max(2, Packing.of_row(shape, WORD).parts))),
                "numbers": In(row_layout(shape)),
                "accepted": In(1),
                "beat": Out(write_beat_layout(shape.data_width)),
                "last_part": Out(1),
                "emits": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        shape, beat = self.shape, self.beat
        m.d.comb += [self.last_part.eq(1), self.emits.eq(1)]
        mask, mask_strobes = (self._bytes_of_mask if shape.block < 4 else self._mask)(m)
        with m.Switch(self.kind):
            for kind, bits in ((Kind.BF16, 16), (Kind.U8, 8)):
                with m.Case(kind):
                    m.d.comb += beat.data.eq(self._data(m, bits))
                    self._cut(m, Packing.of_row(shape, bits))
            with m.Case(Kind.MASK):
                m.d.comb += [beat.data.eq(mask), beat.strb.eq(mask_strobes)]
                ends = Packing.of_mask(shape).last_of_beat(self.row)
                m.d.comb += self.emits.eq(ends & byte_ends(shape, self.block))
            with m.Case(Kind.ROW):
                words = shape.data_width // WORD
                number = Cat(self.row, self.block.i)[: exact_log2(words)]
                m.d.comb += beat.data.eq(Cat([self.numbers[0]] * words))
                m.d.comb += beat.strb.eq(0b1111 << (number << 2))
            with m.Default():
                m.d.comb += beat.data.eq(self._data(m, WORD))
                self._cut(m, Packing.of_row(shape, WORD))
        return m

    def _data(self, m, bits):
        """Return the elements of a beat, in ``bits`` bits, at every position of the beat."""
        shape = self.shape
        packing = Packing.of_row(shape, bits)
        narrowed = {WORD: lambda m, number, name: number, 16: bf16_of, 8: byte_of}[bits]
        run = Signal(packing.per_beat * WORD, name=f"run_{bits}")
        m.d.comb += run.eq(self.numbers.as_value().word_select(self._part(packing), len(run)))
        elements = Cat(
            narrowed(m, run.word_select(lane, WORD), f"lane_{lane}")
            for lane in range(packing.per_beat)
        )
        return Cat([elements] * (shape.data_width // len(elements)))

    def _part(self, packing):
        """Return the bits of ``part`` that number the beats of a row in ``packing``."""
        return self.part[: exact_log2(packing.parts)]

    def _cut(self, m, packing):
        """Set the write strobes of lanes inside the tensor, and ``last_part``."""
        part = self._part(packing)
        first = part << exact_log2(packing.per_beat)
        inside = Cat(first + lane < self.block.cols for lane in range(packing.per_beat))
        strobes = Cat(bit.replicate(packing.bits // 8) for bit in inside)
        shift = packing.place(self.block.j) << exact_log2(len(strobes))
        m.d.comb += [
            self.last_part.eq(part == packing.last_part(self.block.cols)),
            self.beat.strb.eq(strobes << shift),
        ]

    def _bits(self):
        """Return the row as bits of a mask, 0 outside the tensor."""
        cols = Mux(self.row < self.block.rows, self.block.cols, 0)
        return Cat(
            ~counts_as_zero(number) & (lane < cols) for lane, number in enumerate(self.numbers)
        )

    def _mask(self, m):
        """Return beat and write strobes of a mask, for blocks of whole bytes."""
        shape, packing = self.shape, Packing.of_mask(self.shape)
        width = packing.per_beat * shape.block
        previous = Signal(width)
        filled = Signal(width, name="mask")
        m.d.comb += filled.eq(
            previous | (self._bits() << (packing.in_beat(self.row) << shape.row_bits))
        )
        with m.If(self.accepted & (self.kind == Kind.MASK)):
            m.d.sync += previous.eq(Mux(self.emits, 0, filled))
        strobes = Const((1 << width // 8) - 1)
        shift = packing.place(self.block.j) << exact_log2(width // 8)
        return Cat([filled] * (shape.data_width // width)), strobes << shift

    def _bytes_of_mask(self, m):
        """Return beat and write strobes of a mask, for blocks of 1 or 4 bits. Every output collects
        the bits of a byte."""
        bits = self.shape.block**2
        j = self.block.j
        at = (j[: exact_log2(8 // bits)] << exact_log2(bits)) + (self.row << self.shape.row_bits)
        filled = Signal(8, name="mask")
        for number in range(OUTPUTS):
            previous = Signal(8, name=f"previous_{number}")
            with m.If(self.block.stream == number):
                m.d.comb += filled.eq(previous | (self._bits() << at))
                with m.If(self.accepted & (self.kind == Kind.MASK)):
                    m.d.sync += previous.eq(Mux(self.emits, 0, filled))
        bytes_ = self.shape.beat_bytes
        byte = j[exact_log2(8 // bits) :][: exact_log2(bytes_)]
        return Cat([filled] * bytes_), Const(1, 1) << byte
