"""From bus beats to the vectors of blocks: the gearbox in front of the scratchpads, which turns."""

from math import gcd

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_sim.spec.require import require_int

BLOCK_LAYOUT = data.StructLayout(
    {
        "kind": unsigned(2),
        "turned": 1,  # its vectors are its columns
        "drop": 1,  # nobody wants its vectors
        "ends": 1,  # last of its part
    }
)


def beat_layout(bits: int) -> data.StructLayout:
    """A beat; ``last`` of its part."""
    return data.StructLayout({"bits": unsigned(bits), "last": 1})


class BlockBuffer(wiring.Component):
    """Cut beats into blocks of B x B elements, and give their vectors, rows or columns.

    The beats of a *part* hold its blocks, all of one kind, one after the other, each with its rows
    one after the other, lowest bits first; bits left over at the end of a part are dropped. A block
    fills while the one before leaves: it is turned by wiring, on its way from one to the other.

    Not checked: that the last beat of a part holds bits of its last block, and no part is empty.

    Timing: a block moves on in the cycle after its last bit came, as soon as ``blocks`` is valid
    and the block before has left or gives its last vectors; they leave from the next cycle on, V
    per cycle, or one cycle after it where they are dropped. A beat is taken per cycle, as long as
    no block more than the widest kind's is left over when it comes; the first one of a part waits
    until the last block of the part before moves on. ``i.ready`` and ``blocks.ready`` are
    combinational from ``o.ready`` and ``blocks``; ``o`` is a function of registers.

    Parameters
    ----------
    beat : int
        D, bits of one (8 to 1024).
    elements : tuple of int
        Bits of an element by kind, 1 to 4 kinds (each 2 to 64).
    side : int
        B (1 to 32).
    vectors : int
        V, a power of two up to B.

    Members
    -------
    i : In(stream of beat_layout(beat))
    blocks : In(stream of BLOCK_LAYOUT)
    o : Out(stream of {"vectors", "index", "last"})
        V vectors of B elements in as many bits as the widest, the sign on top; vectors ``index`` V
        to ``index`` V + V - 1 of their block; whether they are its last ones. A dropped block gives
        once something, ``index`` 0 and ``last`` 1.

    ValueError if a parameter is out of range.
    """

    i: stream.Interface
    blocks: stream.Interface
    o: stream.Interface

    def __init__(self, *, beat: int, elements: tuple[int, ...], side: int, vectors: int):
        require_int("beat", beat, 8, 1024)
        require_int("len(elements)", len(elements), 1, 4)
        for kind, bits in enumerate(elements):
            require_int(f"elements[{kind}]", bits, 2, 64)
        require_int("side", side, 1, 32)
        if vectors not in (1 << log for log in range(side.bit_length())):
            raise ValueError(f"vectors must be a power of two up to side {side}, not {vectors}")
        self.beat, self.elements, self.side, self.vectors = beat, elements, side, vectors
        vector = data.ArrayLayout(unsigned(max(elements)), side)
        out = {"vectors": data.ArrayLayout(vector, vectors), "index": range(self.steps), "last": 1}
        super().__init__(
            {
                "i": In(stream.Signature(beat_layout(beat))),
                "blocks": In(stream.Signature(BLOCK_LAYOUT)),
                "o": Out(stream.Signature(data.StructLayout(out))),
            }
        )

    @property
    def steps(self) -> int:
        """Cycles in which a block leaves."""
        return self.side // self.vectors

    @property
    def block_bits(self) -> tuple[int, ...]:
        """By kind."""
        return tuple(self.side**2 * bits for bits in self.elements)

    @property
    def unit(self) -> int:
        """Bits of which everything that is left over is a multiple."""
        return gcd(self.beat, *self.block_bits)

    @property
    def places(self) -> list[int]:
        """Where a beat may come to stand: bits that may be left over before it."""
        most = max(self.block_bits)
        places = set()
        for bits in self.block_bits:
            found: set[int] = set()
            new = {0}
            while new:
                found |= new
                filled = {left + self.beat for left in new if left < most}
                freed = {left - bits for left in new if left >= bits}
                new = (filled | freed) - found
            places |= {left for left in found if left < most}
        return sorted(places)

    def elaborate(self, platform):
        m = Module()
        moves = Signal()  # a block, from where it fills to where it leaves
        filled, whole = self._fill(m, moves)
        self._leave(m, moves, filled, whole)
        return m

    def _fill(self, m, moves):
        """Beats come in behind what is left over; returns all of it, and whether it has a block."""
        most, unit = max(self.block_bits), self.unit
        filled = data_register(max(self.places) + self.beat)
        count = Signal(range(len(filled) // unit + 1))  # in units, as everything here
        left, kept = Signal.like(count, name="left"), Signal.like(filled, name="kept")
        closed = Signal()  # the last beat of a part is in, its last block has not moved on
        size = Signal.like(count, name="size")
        m.d.comb += [
            kept.eq(filled),
            left.eq(count),
            self.i.ready.eq((left < most // unit) & (~closed | (moves & self.blocks.p.ends))),
        ]
        with m.Switch(self.blocks.p.kind):
            for kind, bits in enumerate(self.block_bits):
                with m.Case(kind) if kind < len(self.block_bits) - 1 else m.Default():
                    m.d.comb += size.eq(bits // unit)
                    with m.If(moves):
                        m.d.comb += kept.eq(filled >> bits)
        with m.If(moves):
            m.d.comb += left.eq(Mux(self.blocks.p.ends, 0, count - size))
            m.d.sync += closed.eq(closed & ~self.blocks.p.ends)
        m.d.sync += [filled.eq(kept), count.eq(left)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [count.eq(left + self.beat // unit), closed.eq(self.i.p.last)]
            with m.Switch(left):
                for place in self.places:
                    with m.Case(place // unit):
                        m.d.sync += filled[place : place + self.beat].eq(self.i.p.bits)
        return filled, count >= size

    def _leave(self, m, moves, filled, whole):
        """A block's vectors, the first ones lowest."""
        shape = self.o.p.vectors.shape()
        rows = data_register(data.ArrayLayout(shape.elem_shape, self.side))
        busy = Signal()
        index = Signal(self.o.p.index.shape())
        last = data_register(name="last")  # these are the block's last vectors
        leaves = Signal()  # the block, with its last vectors
        m.d.comb += [
            self.o.valid.eq(busy),
            self.o.p.vectors.eq(rows.as_value()),
            self.o.p.index.eq(index),
            self.o.p.last.eq(last),
            leaves.eq(busy & self.o.ready & last),
            self.blocks.ready.eq(whole & (~busy | leaves)),
            moves.eq(self.blocks.valid & self.blocks.ready),
        ]
        with m.If(busy & self.o.ready):
            m.d.sync += [index.eq(index + 1), last.eq(index + 2 == self.steps)]
            m.d.sync += rows.eq(rows.as_value() >> len(self.o.p.vectors.as_value()))
        with m.If(leaves):
            m.d.sync += busy.eq(0)
        with m.If(moves):
            drop = self.blocks.p.drop if self.steps > 1 else 1
            m.d.sync += [busy.eq(1), index.eq(0), last.eq(drop)]
            for kind, bits in enumerate(self.elements):
                with m.If(self.blocks.p.kind == kind):
                    m.d.sync += rows.eq(self._turned(filled, bits))
        return m

    def _turned(self, filled, bits):
        """The block of a kind that stands lowest, its columns first where it is turned."""
        pad, side = Const(0, max(self.elements) - bits), self.side

        def element(row, col):
            stored = filled.word_select(row * side + col, bits)
            return Cat(stored[:-1], pad, stored[-1])

        plain = Cat(element(r, c) for r in range(side) for c in range(side))
        turned = Cat(element(r, c) for c in range(side) for r in range(side))
        return Mux(self.blocks.p.turned, turned, plain)
