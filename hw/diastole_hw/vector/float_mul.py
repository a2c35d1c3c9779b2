"""The product of two floats, rounded once."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.registers import data_output, data_register
from diastole_hw.vector.binary32 import FRACTION_BITS, QUIET, TOP, fields_of, quick_sum
from diastole_hw.vector.shape import WORD
from diastole_sim.spec.formats import BINARY32_SIGNIFICAND_BITS, EXPONENT_BIAS

WIDTH = 2 * BINARY32_SIGNIFICAND_BITS
LOW = 22
"""Places of a product that are added up a cycle before the others: there are few rows in them."""
EXPONENT_BITS = 10
"""Of a product: -127 to 383, signed."""


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
        a, b = (Cat(value[:FRACTION_BITS], Const(1, 1)) for value in (self.a, self.b))
        rows = booth_rows(m, a, b)
        while len(rows) > 2:
            rows = three_to_two(m, rows)
        low = Signal(LOW + 1)
        m.d.comb += low.eq(rows[0][:LOW] + rows[1][:LOW])
        m.d.sync += [
            reduced.sum.eq(rows[0][LOW:]),
            reduced.carries.eq(rows[1][LOW:]),
            reduced.low_carry.eq(low[-1]),
            reduced.low_any.eq(low[:-1].any()),
        ]

    def _exponent(self, m, reduced):
        """What is Inf or NaN has an exponent that is too large, whatever the other factor."""
        a, b = (fields_of(value) for value in (self.a, self.b))
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
        place = BINARY32_SIGNIFICAND_BITS - LOW - 2  # of the half, where the product is below 2
        below = high[:place].any() | reduced.low_any
        large = high[-1]
        half = Mux(large, high[place + 1], high[place])
        m.d.comb += [
            kept.eq(Mux(large, high[place + 2 : -1], high[place + 1 : -2])),
            up.eq(half & (kept[0] | below | (large & high[place]))),
        ]
        # What the exponent may become is there before it is known which.
        carried = up & kept.all()
        fields = []
        for more in range(3):
            exponent = Signal(signed(EXPONENT_BITS), name=f"exponent_{more}")
            field = Signal(10, name=f"field_{more}")
            nothing = Signal(name=f"nothing_{more}")
            infinite = Signal(name=f"infinite_{more}")
            m.d.comb += [
                exponent.eq(reduced.exponent + more),
                nothing.eq((exponent <= 0) | (reduced.zero & ~reduced.nan)),
                infinite.eq(exponent >= TOP),
                field.eq(
                    Cat(
                        Mux(nothing, 0, exponent[:8] | infinite.replicate(8)),
                        ~(nothing | infinite),
                        reduced.negative & (reduced.zero | ~nothing),
                    )
                ),
            ]
            fields.append(field)
        chosen = Signal(10)
        m.d.comb += chosen.eq(
            Mux(large, Mux(carried, fields[2], fields[1]), Mux(carried, fields[1], fields[0]))
        )
        fraction = Signal(FRACTION_BITS)
        m.d.comb += fraction.eq(kept + up)
        result = data_output(m, self.result, "result_register")
        m.d.sync += result.eq(
            Cat(Mux(chosen[8], fraction, Mux(reduced.nan, QUIET, 0)), chosen[:8], chosen[9])
        )


def booth_rows(m: Module, a, b) -> list:
    """Rows whose sum, modulo 2^WIDTH, is ``a`` * ``b``: a times each digit of b, -2 to 2.

    The ones' complement of a negative row lacks a unit, which stands in the row after it; what its
    sign extends to is a constant, and one bit of each row.
    """
    padded = Cat(Const(0, 1), b, Const(0, 2))
    digits = len(b) // 2 + 1
    rows, last = [], None
    for number in range(digits):
        low, middle, negative = padded[2 * number : 2 * number + 3]
        once, twice = (Signal(name=f"{name}_{number}") for name in ("once", "twice"))
        m.d.comb += [
            once.eq(low ^ middle),
            twice.eq(Mux(negative, ~(low | middle), low & middle)),
        ]
        highest = number == digits - 1  # 0 or 1
        times = Signal(len(a) + (not highest), name=f"times_{number}")
        chosen = Mux(once, a, 0) | Mux(twice, a << 1, 0)
        m.d.comb += times.eq(chosen ^ negative.replicate(len(times)))
        sign = Cat(~negative, Const(1, 1))
        if number == 0:
            sign = Cat(negative, negative, ~negative)
        below = Const(0, 0) if last is None else Cat(Const(0, 2 * number - 2), last, Const(0, 1))
        row = Signal(WIDTH, name=f"row_{number}")
        m.d.comb += row.eq(Cat(below, times, Const(0, 0) if highest else sign))
        rows.append(row)
        last = negative
    return rows


def three_to_two(m: Module, rows: list) -> list:
    """Fewer rows of the same sum: every three become two."""
    found, left = [], len(rows) % 3
    whole = rows[: len(rows) - left]
    for number, (x, y, z) in enumerate(zip(whole[::3], whole[1::3], whole[2::3], strict=True)):
        name = f"{len(rows)}_{number}"
        total, carries = (Signal(WIDTH, name=f"{kind}_{name}") for kind in ("total", "carries"))
        m.d.comb += [
            total.eq(x ^ y ^ z),
            carries.eq((((x ^ y) & z) | (~(x ^ y) & x)) << 1),
        ]
        found += [total, carries]
    return found + rows[len(rows) - left :]
