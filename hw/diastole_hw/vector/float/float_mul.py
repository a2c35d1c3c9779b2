"""Multiply two floats with a single rounding."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.binary32 import FRACTION_BITS, QUIET, TOP, float_fields
from diastole_hw.carry_save import quick_sum
from diastole_hw.data_registers import data_output, data_register
from diastole_hw.vector.float.booth_rows import RowProduct
from diastole_hw.vector.stream_layouts import WORD
from diastole_sim.spec.formats import BINARY32_SIGNIFICAND_BITS, EXPONENT_BIAS

WIDTH = 2 * BINARY32_SIGNIFICAND_BITS
LOW = BINARY32_SIGNIFICAND_BITS - 2
"""Low places of a product, added 1 cycle before the remaining places. A result never keeps low
places."""
EXPONENT_BITS = 10
"""Bits of the exponent of a product: -127 to 385, signed."""
ENDING = data.StructLayout(
    {"exponent": unsigned(8), "finite": unsigned(1), "negative": unsigned(1)}
)
"""Layout of a result without the fraction. If the result is not ``finite``, the fraction is not the
fraction of the product."""


class FloatMul(wiring.Component):
    """Compute ``result`` = ``a`` * ``b``, rounded to nearest, ties to even.

    Subnormal operands are zeros with the operand's sign. A product is rounded to 24 bits with an
    unbounded exponent. A rounded product below 2^-126 becomes +0, and from 2^128 on Inf. The sign
    of a product with a zero factor is the XOR of the factors' signs. The result is the NaN 7fc00000
    if an operand is NaN, and for 0 * Inf.

    Timing: 2 cycles, 1 product per cycle. There is no valid bit: the user delays a valid bit
    alongside.

    Members
    -------
    a, b, result : In(32), In(32), Out(32)
    """

    a: In(WORD)
    b: In(WORD)
    result: Out(WORD)

    latency = 2

    def elaborate(self, platform):
        m = Module()
        reduced = data_register(
            data.StructLayout(
                {
                    "sum": unsigned(WIDTH - LOW),
                    "carries": unsigned(WIDTH - LOW),
                    "low_carry": unsigned(1),
                    "low_any": unsigned(1),
                    "exponent": signed(EXPONENT_BITS),
                    "negative": unsigned(1),
                    "zero": unsigned(1),
                    "nan": unsigned(1),
                }
            )
        )
        self._multiply(m, reduced)
        self._exponent(m, reduced)
        self._round(m, reduced)
        return m

    def _multiply(self, m, reduced):
        """Stage 1: multiply the significands by Booth digits, down to 2 rows and the sum of the
        lowest bits."""
        bits = BINARY32_SIGNIFICAND_BITS
        product = RowProduct(a_bits=bits, b_bits=bits, signed=False, width=WIDTH)
        m.submodules.product = product
        m.d.comb += [
            product.a.eq(Cat(self.a[:FRACTION_BITS], Const(1, 1))),
            product.b.eq(Cat(self.b[:FRACTION_BITS], Const(1, 1))),
        ]
        low = Signal(LOW + 1)
        m.d.comb += low.eq(product.total[:LOW] + product.carries[:LOW])
        m.d.sync += [
            reduced.sum.eq(product.total[LOW:]),
            reduced.carries.eq(product.carries[LOW:]),
            reduced.low_carry.eq(low[-1]),
            reduced.low_any.eq(low[:-1].any()),
        ]

    def _exponent(self, m, reduced):
        """Stage 1: add the exponents. An Inf or NaN makes the exponent too large, whatever the
        second factor."""
        a, b = (float_fields(value) for value in (self.a, self.b))
        total = Signal(signed(EXPONENT_BITS))
        top, zero, nan = Signal(), Signal(), Signal()
        m.d.comb += [
            total.eq(a.exponent + b.exponent - EXPONENT_BIAS),
            top.eq(a.exponent.all() | b.exponent.all()),
            zero.eq(~a.exponent.any() | ~b.exponent.any()),
            nan.eq(
                (a.exponent.all() & a.fraction.any())
                | (b.exponent.all() & b.fraction.any())
                | (top & zero)
            ),
        ]
        m.d.sync += [
            # An exponent of 255 makes the sum 128 to 383, which becomes 256 to 383.
            reduced.exponent.eq(Cat(total[:7], total[7] & ~top, total[8] | top, total[9])),
            reduced.negative.eq((a.negative ^ b.negative) & ~nan),
            reduced.zero.eq(zero),
            reduced.nan.eq(nan),
        ]

    def _round(self, m, reduced):
        """Stage 2: round the product, which is at least 1 and below 4. A carry out of the fraction
        adds 1 to the exponent."""
        high = Signal(WIDTH - LOW)
        truncated, up = Signal(FRACTION_BITS), Signal()
        m.d.comb += high.eq(quick_sum(m, reduced.sum, reduced.carries, reduced.low_carry))
        large = high[-1]
        half = Mux(large, high[1], high[0])
        m.d.comb += [
            truncated.eq(Mux(large, high[2:-1], high[1:-2])),
            up.eq(half & (truncated[0] | reduced.low_any | (large & high[0]))),
        ]
        # The 3 possible exponents are computed before rounding selects the result's exponent.
        carried = up & truncated.all()
        less, more, most = (self._ending(m, reduced, added) for added in range(3))
        ending = Signal(ENDING)
        fraction = Signal(FRACTION_BITS)
        m.d.comb += [
            ending.eq(Mux(large, Mux(carried, most, more), Mux(carried, more, less))),
            fraction.eq(truncated + up),
        ]
        result = data_output(m, self.result, "result_register")
        rest = Mux(ending.finite, fraction, Mux(reduced.nan, QUIET, 0))
        m.d.sync += result.eq(Cat(rest, ending.exponent, ending.negative))

    @staticmethod
    def _ending(m, reduced, added):
        """Return exponent and sign of the result if the exponent grows by ``added``."""
        exponent = Signal(signed(EXPONENT_BITS), name=f"exponent_{added}")
        nothing, infinite = (Signal(name=f"{kind}_{added}") for kind in ("nothing", "infinite"))
        ending = Signal(ENDING, name=f"ending_{added}")
        m.d.comb += [
            exponent.eq(reduced.exponent + added),
            nothing.eq((exponent <= 0) | (reduced.zero & ~reduced.nan)),
            infinite.eq(exponent >= TOP),
            ending.exponent.eq(Mux(nothing, 0, exponent[:8] | infinite.replicate(8))),
            ending.finite.eq(~(nothing | infinite)),
            ending.negative.eq(reduced.negative & (reduced.zero | ~nothing)),
        ]
        return ending
