"""Beats to rows of numbers."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.binary32 import ONE
from diastole_hw.vector.float.narrow import from_integer, from_label
from diastole_hw.vector.stream_layouts import WORD, VectorShape, row_layout
from diastole_hw.vector.streams.packing import BYTES, WIDE, Packing, expected_layout, one_of
from diastole_sim.spec.stream_table import Kind


def banks(shape: VectorShape) -> int:
    """Into how many a row is divided: each has what a beat brings of it in binary32."""
    return Packing.of_row(shape, WORD).parts


class RowUnpack(wiring.Component):
    """A row slot of a block, as its numbers come in a beat; +0 outside the tensor.

    Timing: combinational.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    kind : In(4)
        Of the stream.
    block : In(expected_layout(shape))
        ``i`` and ``j`` say where in the beat the row is; ``cols``: lanes in the tensor.
    row : In(range(B))
        Row slot, where the beat has something for several.
    beat : In(data_width)
    zero : In(1)
        The row is +0 throughout.
    product : In(row_layout(shape)), of_product : In(1)
        The row is this one.
    product_cols : In(range(B + 1))
        Lanes of that one that are in the tensor.
    numbers : Out(row_layout(shape))
        Where a beat has but a part of the row, that part again and again.
    word : Out(32)
        Number ``row`` of a list.
    """

    block: data.View
    product: data.View
    numbers: data.View

    def __init__(self, shape: VectorShape):
        self.shape = shape
        super().__init__(
            {
                "kind": In(4),
                "block": In(expected_layout(shape)),
                "row": In(range(shape.block)),
                "beat": In(shape.data_width),
                "zero": In(1),
                "product": In(row_layout(shape)),
                "of_product": In(1),
                "product_cols": In(range(shape.block + 1)),
                "numbers": Out(row_layout(shape)),
                "word": Out(WORD),
            }
        )

    def elaborate(self, platform):
        m = Module()
        word = Signal(WORD)
        m.d.comb += [word.eq(self._word()), self.word.eq(word)]
        from_memory = Signal()
        m.d.comb += from_memory.eq(~self.zero & ~self.of_product)
        cols = Mux(self.of_product, self.product_cols, self.block.cols)
        found = [Const(0, WORD)] * self.shape.block
        for name, wanted, numbers in self._sources(m, word):
            chosen = Signal(name=name)
            m.d.comb += chosen.eq(wanted)
            if name != "product":
                chosen = chosen & from_memory
            found = [
                old | (chosen.replicate(len(new)) & new)
                for old, new in zip(found, numbers, strict=True)
            ]
        for lane, number in enumerate(found):
            inside = Signal(name=f"inside_{lane}")
            m.d.comb += inside.eq(lane < cols)
            m.d.comb += self.numbers[lane].eq(number & inside.replicate(WORD))
        return m

    def _sources(self, m, word):
        """What may be wanted: whether it is, and its numbers, lane by lane."""
        block, kind = self.shape.block, self.kind
        mask = Packing.of_mask(self.shape)
        bits = Signal(block)
        run = mask.run_of(self.beat, self.block.j)
        m.d.comb += bits.eq(run.word_select(mask.in_beat(self.row), block))
        small = [from_integer(m, byte, f"byte_{n}") for n, byte in enumerate(self._run(m, 8))]
        label = from_label(m, word, "label")
        bf16 = [half << 16 for half in self._run(m, 16)]
        yield "wide", one_of(kind, (*WIDE, Kind.COLUMN)), self._lanes(self._run(m, WORD))
        yield "bf16", kind == Kind.BF16, self._lanes(bf16)
        yield "bytes", one_of(kind, BYTES), self._lanes(small)
        yield "mask", kind == Kind.MASK, [Mux(bit, ONE, 0) for bit in bits]
        yield "per_row", kind == Kind.ROW, [word] * block
        yield "labels", kind == Kind.LABELS, [label] * block
        yield "product", self.of_product, [self.product[lane] for lane in range(block)]

    def _word(self):
        """Number ``row`` of a list."""
        packing = Packing.of_row(self.shape, WORD)
        return packing.run_of(self.beat, self.block.i).word_select(packing.in_beat(self.row), WORD)

    def _run(self, m, bits):
        """Elements of ``bits`` bits that the beat has of the row."""
        packing = Packing.of_row(self.shape, bits)
        run = Signal(packing.per_beat * bits, name=f"run_{bits}")
        m.d.comb += run.eq(packing.run_of(self.beat, self.block.j))
        return [run.word_select(n, bits) for n in range(packing.per_beat)]

    def _lanes(self, numbers):
        """For each lane of a row, which may have more of them."""
        return [numbers[lane % len(numbers)] for lane in range(self.shape.block)]
