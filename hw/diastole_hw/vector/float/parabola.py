"""Evaluate a parabola in integers, as the special functions need."""

from amaranth.hdl import Cat, Const, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.carry_save import quick_sum
from diastole_hw.data_registers import data_register
from diastole_hw.vector.float.booth_rows import RowProduct, two_rows
from diastole_hw.vector.float.function_rows import C0_BITS, C1_BITS, C2_BITS
from diastole_sim.spec.functions import SLOPE_BITS, SQUARE_BITS, VALUE_BITS

ARGUMENT_BITS = 21
"""Bits of t. The argument of a table with fewer bits is shifted left to this width."""
LINEAR_DROPPED = ARGUMENT_BITS + SLOPE_BITS - VALUE_BITS
SQUARE_DROPPED = SQUARE_BITS + SLOPE_BITS - VALUE_BITS


class Parabola(wiring.Component):
    """Evaluate a row of a special function:
    ``value`` = ``c0`` + (``c1`` * ``t`` >> 24) + (``c2`` * ``q`` >> 17), modulo 2^30. The shifts
    round towards minus infinity.

    Timing: 1 cycle, 1 value per cycle. A sum follows the registers.

    Members
    -------
    c0, c1, c2 : In(30), In(signed(27)), In(18)
    t, q : In(21), In(14)
    value : Out(30)
    """

    c0: In(C0_BITS)
    c1: In(signed(C1_BITS))
    c2: In(C2_BITS)
    t: In(ARGUMENT_BITS)
    q: In(SQUARE_BITS)
    value: Out(C0_BITS)

    latency = 1

    def elaborate(self, platform):
        m = Module()
        linear = RowProduct(a_bits=C1_BITS, b_bits=ARGUMENT_BITS, signed=True, width=50)
        bent = RowProduct(a_bits=C2_BITS, b_bits=SQUARE_BITS, signed=False, width=34)
        m.submodules.linear = linear
        m.submodules.bent = bent
        m.d.comb += [
            linear.a.eq(self.c1),
            linear.b.eq(self.t),
            bent.a.eq(self.c2),
            bent.b.eq(self.q),
        ]
        # The offsets are multiples of the last kept bit, and no row loses a carry at the top.
        offset = (linear.offset >> LINEAR_DROPPED) + (bent.offset >> SQUARE_DROPPED)
        rows, carries = [self.c0, Const(-offset % 2**C0_BITS, C0_BITS)], []
        for product, dropped in ((linear, LINEAR_DROPPED), (bent, SQUARE_DROPPED)):
            low = Signal(dropped + 1, name=f"low_{dropped}")
            m.d.comb += low.eq(product.total[:dropped] + product.carries[:dropped])
            rows += [product.total[dropped:], product.carries[dropped:]]
            carries.append(low[-1])
        first, second = two_rows(m, rows, C0_BITS, "terms")
        one, other = data_register(C0_BITS), data_register(C0_BITS)
        carry = data_register()
        m.d.sync += [
            one.eq(first),
            other.eq(Cat(carries[0], second[1:])),  # lowest bit of `second`: 0
            carry.eq(carries[1]),
        ]
        m.d.comb += self.value.eq(quick_sum(m, one, other, carry))
        return m
