"""Cut bus beats into blocks and output the vectors of blocks: the gearbox in front of the
scratchpads, with a transposer."""

from math import gcd

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_sim.spec.require import require_int

BLOCK_LAYOUT = data.StructLayout(
    {
        "kind": unsigned(2),
        "transposed": 1,  # transpose: the vectors are columns
        "drop": 1,  # the vectors are not needed
        "ends": 1,  # last block of a part
    }
)


def beat_layout(bits: int) -> data.StructLayout:
    """Return the layout of a beat; ``last`` marks the last beat of a part."""
    return data.StructLayout({"bits": unsigned(bits), "last": 1})


class BlockBuffer(wiring.Component):
    """Cut beats into blocks of B x B elements, and output the vectors (rows or columns) of the
    blocks.

    The beats of a *part* hold blocks of a single kind, block after block. The rows of a block
    follow one another, lowest bits first. Bits left over at the end of a part are dropped. A block
    is filled while the previous block is output. Wiring transposes a block on its way from the
    first step to the second.

    Not checked: the last beat of a part must hold bits of the last block, and a part must not be
    empty.

    Timing: a block moves to the output in the cycle after its last bit arrives, as soon as
    ``blocks`` is valid and the previous block is finished or outputs its last vectors. The vectors
    are output from the next cycle on, V per cycle. A dropped block takes a single output cycle. A
    beat is accepted per cycle while the left-over bits are fewer than the bits of a block of the
    widest kind. The first beat of a part waits until the last block of the previous part moves on.
    ``i.ready`` and ``blocks.ready`` are combinational from ``o.ready`` and ``blocks``; ``o`` is a
    function of registers.

    Parameters
    ----------
    beat : int
        D, bits of a beat (8 to 1024).
    elements : tuple of int
        Bits of an element by kind, 1 to 4 kinds (2 to 64 bits).
    side : int
        B (1 to 32).
    vectors : int
        V, a power of two up to B.

    Members
    -------
    i : In(stream of beat_layout(beat))
    blocks : In(stream of BLOCK_LAYOUT)
    o : Out(stream of {"vectors", "index", "last"})
        V vectors of B elements, in the width of the widest kind, with the sign on top. The vectors
        are numbers ``index`` V to ``index`` V + V - 1 of the block. ``last``: the vectors are the
        last of the block. A dropped block outputs a single item of arbitrary vectors, with
        ``index`` 0 and ``last`` 1.

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
        """Cycles in which a block is output."""
        return self.side // self.vectors

    @property
    def block_bits(self) -> tuple[int, ...]:
        """Bits of a block by kind."""
        return tuple(self.side**2 * bits for bits in self.elements)

    @property
    def unit(self) -> int:
        """Greatest common divisor of the bits of a beat and of a block of any kind. It divides
        every number of left-over bits."""
        return gcd(self.beat, *self.block_bits)

    @property
    def places(self) -> list[int]:
        """Positions at which a beat may be appended: possible numbers of left-over bits,
        ascending."""
        most = max(self.block_bits)
        places = set()
        for bits in self.block_bits:
            reachable: set[int] = set()
            new = {0}
            while new:
                reachable |= new
                filled = {left + self.beat for left in new if left < most}
                freed = {left - bits for left in new if left >= bits}
                new = (filled | freed) - reachable
            places |= {left for left in reachable if left < most}
        return sorted(places)

    def elaborate(self, platform):
        m = Module()
        moves = Signal()  # a block moves from the input bits to the output register
        filled, whole = self._fill(m, moves)
        self._leave(m, moves, filled, whole)
        return m

    def _fill(self, m, moves):
        """Append beats to the left-over bits. Return all bits, and whether the bits contain a whole
        block."""
        most, unit = max(self.block_bits), self.unit
        filled = data_register(max(self.places) + self.beat)
        count = Signal(range(len(filled) // unit + 1))  # in units, as all lengths below
        left, remaining = Signal.like(count, name="left"), Signal.like(filled, name="remaining")
        closed = Signal()  # the last beat of a part is in, the last block has not moved on
        size = Signal.like(count, name="size")
        m.d.comb += [
            remaining.eq(filled),
            left.eq(count),
            self.i.ready.eq((left < most // unit) & (~closed | (moves & self.blocks.p.ends))),
        ]
        with m.Switch(self.blocks.p.kind):
            for kind, bits in enumerate(self.block_bits):
                with m.Case(kind) if kind < len(self.block_bits) - 1 else m.Default():
                    m.d.comb += size.eq(bits // unit)
                    with m.If(moves):
                        m.d.comb += remaining.eq(filled >> bits)
        with m.If(moves):
            m.d.comb += left.eq(Mux(self.blocks.p.ends, 0, count - size))
            m.d.sync += closed.eq(closed & ~self.blocks.p.ends)
        m.d.sync += [filled.eq(remaining), count.eq(left)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [count.eq(left + self.beat // unit), closed.eq(self.i.p.last)]
            with m.Switch(left):
                for place in self.places:
                    with m.Case(place // unit):
                        m.d.sync += filled[place : place + self.beat].eq(self.i.p.bits)
        return filled, count >= size

    def _leave(self, m, moves, filled, whole):
        """Output the vectors of a block; the first vectors are in the lowest bits."""
        shape = self.o.p.vectors.shape()
        rows = data_register(data.ArrayLayout(shape.elem_shape, self.side))
        busy = Signal()
        index = Signal(self.o.p.index.shape())
        last = data_register(name="last")  # the vectors at the output are the block's last
        leaves = Signal()  # the block's last vectors are accepted
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
                    m.d.sync += rows.eq(self._transposed(filled, bits))
        return m

    def _transposed(self, filled, bits):
        """Return the block in the lowest bits, of elements of ``bits`` bits. Columns come first if
        the block is transposed."""
        pad, side = Const(0, max(self.elements) - bits), self.side

        def element(row, col):
            stored = filled.word_select(row * side + col, bits)
            return Cat(stored[:-1], pad, stored[-1])

        plain = Cat(element(r, c) for r in range(side) for c in range(side))
        transposed = Cat(element(r, c) for c in range(side) for r in range(side))
        return Mux(self.blocks.p.transposed, transposed, plain)
