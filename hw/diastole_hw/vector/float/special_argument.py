"""What a special function does with its operand before its table is asked."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.binary32 import FRACTION_BITS, TOP, float_fields
from diastole_hw.data_registers import data_output
from diastole_hw.vector.float.booth_rows import constant_rows, two_rows
from diastole_hw.vector.float.function_rows import TABLES
from diastole_hw.vector.float.parabola import ARGUMENT_BITS
from diastole_hw.vector.stream_layouts import WORD
from diastole_sim.spec.formats import BINARY32_SIGNIFICAND_BITS, EXPONENT_BIAS
from diastole_sim.spec.functions import EXP_OVERFLOW, LGG, LOG2E, LOG2E_BITS, RCP
from diastole_sim.spec.micro import MicroOp

OP_BITS = 5
VALUE_WIDTH = 35
EXPONENT_BITS = 10
"""Of a result, with its bias: from -58 to 311, signed."""
SHIFT_BITS = 6
PRODUCT_BITS = BINARY32_SIGNIFICAND_BITS + LOG2E.bit_length()
EXP_FRACTION_BITS = 27
"""Of x log2 e: the number of a row of ``exp``, and its argument."""
DROPPED_BITS = FRACTION_BITS + LOG2E_BITS - EXP_FRACTION_BITS - (EXP_OVERFLOW - 1)
"""Of the product with log2 e, whatever the exponent."""
LINEAR_BITS = FRACTION_BITS
"""Of a magnitude that is only normalised."""
ARGUMENT = data.StructLayout(
    {
        "value": unsigned(VALUE_WIDTH),
        "carries": unsigned(VALUE_WIDTH),
        "carry": unsigned(1),
        "shift": unsigned(SHIFT_BITS),
        "complement": unsigned(1),
        "table": unsigned(3),
        "base": signed(EXPONENT_BITS),
        "halved": unsigned(1),
        "negative": unsigned(1),
        "signed_zero": unsigned(1),
        "nan": unsigned(1),
    }
)
"""``value`` + ``carries`` + ``carry`` modulo 2^35, shifted right by ``shift``, its ones' complement
if ``complement``: for a ``table`` the place in it, its argument of 21 bits below the number of a
row; for ``exp`` the exponent above 27 bits. Without a table ``value`` is a magnitude of 23 bits.

