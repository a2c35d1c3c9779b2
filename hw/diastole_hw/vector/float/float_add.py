"""Add two floats with a single rounding, compare two floats, or pass a float on."""

from enum import IntEnum

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.binary32 import BINARY32, FRACTION_BITS, QUIET, TOP, float_fields, not_a_number
from diastole_hw.carry_save import quick_sum
from diastole_hw.data_registers import data_output, data_register
from diastole_hw.memory.round_sum import normalised
from diastole_hw.vector.stream_layouts import WORD
from diastole_sim.spec.formats import BINARY32_SIGNIFICAND_BITS, EXPONENT_BIAS

GUARD_BITS = 3
"""Bits below the last bit of the larger number: 2 exact bits, and a sticky bit for all lower
bits."""
SUM_BITS = BINARY32_SIGNIFICAND_BITS + GUARD_BITS + 1
NEAR_BITS = 5
"""Bits of the distance of 2 exponents. From the largest value on, the smaller number affects only
the sticky bit."""


class AddOp(IntEnum):
    """Operation on a and c."""

    ADD = 0
    MAX = 1
    MIN = 2
    GT = 3
    EQ = 4
    FIRST = 5
    SECOND = 6


class FloatAdd(wiring.Component):
    """Compute ``result`` from ``a`` and ``c`` by operation ``op``.

    ADD: the sum, rounded to nearest, ties to even. A sum below 2^-126 is +0 if neither number is a
    zero. Zeros have the signs of IEEE 754, and a difference of equal numbers is +0. MAX: a if
    a > c, otherwise c. MIN: a if a < c, otherwise c. GT, EQ: 1.0 or +0. In all of these operations
    subnormal operands are zeros with the operand's sign. The result is the NaN 7fc00000 if an
    operand is NaN, and for Inf - Inf. A comparison with NaN gives +0. FIRST, SECOND: a, or c, all
    bits unchanged.

    Timing: 3 cycles (compare, align and add, round), 1 result per cycle. There is no valid bit: the
    user delays a valid bit alongside.

    Members
    -------
    a, c, result : In(32), In(32), Out(32)
    op : In(3)
        An AddOp. An unknown code gives an arbitrary result.
    """

    a: In(WORD)
    c: In(WORD)
    op: In(3)
    result: Out(WORD)

    latency = 3

    def elaborate(self, platform):
        m = Module()
        compared = data_register(
            data.StructLayout(
                {
                    "large": BINARY32,
                    "small": unsigned(BINARY32_SIGNIFICAND_BITS),
                    "near": unsigned(NEAR_BITS),
                    "subtract": unsigned(1),
                }
            )
        )
        added = data_register(
            data.StructLayout(
                {"sum": unsigned(SUM_BITS), "exponent": unsigned(8), "negative": unsigned(1)}
            )
        )
        self._compare(m, compared)
        self._add(m, added, compared)
        self._round(m, added)
        return m

    def _compare(self, m, compared):
        """Stage 1: order the operands by magnitude. The result of an operation other than ADD
        becomes the larger number, and nothing is added."""
        a, c = (float_fields(value) for value in (self.a, self.c))
        is_add, is_max, is_min, is_gt, is_eq, is_first, is_second = (
            self.op == each for each in AddOp
        )
        below, zeros, equal, greater, nan = Signal(), Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            below.eq(self.a[:-1] < self.c[:-1]),
            zeros.eq(~(a.exponent.any() | c.exponent.any())),
            equal.eq(zeros | (self.a == self.c)),
            greater.eq(~equal & ((below & (a.negative == c.negative)) ^ ~a.negative)),
            nan.eq(not_a_number(self.a) | not_a_number(self.c)),
        ]
        second = Signal()
        large, small = Signal(BINARY32), Signal(BINARY32)
        m.d.comb += [
            second.eq(
                (is_add & below) | (is_max & ~greater) | (is_min & (greater | equal)) | is_second
            ),
            large.eq(Mux(second, self.c, self.a)),
            small.eq(Mux(below, self.a, self.c)),
        ]
        infinite = a.exponent.all() & c.exponent.all()
        compares, moves = is_gt | is_eq, is_first | is_second
        true, invalid, clear, alone = Signal(), Signal(), Signal(), Signal()
        distance = Signal(8)
        m.d.comb += [
            true.eq(((is_gt & greater) | (is_eq & equal)) & ~nan),
            invalid.eq(
                ~(compares | moves) & (nan | (is_add & infinite & (a.negative ^ c.negative)))
            ),
            clear.eq(compares | invalid | (~large.exponent.any() & ~moves)),
            alone.eq(~is_add | large.exponent.all() | invalid | ~small.exponent.any()),
            distance.eq(large.exponent - small.exponent),
        ]
        field = large.exponent & ~compares.replicate(8)
        both = Mux(is_add & zeros, a.negative & c.negative, large.negative)
        m.d.sync += [
            compared.large.fraction.eq(Mux(clear, Mux(invalid, QUIET, 0), large.fraction)),
            compared.large.exponent.eq(field | Mux(invalid, TOP, 0) | Mux(true, EXPONENT_BIAS, 0)),
            compared.large.negative.eq(both & ~compares & ~invalid),
            compared.small.eq(Mux(alone, 0, Cat(small.fraction, Const(1, 1)))),
            compared.near.eq(
                distance[:NEAR_BITS] | distance[NEAR_BITS:].any().replicate(NEAR_BITS)
            ),
            compared.subtract.eq(a.negative ^ c.negative),
        ]

    def _add(self, m, added, compared):
        """Stage 2: align the smaller number with the larger number, then add or subtract the
        smaller number."""
        aligned, guards = Cat(Const(0, GUARD_BITS), compared.small), Const(0, GUARD_BITS)
        for level in range(NEAR_BITS):
            shift = 1 << level
            moved = Signal(len(aligned), name=f"aligned_{shift}")
            shifted = Cat(aligned[: shift + 1].any(), aligned[shift + 1 :])
            m.d.comb += moved.eq(Mux(compared.near[level], shifted, aligned))
            aligned = moved
        first, addend = Signal(SUM_BITS), Signal(SUM_BITS)
        subtract = compared.subtract
        m.d.comb += [
            first.eq(Cat(guards, compared.large.fraction, Const(1, 1))),
            addend.eq(Cat(aligned, Const(0, 1)) ^ subtract.replicate(SUM_BITS)),
        ]
        m.d.sync += [
            added.sum.eq(quick_sum(m, first, addend, subtract)),
            added.exponent.eq(compared.large.exponent),
            added.negative.eq(compared.large.negative),
        ]

    def _round(self, m, added):
        """Stage 3: round the sum. If the leading 1 of the sum is more than 1 place right of the
        larger number's leading 1, the sum is exact and all bits are kept."""
        negative = added.negative
        rounded, exact = Signal(WORD), Signal(WORD)
        m.d.comb += rounded.eq(self._rounded(m, added.sum, added.exponent, negative))
        rest = added.sum[GUARD_BITS - 1 : -3]
        normal, count = normalised(m, rest, NEAR_BITS)
        exponent = Signal(9)
        m.d.comb += [
            exponent.eq(added.exponent - 2 - count),
            exact.eq(Cat(Const(0, 1), normal[:-1], exponent[:8], negative)),
        ]
        nothing = ~normal[-1] | exponent[-1] | ~exponent.any()
        result = data_output(m, self.result, "result_register")
        m.d.sync += result.eq(Mux(added.sum[-3:].any(), rounded, Mux(nothing, 0, exact)))

    @staticmethod
    def _rounded(m, total, field, negative):
        """Return fraction, exponent and sign of a sum of at least 1/2. The exponent is
        ``field`` - 1 to ``field`` + 1. A number that is passed on is a fraction after a leading 1,
        and stays unchanged."""
        carry, one = total[-1], total[-2]
        truncated, up = Signal(FRACTION_BITS), Signal()
        half, below = Signal(), Signal()  # bit below the last place; any lower bit
        m.d.comb += [
            truncated.eq(Mux(carry, total[4:-1], Mux(one, total[3:-2], total[2:-3]))),
            half.eq(Mux(carry, total[3], Mux(one, total[2], total[1]))),
            below.eq(total[0] | ((carry | one) & total[1]) | (carry & total[2])),
            up.eq(half & (truncated[0] | below)),
        ]
        carried = up & truncated.all()
        fraction, less, more = Signal(FRACTION_BITS), Signal(8), Signal(8)
        m.d.comb += [
            fraction.eq(truncated + up),
            less.eq(field - 1),
            more.eq(field + 1),
        ]
        exponent, clear = Signal(8), Signal()
        with m.If(carry):  # no carry from rounding: a sum of 2 numbers below 2 is not next to 4
            m.d.comb += [exponent.eq(more), clear.eq(field == TOP - 1)]
        with m.Elif(one):
            m.d.comb += exponent.eq(Mux(carried, more, field))
        with m.Else():
            m.d.comb += [exponent.eq(Mux(carried, field, less)), clear.eq(field == 1)]
        nothing = ~carry & ~one & (field == 1)
        return Cat(Mux(clear, 0, fraction), exponent, negative & ~nothing)
