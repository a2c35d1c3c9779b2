"""The end of a lane: shift a block sum into the accumulator's window, round, add."""

from amaranth.hdl import Cat, Const, Module, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from diastole_sim.spec.check import require_int


class AlignAdd(wiring.Component):
    """``total = psum + ((block_sum << F) >> shift) + bit(shift - 1 of block_sum << F)``.

    The shift is arithmetic, so this rounds to nearest, ties upward; a shift of 0 drops nothing, and
    one of SW + F or more leaves nothing of the block sum. The bit below the window is the adder's
    carry-in.

    Timing: combinational.

    Parameters
    ----------
    sum_bits, fraction : int
        SW (3 to 57) and F (0 to 32) in bits.
    psum_bits : int
        Bits of a partial sum, SW + F to 63; ``total`` wraps beyond them.

    Members
    -------
    block_sum : In(signed(sum_bits))
    shift : In(unsigned(bits_for(sum_bits + fraction)))
    psum : In(signed(psum_bits))
    total : Out(signed(psum_bits))

    ValueError if out of range. Source: the design's aligned accumulation.
    """

    def __init__(self, *, sum_bits: int, fraction: int, psum_bits: int):
        require_int("sum_bits", sum_bits, 3, 57)
        require_int("fraction", fraction, 0, 32)
        require_int("psum_bits", psum_bits, sum_bits + fraction, 63)
        self.sum_bits, self.fraction, self.psum_bits = sum_bits, fraction, psum_bits
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
        # One place more below the window: there the shift leaves the rounding bit, and adding 1
        # there carries into the window exactly if that bit is set.
        window = Cat(Const(0, self.fraction + 1), self.block_sum).as_signed() >> self.shift
        carried = Cat(Const(1, 1), self.psum).as_signed() + window
        m.d.comb += self.total.eq(carried[1:])
        return m
