"""Prepare the operand of a special function for the table."""

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
from diastole_sim.spec.micro import OP_BITS, MicroOp

VALUE_WIDTH = 35
EXPONENT_BITS = 10
"""Bits of a result's exponent, with the bias: from -58 to 311, signed."""
SHIFT_BITS = 6
PRODUCT_BITS = BINARY32_SIGNIFICAND_BITS + LOG2E.bit_length()
EXP_FRACTION_BITS = 27
"""Fraction bits of x log2 e: number of a row of ``exp``, and argument."""
DROPPED_BITS = FRACTION_BITS + LOG2E_BITS - EXP_FRACTION_BITS - (EXP_OVERFLOW - 1)
"""Bits of the product with log2 e that are dropped for every exponent."""
LINEAR_BITS = FRACTION_BITS
"""Bits of a magnitude that is only normalised."""
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
"""Layout of a prepared operand.

The sum ``value`` + ``carries`` + ``carry`` modulo 2^35 is shifted right by ``shift``, and replaced
by the ones' complement if ``complement``. With a ``table``, the sum is the place in the table: an
argument of 21 bits below the number of a row. For ``exp`` the exponent is above 27 bits. Without a
table, ``value`` is a magnitude of 23 bits.

``base``: exponent of the result with the bias; for ``exp``, exponent of the result if the exponent
in the sum is 0; without a table, 1 more than the exponent of the magnitude's highest bit.
``halved``: the significand from the table is below 1, and is doubled. ``signed_zero``: a result of
0 has the sign. ``nan``: the result is NaN.
"""

DIRECT_RESULT = data.StructLayout({"any": 1, "nan": 1, "negative": 1, "exponent": 8})
"""Layout of a result without a table: the fraction is 0, or the fraction of NaN. Valid only with
``any``."""


class SpecialArgument(wiring.Component):
    """Split the operand of a special function. Results that need no table are output as magnitudes.

    Timing: 1 cycle, 1 value per cycle.

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
        direct = self._direct_result(m, a, ops)
        exponent, magnitude = self._linear(m, a, ops)
        computed, place = Signal(signed(EXPONENT_BITS)), Signal(VALUE_WIDTH)
        distance, table = Signal(8), Signal(3)
        upper = a.fraction[-1]  # x = (1 + d) 2^E; set if d is below 0
        plain = direct.any | ops.lge | ops.lgm
        scaled = ops.exp & ~direct.any
        m.d.comb += [
            computed.eq(self._base(a, ops)),
            place.eq(self._place(a, ops)),
            distance.eq(EXPONENT_BIAS + EXP_OVERFLOW - 1 - a.exponent),
        ]
        for rows in TABLES:
            with m.If(getattr(ops, rows.name.lower()) & ~plain):
                m.d.comb += table.eq(rows)
        others = Mux(direct.any, 1 << (LINEAR_BITS - 1), Mux(plain, magnitude, place))
        far = distance[SHIFT_BITS:].any().replicate(SHIFT_BITS)
        negative = Mux(ops.rcp, a.negative, Mux(ops.lge, exponent[-1], ops.lgm & upper))
        total, carries, carry = self._product(m, a)
        m.d.sync += [
            argument.value.eq(Mux(scaled, total, others)),
            argument.carries.eq(Mux(scaled, carries, 0)),
            argument.carry.eq(scaled & carry),
            argument.shift.eq(Mux(scaled, distance[:SHIFT_BITS] | far, 0)),
            # The complement is minus the product, rounded down, as dropped bits are not 0. For -64
            # the dropped bits are 0, and the complement is a unit too small: equal result.
            argument.complement.eq(scaled & a.negative),
            argument.table.eq(table),
            argument.base.eq(Mux(direct.any, direct.exponent + 1, computed)),
            argument.halved.eq(ops.lgg & ~direct.any & ~upper),
            argument.negative.eq(Mux(direct.any, direct.negative, negative)),
            argument.signed_zero.eq(ops.rcp & a.exponent.all()),
            argument.nan.eq(direct.nan),
        ]
        return m

    @staticmethod
    def _direct_result(m, a, ops):
        """Return the results of zeros, Inf, NaN, negative operands, and operands too large for
        ``exp``."""
        direct = Signal(DIRECT_RESULT)
        zero, top, large = Signal(), Signal(), Signal()
        logarithm = ops.lge | ops.lgm | ops.lgg
        m.d.comb += [
            zero.eq(~a.exponent.any()),
            top.eq(a.exponent.all()),
            large.eq(ops.exp & (a.exponent >= EXPONENT_BIAS + EXP_OVERFLOW)),
            direct.any.eq(zero | top | direct.nan | large),
            direct.nan.eq((top & a.fraction.any()) | (a.negative & ~zero & (ops.rsq | logarithm))),
            direct.negative.eq(~direct.nan & Mux(ops.rcp, a.negative, ops.lge & zero)),
        ]
        infinite = (large & ~a.negative) | (zero & (ops.rcp | ops.rsq)) | ops.lge
        one = ops.lgg | (ops.exp & zero)
        m.d.comb += direct.exponent.eq(Mux(direct.nan | infinite, TOP, Mux(one, EXPONENT_BIAS, 0)))
        return direct

    @staticmethod
    def _linear(m, a, ops):
        """Return E, and the magnitude of E (``lge``) or d in 23 bits."""
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
        """Return ``base`` of an operand. The exponent is -e - 1 for ``rcp``, -h - 1 with e = 2
        h + o for ``rsq``, and 0, or -1 from d = 0 on, for ``lgg``. The highest bit of a magnitude
        is 2^7 for ``lge``, and 2^-2 for ``lgm``."""
        start = 2 * EXPONENT_BIAS - 1
        first = Mux(ops.rcp, start, Mux(ops.rsq, start - EXPONENT_BIAS // 2, EXPONENT_BIAS))
        first = Mux(ops.lge, EXPONENT_BIAS + 8, Mux(ops.lgm, EXPONENT_BIAS - 1, first))
        half = a.exponent[1:] + a.exponent[0]
        less = Mux(ops.rcp, a.exponent, Mux(ops.rsq, half, ops.lgg & ~a.fraction[-1]))
        return first - less

    @staticmethod
    def _place(a, ops):
        """Return the place in the table. ``rcp``: the fraction. ``rsq``: the fraction below a bit
        for odd e. ``lgg``: d + 1/4 in units of 2^-24."""
        low, high = a.fraction[:-1], a.fraction[-1]
        small = Cat(Const(0, 1), low[:-1], ~low[-1], low[-1])
        d = Mux(high, low, small)
        shifted = Cat(Const(0, ARGUMENT_BITS - RCP.argument_bits), a.fraction)
        odd = ops.rsq & ~a.exponent[0]
        return Mux(ops.lgg, Cat(Const(0, ARGUMENT_BITS - LGG.argument_bits), d), Cat(shifted, odd))

    @staticmethod
    def _product(m, a):
        """Return the product of the significand and log2 e as 2 rows and a carry, in units of 2^-27
        at e = 6."""
        significand = Cat(a.fraction, Const(1, 1))
        rows = constant_rows(m, significand, LOG2E, PRODUCT_BITS)
        total, carries = two_rows(m, rows, PRODUCT_BITS, "product")
        low = Signal(DROPPED_BITS + 1)
        m.d.comb += low.eq(total[:DROPPED_BITS] + carries[:DROPPED_BITS])
        return total[DROPPED_BITS:], carries[DROPPED_BITS:], low[-1]
