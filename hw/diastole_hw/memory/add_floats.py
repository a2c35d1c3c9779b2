"""Add two floats of an accumulator, and round the sum."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_output, data_register
from diastole_hw.memory.round_sum import float_layout, normalised
from diastole_sim.spec.accumulator import EXPONENT_BITS, MAX_MANTISSA, MIN_MANTISSA
from diastole_sim.spec.require import require_int

GUARD_BITS = 3
"""Guard bits below the last bit of the larger number: two bits that are kept, and a sticky bit for
all bits below."""


class AddFloats(wiring.Component):
    """Compute ``result`` = R_p(``a`` + ``b``), p = m + 1: to nearest, ties to even. ``inexact`` is
    set if ``result`` is not the sum.

    Timing: two cycles, one sum per cycle. The first cycle aligns and adds, the second cycle
    normalises and rounds. There is no valid bit: the user delays a valid bit alongside.

    Parameters
    ----------
    mantissa : int
        m, 2 to 23.

    Members
    -------
    a, b : In(float_layout(mantissa))
        Integers with a sum below 2^63. Not checked. Every exponent of the sum then fits.
    result : Out(float_layout(mantissa))
    inexact : Out(1)

    ValueError if out of range. Source: docs/formats.md, "Float accumulators".
    """

    a: data.View
    b: data.View
    result: data.View

    def __init__(self, *, mantissa: int):
        require_int("mantissa", mantissa, MIN_MANTISSA, MAX_MANTISSA)
        self.mantissa = mantissa
        layout = float_layout(mantissa)
        super().__init__(
            {"a": In(layout), "b": In(layout), "result": Out(layout), "inexact": Out(1)}
        )

    def elaborate(self, platform):
        m = Module()
        width = self.mantissa + 1 + GUARD_BITS + 1  # with a carry
        layout = {"sum": unsigned(width), "exponent": unsigned(EXPONENT_BITS), "negative": 1}
        added = data_register(data.StructLayout(layout))
        self._add(m, added)
        self._round(m, added)
        return m

    def _add(self, m, added):
        """Align the smaller operand with the larger operand, then add or subtract."""
        a, b = self.a, self.b
        a_bits, b_bits = a.as_value(), b.as_value()
        swap = Signal()
        large = Signal(a.shape())
        small = Signal(a.shape())
        m.d.comb += [
            swap.eq(a_bits[:-1] < b_bits[:-1]),
            large.eq(Mux(swap, b_bits, a_bits)),
            small.eq(Mux(swap, a_bits, b_bits)),
        ]
        significand = Cat(large.fraction, large.exponent.any())
        wide = Cat(Const(0, GUARD_BITS), small.fraction, small.exponent.any())
        distance = Signal(EXPONENT_BITS)
        m.d.comb += distance.eq(large.exponent - small.exponent)
        aligned, sticky = wide, 0
        levels = (len(wide) - 1).bit_length()
        for level in range(levels):
            shift = 1 << level
            shifts = distance[level]
            moved = Signal(len(wide), name=f"aligned_{shift}")
            m.d.comb += moved.eq(Mux(shifts, aligned >> shift, aligned))
            if 2 * shift - 1 > GUARD_BITS:  # smaller shifts move nothing out
                lost = Signal(name=f"lost_{shift}")
                m.d.comb += lost.eq(shifts & aligned[:shift].any())
                sticky = sticky | lost
            aligned = moved
        far = distance[levels:].any()
        addend = Signal(len(wide))
        m.d.comb += addend.eq(Mux(far, small.exponent.any(), Cat(aligned[0] | sticky, aligned[1:])))
        subtracts = large.negative ^ small.negative
        first = Cat(Const(0, GUARD_BITS), significand)
        m.d.sync += [
            added.sum.eq(first + (addend ^ subtracts.replicate(len(added.sum))) + subtracts),
            added.exponent.eq(large.exponent),
            added.negative.eq(large.negative),
        ]

    def _round(self, m, added):
        """Normalise and round the sum. The leading one is hidden, and a carry out of the fraction
        adds 1 to the exponent."""
        total = added.sum
        normal, count = normalised(m, total, (len(total) - 1).bit_length())
        nonzero = normal[-1]
        fraction = normal[GUARD_BITS + 1 : -1]
        half, rest = normal[GUARD_BITS], normal[:GUARD_BITS]
        exponent = Signal(EXPONENT_BITS)
        up = Signal()
        packed = Signal(self.mantissa + EXPONENT_BITS)
        m.d.comb += [
            exponent.eq(added.exponent + 1 - count),
            up.eq(half & (fraction[0] | rest.any())),
            packed.eq(Cat(fraction, exponent) + up),
        ]
        result = data_output(m, self.result, "result_register")
        inexact = data_output(m, self.inexact, "inexact_register")
        m.d.sync += [
            result.eq(Mux(nonzero, Cat(packed, added.negative), 0)),
            inexact.eq(half | rest.any()),
        ]
