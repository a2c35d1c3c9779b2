"""Convert an accumulator to a binary32, with one rounding."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from diastole_hw.binary32 import EXPONENT_BITS, FRACTION_BITS, NAN, TOP
from diastole_hw.data_registers import data_output, data_register
from diastole_sim.spec.formats import BINARY32_SIGNIFICAND_BITS, EXPONENT_BIAS
from diastole_sim.spec.require import require_int

TOP_BITS = EXPONENT_BITS + 2


def _before_first(flags: list[Value]) -> Value:
    """Return the number of ``flags`` before the first flag that is 1, or of all flags if none is
    1."""
    size = 1 << len(flags).bit_length()
    count, none = [], [~flag for flag in flags] + [Const(0, 1)] * (size - len(flags))
    # ``none``: no flag of a part is 1; ``count``: list of bits, with an entry for every part.
    while len(none) > 1:
        firsts, seconds = none[::2], none[1::2]
        count = [
            [
                Mux(first, after, before)
                for first, before, after in zip(firsts, bit[::2], bit[1::2], strict=True)
            ]
            for bit in count
        ]
        count.append(firsts)
        none = [first & second for first, second in zip(firsts, seconds, strict=True)]
    return Value.cast(Cat(bit for (bit,) in count))


def _width(sum_bits: int) -> int:
    """Return the bits of a magnitude, including the bit that decides a tie."""
    return max(sum_bits - 1, BINARY32_SIGNIFICAND_BITS + 1)


def top_exponent(sum_bits: int, scale: Value) -> Value:
    """Return the input ``top`` of :class:`ToFloat` for a signed ``scale``: the biased exponent of
    the highest bit of a magnitude. Exponents for which every value is 0, or every value is too
    large, are clamped to the nearest exponent of that kind."""
    width = _width(sum_bits)
    exact = scale + (EXPONENT_BIAS + width - 1)
    most = TOP + width
    return Mux(exact < 0, -1, Mux(exact > most, most, exact)).as_signed()[:TOP_BITS].as_signed()


class ToFloat(wiring.Component):
    """Convert ``sum`` * 2^scale to a binary32 ``result``, rounded to nearest, ties to even.

    A value of 2^128 or more after rounding to 24 bits becomes Inf with its sign, and ``overflow``
    is set. A value below 2^-126 after rounding becomes +0, and so does a sum of 0. A value with
    ``poison`` becomes NaN, without ``overflow``.

    The bits of a negative sum are inverted, and ones are shifted in behind them. The result lacks a
    1 in the lowest place of the magnitude; the rounding adds this 1.

    Timing: ``latency`` cycles, 1 value per cycle; ``top`` is read ``top_after`` cycles after its
    sum. There is no valid bit: the user must delay a valid bit alongside.

    Parameters
    ----------
    sum_bits : int
        W, 2 to 63.
    poisonable : bool
        Whether there is a member ``poison``; without it there is no NaN.

    Members
    -------
    sum : In(signed(sum_bits))
    top : In(signed(TOP_BITS))
        Result of :func:`top_exponent`. For a sum in the accumulator the scale is bound - F - (w -
        2), unbiased.
    poison : In(1)
    result : Out(unsigned(32))
    overflow : Out(1)

    ValueError if out of range. Source: the design's rules for results.
    """

    latency = 4
    top_after = 2

    def __init__(self, *, sum_bits: int, poisonable: bool = False):
        require_int("sum_bits", sum_bits, 2, 63)
        self.sum_bits, self.poisonable = sum_bits, poisonable
        members = {
            "sum": In(signed(sum_bits)),
            "top": In(signed(TOP_BITS)),
            "result": Out(unsigned(32)),
            "overflow": Out(1),
        }
        super().__init__(members | ({"poison": In(1)} if poisonable else {}))

    def elaborate(self, platform):
        m = Module()
        significand = BINARY32_SIGNIFICAND_BITS + 1  # with the bit that decides a tie
        width = _width(self.sum_bits)
        levels = bits_for(width)
        low = levels // 2
        total = data_register(signed(self.sum_bits))
        # ``bits``: after a cut, the lowest bit tells whether any bit below differed from the sign.
        # Before the last shifts, ``bits`` also contains the bits that the shifts can bring up.
        coarse = data_register(
            self._layout(min(width, significand + (1 << low)), groups=levels - low)
        )
        # ``exponent``: biased, of a result whose leading bit is the top bit; modulo 2^9.
        fine = data_register(self._layout(min(width, significand + 1), exponent=EXPONENT_BITS + 1))
        negative = total[-1]
        inverted = Signal(width)
        m.d.comb += inverted.eq((total ^ negative.replicate(len(total)))[:-1])
        groups = self._normalise(m, coarse.bits, inverted, negative, range(low, levels))
        ones = self._normalise(m, fine.bits, coarse.bits, coarse.negative, range(low))
        m.d.sync += [
            total.eq(self.sum),
            coarse.negative.eq(negative),
            coarse.groups.eq(groups),
            fine.negative.eq(coarse.negative),
            fine.exponent.eq(self.top - Cat(ones, coarse.groups)),
        ]
        if self.poisonable:
            poison = data_register()
            m.d.sync += [
                poison.eq(self.poison),
                coarse.poison.eq(poison),
                fine.poison.eq(coarse.poison),
            ]
        self._round(m, fine)
        return m

    def _layout(self, bits: int, **more) -> data.StructLayout:
        members = {"negative": 1, "bits": bits} | more
        return data.StructLayout(members | ({"poison": 1} if self.poisonable else {}))

    @staticmethod
    def _normalise(m, after, bits, negative, levels):
        """Shift left past the leading groups of 2^(lowest level) bits that are zero, as far as
        ``levels`` reach. Return the number of skipped groups."""
        size, group = len(bits), 1 << levels[0]
        most = min((1 << len(levels)) - 1, size // group)
        tops = range(size, size - most * group, -group)
        count = Signal(len(levels), name=f"leading_{group}")
        m.d.comb += count.eq(_before_first([bits[top - group : top].any() for top in tops]))
        for level in reversed(levels):
            shifted = Signal(size, name=f"shifted_{1 << level}")
            moved = Cat(negative.replicate(1 << level), bits)[:size]
            m.d.comb += shifted.eq(Mux(count[level - levels[0]], moved, bits))
            bits = shifted
        cut = size - len(after)
        if cut:
            unlike = (bits[: cut + 1] ^ negative.replicate(cut + 1)).any()
            bits = Cat(unlike ^ negative, bits[cut + 1 :])
        m.d.sync += after.eq(bits)
        return count

    def _round(self, m, normal):
        """Round the normalised bits. The leading bit is hidden; a carry out of the fraction adds 1
        to the exponent. The magnitude of a negative sum is its bits and 1 in the lowest place: so a
        set half bit rounds up, and ties occur where all bits below a clear half bit are ones."""
        dropped = len(normal.bits) - BINARY32_SIGNIFICAND_BITS
        odd, half, rest = normal.bits[dropped], normal.bits[dropped - 1], normal.bits[: dropped - 1]
        unlike = (rest ^ normal.negative.replicate(len(rest))).any()
        round_up = Signal()
        rounded = Signal(FRACTION_BITS + len(normal.exponent))
        exponent = Signal(len(normal.exponent))
        flushed = Signal()
        fraction = normal.bits[dropped:-1]
        m.d.comb += [
            round_up.eq(Mux(normal.negative, half | (odd & ~unlike), half & (odd | unlike))),
            rounded.eq(Cat(fraction, normal.exponent) + round_up),
            exponent.eq(rounded[FRACTION_BITS:]),
        ]
        # Exponents from 3 * 2^7 on are negative: between the smallest and the largest there are
        # fewer than 2^9.
        m.d.comb += flushed.eq((exponent == 0) | exponent[-2:].all())
        nothing = flushed | ~normal.bits[-1]
        infinite = ~nothing & (exponent[-1] | exponent[:EXPONENT_BITS].all())
        result, overflow = (
            data_output(m, port, f"{name}_register")
            for name, port in (("result", self.result), ("overflow", self.overflow))
        )
        m.d.sync += overflow.eq(infinite)
        with m.If(nothing):
            m.d.sync += result.eq(0)
        with m.Elif(infinite):
            inf = Cat(Const(0, FRACTION_BITS), Const(TOP, EXPONENT_BITS), normal.negative)
            m.d.sync += result.eq(inf)
        with m.Else():
            finite = Cat(rounded[: FRACTION_BITS + EXPONENT_BITS], normal.negative)
            m.d.sync += result.eq(finite)
        if self.poisonable:
            with m.If(normal.poison):
                m.d.sync += [result.eq(NAN), overflow.eq(0)]
