"""The product of two floats, rounded once."""

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
"""Places of a product that are added up a cycle before the others: they are never kept."""
EXPONENT_BITS = 10
"""Of a product: -127 to 385, signed."""
ENDING = data.StructLayout(
    {"exponent": unsigned(8), "finite": unsigned(1), "negative": unsigned(1)}
)
"""Of a result, all but the fraction; that of what is not ``finite`` is not the product's."""


class FloatMul(wiring.Component):
    """``result`` = ``a`` * ``b``, to nearest, ties to even.

    Subnormal operands are zeros of their sign. A product is rounded to 24 bits as if exponents had
    no bound; below 2^-126 it is then +0, from 2^128 on Inf. A product of zeros has the sign of its
    factors. NaN is 7fc00000: of NaN, and of 0 * Inf.

    Timing: two cycles, one product per cycle. There is no valid bit: the user delays one alongside.

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
        """Both significands, of Booth's digits, down to two rows and the sum of the lowest bits."""
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
        """What is Inf or NaN has an exponent that is too large, whatever the other factor."""
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
            # One of 255 makes the sum 128 to 383, which becomes 256 to 383.
            reduced.exponent.eq(Cat(total[:7], total[7] & ~top, total[8] | top, total[9])),
            reduced.negative.eq((a.negative ^ b.negative) & ~nan),
            reduced.zero.eq(zero),
            reduced.nan.eq(nan),
        ]

    def _round(self, m, reduced):
        """The product is 1 to just below 4; a carry out of the fraction adds 1 to the exponent."""
        high = Signal(WIDTH - LOW)
        kept, up = Signal(FRACTION_BITS), Signal()
        m.d.comb += high.eq(quick_sum(m, reduced.sum, reduced.carries, reduced.low_carry))
        large = high[-1]
        half = Mux(large, high[1], high[0])
        m.d.comb += [
            kept.eq(Mux(large, high[2:-1], high[1:-2])),
            up.eq(half & (kept[0] | reduced.low_any | (large & high[0]))),
        ]
        # What the exponent may become is there before it is known which.
        carried = up & kept.all()
        less, more, most = (self._ending(m, reduced, added) for added in range(3))
        ending = Signal(ENDING)
        fraction = Signal(FRACTION_BITS)
        m.d.comb += [
            ending.eq(Mux(large, Mux(carried, most, more), Mux(carried, more, less))),
            fraction.eq(kept + up),
        ]
        result = data_output(m, self.result, "result_register")
        rest = Mux(ending.finite, fraction, Mux(reduced.nan, QUIET, 0))
        m.d.sync += result.eq(Cat(rest, ending.exponent, ending.negative))

    @staticmethod
    def _ending(m, reduced, added):
        """Exponent and sign of the result, if its exponent is so much more than was expected."""
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
