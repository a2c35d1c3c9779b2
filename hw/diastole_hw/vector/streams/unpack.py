"""Unpack beats into rows of numbers."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.binary32 import ONE
from diastole_hw.vector.float.narrow import from_integer, from_label
from diastole_hw.vector.stream_layouts import WORD, VectorShape, row_layout
from diastole_hw.vector.streams.drawn import drawn_layout
from diastole_hw.vector.streams.packing import BYTES, WIDE, Packing, expected_layout, one_of
from diastole_sim.spec.rounding import DRAW_BITS
from diastole_sim.spec.stream_table import Kind


def banks(shape: VectorShape) -> int:
    """Return the number of banks of a row. A bank holds the numbers of a beat in binary32."""
    return Packing.of_row(shape, WORD).parts


class RowUnpack(wiring.Component):
    """Unpack the numbers of a row slot of a block from a beat. Lanes outside the tensor are +0.

    Timing: combinational.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    kind : In(4)
        Kind of the stream.
    block : In(expected_layout(shape))
        ``i`` and ``j`` give the position of the row in the beat. ``cols``: lanes inside the tensor.
    row : In(range(B))
        Row slot, if the beat holds several row slots.
    beat : In(data_width)
    zero : In(1)
        The row is +0 throughout, unless ``of_product`` is 1.
    product : In(row_layout(shape)), of_product : In(1)
        Row of a product; ``numbers`` is this row.
    product_cols : In(range(B + 1))
        Lanes of the product's row inside the tensor.
    drawn : In(drawn_layout(shape)), of_draws : In(1), drawn_cols : In(range(B + 1))
        As the members of a product, for a row of draws: ``numbers`` is this row times 2^-16. Only
        with ``shape.draws``.
    numbers : Out(row_layout(shape))
        If a beat holds only a part of the row, the part is repeated.
    word : Out(32)
        Number of the row slot ``row``, if the beat holds a list: one number for each row slot.
    """

    block: data.View
    product: data.View
    drawn: data.View
    numbers: data.View

    def __init__(self, shape: VectorShape):
        self.shape = shape
        draws = {
            "drawn": In(drawn_layout(shape)),
            "of_draws": In(1),
            "drawn_cols": In(range(shape.block + 1)),
        }
        super().__init__(
            (draws if shape.draws else {})
            | {
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
        beside = self.of_product
        cols = Mux(self.of_product, self.product_cols, self.block.cols)
        if self.shape.draws:
            beside = beside | self.of_draws
            cols = Mux(self.of_draws, self.drawn_cols, cols)
        m.d.comb += from_memory.eq(~self.zero & ~beside)
        elements = [Const(0, WORD)] * self.shape.block
        for name, condition, numbers in self._sources(m, word):
            chosen = Signal(name=name)
            m.d.comb += chosen.eq(condition)
            if name not in ("product", "draws"):
                chosen = chosen & from_memory
            elements = [
                old | (chosen.replicate(len(new)) & new)
                for old, new in zip(elements, numbers, strict=True)
            ]
        for lane, number in enumerate(elements):
            inside = Signal(name=f"inside_{lane}")
            m.d.comb += inside.eq(lane < cols)
            m.d.comb += self.numbers[lane].eq(number & inside.replicate(WORD))
        return m

    def _sources(self, m, word):
        """Yield every source of a row: name, whether the source is selected, and the numbers, lane
        by lane."""
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
        if self.shape.draws:
            drawn = [
                from_integer(m, self.drawn[lane], f"drawn_{lane}", fraction_bits=DRAW_BITS)
                for lane in range(block)
            ]
            yield "draws", self.of_draws, drawn

    def _word(self):
        """Return number ``row`` of a list."""
        packing = Packing.of_row(self.shape, WORD)
        return packing.run_of(self.beat, self.block.i).word_select(packing.in_beat(self.row), WORD)

    def _run(self, m, bits):
        """Return the elements of ``bits`` bits in the beat that belong to the row."""
        packing = Packing.of_row(self.shape, bits)
        run = Signal(packing.per_beat * bits, name=f"run_{bits}")
        m.d.comb += run.eq(packing.run_of(self.beat, self.block.j))
        return [run.word_select(n, bits) for n in range(packing.per_beat)]

    def _lanes(self, numbers):
        """Return a number for each lane of a row. A short list of numbers is repeated."""
        return [numbers[lane % len(numbers)] for lane in range(self.shape.block)]