``base``: the exponent of the result with its bias, of ``exp`` for an exponent of 0; without a table
one more than that of the magnitude's highest bit. ``halved``: the significand is from the table
below 1, and twice as large. ``signed_zero``: a result of 0 has its sign. ``nan``: it is none."""

KNOWN = data.StructLayout({"any": 1, "nan": 1, "negative": 1, "exponent": 8})
"""A result whose fraction is 0, or that of NaN; only where there is ``any``."""


class SpecialArgument(wiring.Component):
    """The operand of a special function, taken apart; results that need no table are magnitudes.

    Timing: one cycle, one value per cycle.

    Members
    -------
    op : In(5)
        A MicroOp, ``exp`` to ``lgg``.
    a : In(32)
    argument : Out(ARGUMENT)
    """

    op: In(OP_BITS)
    a: In(WORD)
    argument: Out(ARGUMENT)

    latency = 1

    def elaborate(self, platform):
        m = Module()
        a = float_fields(self.a)
        argument = data_output(m, self.argument, "argument_register")
        ops = SimpleNamespace(
            **{op.name.lower(): self.op == op for op in MicroOp if op >= MicroOp.EXP}
        )
        known = self._known(m, a, ops)
        exponent, magnitude = self._linear(m, a, ops)
        computed, place = Signal(signed(EXPONENT_BITS)), Signal(VALUE_WIDTH)
        distance, table = Signal(8), Signal(3)
        upper = a.fraction[-1]  # x = (1 + d) 2^E with d below 0
        plain = known.any | ops.lge | ops.lgm
        scaled = ops.exp & ~known.any
        m.d.comb += [
            computed.eq(self._base(a, ops)),
            place.eq(self._place(a, ops)),
            distance.eq(EXPONENT_BIAS + EXP_OVERFLOW - 1 - a.exponent),
        ]
        for rows in TABLES:
            with m.If(getattr(ops, rows.name.lower()) & ~plain):
                m.d.comb += table.eq(rows)
        others = Mux(known.any, 1 << (LINEAR_BITS - 1), Mux(plain, magnitude, place))
        far = distance[SHIFT_BITS:].any().replicate(SHIFT_BITS)
        negative = Mux(ops.rcp, a.negative, Mux(ops.lge, exponent[-1], ops.lgm & upper))
        total, carries, carry = self._product(m, a)
        m.d.sync += [
            argument.value.eq(Mux(scaled, total, others)),
            argument.carries.eq(Mux(scaled, carries, 0)),
            argument.carry.eq(scaled & carry),
            argument.shift.eq(Mux(scaled, distance[:SHIFT_BITS] | far, 0)),
            # Which is minus the product, rounded down, as there are bits below it. Of -64 there are
            # none, and it is a unit too small: the result is the same.
            argument.complement.eq(scaled & a.negative),
            argument.table.eq(table),
            argument.base.eq(Mux(known.any, known.exponent + 1, computed)),
            argument.halved.eq(ops.lgg & ~known.any & ~upper),
            argument.negative.eq(Mux(known.any, known.negative, negative)),
            argument.signed_zero.eq(ops.rcp & a.exponent.all()),
            argument.nan.eq(known.nan),
        ]
        return m

    @staticmethod
    def _known(m, a, ops):
        """Results of zeros, Inf, NaN, of what is negative, and of what is too large for ``exp``."""
        known = Signal(KNOWN)
        zero, top, large = Signal(), Signal(), Signal()
        logarithm = ops.lge | ops.lgm | ops.lgg
        m.d.comb += [
            zero.eq(~a.exponent.any()),
            top.eq(a.exponent.all()),
            large.eq(ops.exp & (a.exponent >= EXPONENT_BIAS + EXP_OVERFLOW)),
            known.any.eq(zero | top | known.nan | large),
            known.nan.eq((top & a.fraction.any()) | (a.negative & ~zero & (ops.rsq | logarithm))),
            known.negative.eq(~known.nan & Mux(ops.rcp, a.negative, ops.lge & zero)),
        ]
        infinite = (large & ~a.negative) | (zero & (ops.rcp | ops.rsq)) | ops.lge
        one = ops.lgg | (ops.exp & zero)
        m.d.comb += known.exponent.eq(Mux(known.nan | infinite, TOP, Mux(one, EXPONENT_BIAS, 0)))
        return known

    @staticmethod
    def _linear(m, a, ops):
        """E; and the magnitude of E, or of d, in 23 bits."""
        upper = a.fraction[-1]
        exponent, size, d = Signal(signed(9)), Signal(8), Signal(LINEAR_BITS)
        m.d.comb += [
            exponent.eq(a.exponent + upper - EXPONENT_BIAS),
            size.eq(Mux(exponent[-1], -exponent, exponent)),
            d.eq(Mux(upper, -a.fraction, a.fraction << 1)),
        ]
        return exponent, Mux(ops.lge, size << (LINEAR_BITS - 8), d)

    @staticmethod
    def _base(a, ops):
        """``rcp``: -e - 1. ``rsq``: -h - 1, e = 2 h + o. ``lgg``: 0, or -1 for d from 0 on. Of the
        magnitudes the highest bit is 2^7, or 2^-2."""
        start = 2 * EXPONENT_BIAS - 1
        first = Mux(ops.rcp, start, Mux(ops.rsq, start - EXPONENT_BIAS // 2, EXPONENT_BIAS))
        first = Mux(ops.lge, EXPONENT_BIAS + 8, Mux(ops.lgm, EXPONENT_BIAS - 1, first))
        half = a.exponent[1:] + a.exponent[0]
        less = Mux(ops.rcp, a.exponent, Mux(ops.rsq, half, ops.lgg & ~a.fraction[-1]))
        return first - less

    @staticmethod
    def _place(a, ops):
        """In the table: the fraction; behind whether e is odd; d + 1/4, 2^-24 the unit."""
        low, high = a.fraction[:-1], a.fraction[-1]
        small = Cat(Const(0, 1), low[:-1], ~low[-1], low[-1])
        d = Mux(high, low, small)
        shifted = Cat(Const(0, ARGUMENT_BITS - RCP.argument_bits), a.fraction)
        odd = ops.rsq & ~a.exponent[0]
        return Mux(ops.lgg, Cat(Const(0, ARGUMENT_BITS - LGG.argument_bits), d), Cat(shifted, odd))

    @staticmethod
    def _product(m, a):
        """Two rows and a carry, of the significand and log2 e, in units of 2^-27 at e = 6."""
        significand = Cat(a.fraction, Const(1, 1))
        rows = constant_rows(m, significand, LOG2E, PRODUCT_BITS)
        total, carries = two_rows(m, rows, PRODUCT_BITS, "product")
        low = Signal(DROPPED_BITS + 1)
        m.d.comb += low.eq(total[:DROPPED_BITS] + carries[:DROPPED_BITS])
        return total[DROPPED_BITS:], carries[DROPPED_BITS:], low[-1]
