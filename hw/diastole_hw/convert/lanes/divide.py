"""Divide the significand of a binary32 exactly by the four significand bits of a scale."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import one_later
from diastole_sim.spec.formats import BINARY32_SIGNIFICAND_BITS, SCALE_SIGNIFICAND_BITS
from diastole_sim.spec.require import require_int

_STEPS_PER_CYCLE = 5


def division_cycles(bits: int) -> int:
    """Return the latency of :class:`Divide` in cycles."""
    return -(-(bits + 1) // _STEPS_PER_CYCLE)


def division_step(m, remainder, divisor, next_bit, name):
    """Perform a step of a long division. Return the quotient bit, and the remainder with the next
    bit of the dividend appended.

    ``remainder`` must be below twice ``divisor``.
    """
    bit = Signal(name=f"{name}_bit")
    rest = Signal(SCALE_SIGNIFICAND_BITS, name=f"{name}_rest")
    m.d.comb += bit.eq(remainder >= divisor)
    m.d.comb += rest.eq(Mux(bit, remainder - divisor, remainder))
    return bit, Cat(next_bit, rest)


class Divide(wiring.Component):
    """Divide a significand, 2^23 to 2^24 - 1, by a divisor of 8 to 15 in units of 2^20.

    The quotient q lies between 1/2 and 2. ``quotient`` has the first ``bits`` significant bits of
    q: ``floor(q * 2^(bits - 1 + below))`` with ``below`` = q < 1. ``sticky``: q has further bits.
    Other divisors give arbitrary outputs.

    Timing: latency ``division_cycles(bits)``, a division per cycle.

    Parameters
    ----------
    bits : int
        Bits of the quotient (2 to 28).

    Members
    -------
    significand : In(24)
    divisor : In(4)
    quotient : Out(bits)
    sticky, below : Out(1)
    """

    def __init__(self, *, bits: int):
        require_int("bits", bits, 2, 28)
        self.bits = bits
        super().__init__(
            {
                "significand": In(BINARY32_SIGNIFICAND_BITS),
                "divisor": In(SCALE_SIGNIFICAND_BITS),
                "quotient": Out(bits),
                "sticky": Out(1),
                "below": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        divisor = self.divisor
        remainder = self.significand[-SCALE_SIGNIFICAND_BITS:]
        dividend = self.significand[:-SCALE_SIGNIFICAND_BITS]  # bits still to be divided
        quotient_bits = Const(0, 0)
        for step in range(self.bits + 1):
            bit, remainder = division_step(
                m, remainder, divisor, dividend[-1] if len(dividend) else Const(0), f"step{step}"
            )
            dividend = dividend[:-1]
            quotient_bits = Cat(bit, quotient_bits)
            if step % _STEPS_PER_CYCLE == _STEPS_PER_CYCLE - 1 or step == self.bits:
                divisor = one_later(m, divisor, f"divisor{step}")
                remainder = one_later(m, remainder, f"remainder{step}")
                dividend = one_later(m, dividend, f"dividend{step}")
                quotient_bits = one_later(m, quotient_bits, f"quotient_bits{step}")
        m.d.comb += [
            self.below.eq(~quotient_bits[-1]),
            self.quotient.eq(Mux(self.below, quotient_bits, quotient_bits[1:])),
            self.sticky.eq(remainder.any() | dividend.any() | (quotient_bits[0] & ~self.below)),
        ]
        return m
