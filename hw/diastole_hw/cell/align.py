"""Last stage of a lane: shift a block sum into the accumulator's window, round, add."""

from amaranth.hdl import Cat, Const, Module, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from diastole_sim.spec.require import require_int


def low_bits(psum_bits: int) -> int:
    """Return the bits of the lower half of a partial sum, which is not the shorter half."""
    return (psum_bits + 1) // 2


class AlignAdd(wiring.Component):
    """Add an aligned block sum to a partial sum:
    ``total = psum + ((block_sum << F) >> shift) + bit(shift - 1 of block_sum << F)``.

    The shift is arithmetic, and the sum rounds to nearest, ties upward. A shift of 0 drops no bit.
    A shift of SW + F or more leaves nothing of the block sum. The bit below the window is the
    carry-in of the adder.

    Timing: combinational. With ``halves``, ``block_sum`` and ``shift`` are input in cycle t. The
    :func:`low_bits` low bits of ``psum`` and ``total`` are input and output in t + 1, and the upper
    bits in t + 2. The shift and each half of the addition have a cycle of their own.

    Parameters
    ----------
    sum_bits, fraction : int
        SW (3 to 57) and F (0 to 32) in bits.
    psum_bits : int
        Bits of a partial sum, SW + F to 63. ``total`` wraps beyond ``psum_bits`` bits.
    halves : bool
        Add the lower and the upper half in successive cycles.

    Members
    -------
    block_sum : In(signed(sum_bits))
    shift : In(unsigned(bits_for(sum_bits + fraction)))
    psum : In(signed(psum_bits))
    total : Out(signed(psum_bits))

    ValueError if out of range. Source: the design's aligned accumulation.
    """

    def __init__(self, *, sum_bits: int, fraction: int, psum_bits: int, halves: bool = False):
        require_int("sum_bits", sum_bits, 3, 57)
        require_int("fraction", fraction, 0, 32)
        require_int("psum_bits", psum_bits, sum_bits + fraction, 63)
        self.sum_bits, self.fraction, self.psum_bits = sum_bits, fraction, psum_bits
        self.halves = halves
        super().__init__(
            {
                "block_sum": In(signed(sum_bits)),
                "shift": In(unsigned(bits_for(sum_bits + fraction))),
                "psum": In(signed(psum_bits)),
                "total": Out(signed(psum_bits)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # The window has one more place at the bottom. The shift leaves the rounding bit in this
        # place, and adding 1 there carries into the window exactly if the rounding bit is set.
        window = Cat(Const(0, self.fraction + 1), self.block_sum).as_signed() >> self.shift
        if self.halves:
            m.d.comb += self.total.eq(self._in_halves(m, window))
            return m
        carried = Cat(Const(1, 1), self.psum).as_signed() + window
        m.d.comb += self.total.eq(carried[1:])
        return m

    def _in_halves(self, m, window):
        """Return the low half of the sum a cycle after the shift, and the high half a cycle
        later."""
        low = low_bits(self.psum_bits)
        shifted = Signal(signed(self.sum_bits + self.fraction + 1), reset_less=True)
        shifted_high = Signal(signed(max(len(shifted) - 1 - low, 1)), reset_less=True)
        carry = Signal(reset_less=True)
        low_sum = Signal(low + 2)
        high_sum = Signal(self.psum_bits - low)
        high = shifted[low + 1 :] if low + 1 < len(shifted) else shifted[-1]
        m.d.sync += [shifted.eq(window), shifted_high.eq(high), carry.eq(low_sum[-1])]
        extended = Cat(shifted, shifted[-1].replicate(low))[: low + 1]
        # As above: two equal bits below the operands carry into the sum exactly if the bits are
        # set.
        upper = (Cat(carry, self.psum[low:]).as_signed() + Cat(carry, shifted_high).as_signed())[1:]
        m.d.comb += [
            low_sum.eq(Cat(Const(1, 1), self.psum[:low]) + extended),
            high_sum.eq(upper),
        ]
        return Cat(low_sum[1:-1], high_sum)
