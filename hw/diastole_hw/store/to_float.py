"""An accumulator becomes a binary32, with one rounding."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from diastole_hw.registers import data_output, data_register
from diastole_sim.spec.check import require_int
from diastole_sim.spec.formats import BINARY32_SIGNIFICAND_BITS, EXPONENT_BIAS

EXPONENT_BITS = 8
INFINITE = 2**EXPONENT_BITS - 1
NAN = 0x7FC0_0000


class ToFloat(wiring.Component):
    """``result`` = binary32 of ``sum`` * 2^``scale``, to nearest, ties to even.

    A value that is 2^128 or more after rounding to 24 bits becomes Inf with its sign, and
    ``overflow`` is set; one that is below 2^-126 after it becomes +0, and so does a sum of 0.
    What comes with ``poison`` becomes NaN, without ``overflow``.

    Timing: ``latency`` cycles, one value per cycle. There is no valid bit: the user delays one
    alongside.

    Parameters
    ----------
    sum_bits : int
        W, 2 to 63.
    scale_bits : int
        8 to 16.
    poisonable : bool
        Whether there is a member ``poison``; without it there is no NaN.

    Members
    -------
    sum : In(signed(sum_bits))
    scale : In(signed(scale_bits))
        For a sum in the accumulator: bound - F - (w - 2), unbiased.
    poison : In(1)
    result : Out(unsigned(32))
    overflow : Out(1)

    ValueError if out of range. Source: the design's rules for results.
    """

    latency = 4

    def __init__(self, *, sum_bits: int, scale_bits: int, poisonable: bool = False):
        require_int("sum_bits", sum_bits, 2, 63)
        require_int("scale_bits", scale_bits, 8, 16)
        self.sum_bits, self.scale_bits, self.poisonable = sum_bits, scale_bits, poisonable
        members = {
            "sum": In(signed(sum_bits)),
            "scale": In(signed(scale_bits)),
            "result": Out(unsigned(32)),
            "overflow": Out(1),
        }
        super().__init__(members | ({"poison": In(1)} if poisonable else {}))

    def elaborate(self, platform):
        m = Module()
        width = max(
            self.sum_bits, BINARY32_SIGNIFICAND_BITS + 1
        )  # room for the bit that decides a tie
        levels = range(bits_for(width - 1))
        low, high = levels[: len(levels) // 2], levels[len(levels) // 2 :]
        kept = BINARY32_SIGNIFICAND_BITS + 1
        # Behind the bits that are kept stands whether there is a 1 below them; before the last
        # shifts also what these can bring up.
        absolute, coarse, fine = (
            data_register(self._layout(min(width, bits)), name=name)
            for name, bits in (
                ("absolute", width),
                ("coarse", kept + (1 << len(low))),
                ("fine", kept + 1),
            )
        )
        m.d.sync += [
            absolute.negative.eq(self.sum < 0),
            absolute.magnitude.eq(Mux(self.sum < 0, -self.sum, self.sum)),
            absolute.exponent.eq(self.scale + (width - 1 + EXPONENT_BIAS)),
        ]
        if self.poisonable:
            m.d.sync += [
                absolute.poison.eq(self.poison),
                coarse.poison.eq(absolute.poison),
                fine.poison.eq(coarse.poison),
            ]
        self._normalise(m, coarse, absolute, high)
        self._normalise(m, fine, coarse, low)
        self._round(m, fine)
        return m

    def _layout(self, bits: int) -> data.StructLayout:
        members = {
            "negative": unsigned(1),
            # Its lowest bit says whether it or any bit below it is 1, where it has been cut.
            "magnitude": unsigned(bits),
            # The biased exponent of a result whose leading bit is the magnitude's top bit.
            "exponent": signed(self.scale_bits + 2),
        }
        return data.StructLayout(members | ({"poison": 1} if self.poisonable else {}))

    @staticmethod
    def _normalise(m, after, before, levels):
        """Shift left by 2^level wherever the bits that would be lost are zeros, highest first; of
        low bits that ``after`` has no room for, keep whether one is 1."""
        magnitude, counts = before.magnitude, []
        for level in reversed(levels):
            distance = 1 << level
            zeros = Signal(name=f"zeros_{distance}")
            shifted = Signal(len(magnitude), name=f"shifted_{distance}")
            m.d.comb += zeros.eq(magnitude[-distance:] == 0)
            m.d.comb += shifted.eq(Mux(zeros, magnitude << distance, magnitude))
            magnitude = shifted
            counts.append(zeros)
        count = Cat(Const(0, levels[0]), *reversed(counts))
        cut = len(magnitude) - len(after.magnitude)
        if cut:
            magnitude = Cat(magnitude[: cut + 1].any(), magnitude[cut + 1 :])
        m.d.sync += [
            after.negative.eq(before.negative),
            after.magnitude.eq(magnitude),
            after.exponent.eq(before.exponent - count),
        ]

    def _round(self, m, normal):
        """The leading bit is hidden; a carry out of the fraction adds 1 to the exponent."""
        fraction_bits = BINARY32_SIGNIFICAND_BITS - 1
        dropped = len(normal.magnitude) - BINARY32_SIGNIFICAND_BITS
        odd = normal.magnitude[dropped]
        half, rest = normal.magnitude[dropped - 1], normal.magnitude[: dropped - 1]
        up = Signal()
        rounded = Signal(signed(fraction_bits + len(normal.exponent)))
        exponent = Signal(signed(len(normal.exponent)))
        fraction = normal.magnitude[dropped:-1]
        m.d.comb += [
            up.eq(half & (odd | rest.any())),
            rounded.eq(Cat(fraction, normal.exponent).as_signed() + up),
            exponent.eq(rounded[fraction_bits:].as_signed()),
        ]
        nothing = ~normal.magnitude[-1] | (exponent <= 0)
        infinite = ~nothing & (exponent >= INFINITE)
        result, overflow = (
            data_output(m, port, f"{name}_register")
            for name, port in (("result", self.result), ("overflow", self.overflow))
        )
        m.d.sync += overflow.eq(infinite)
        with m.If(nothing):
            m.d.sync += result.eq(0)
        with m.Elif(infinite):
            inf = Cat(Const(0, fraction_bits), Const(INFINITE, EXPONENT_BITS), normal.negative)
            m.d.sync += result.eq(inf)
        with m.Else():
            finite = Cat(rounded[: fraction_bits + EXPONENT_BITS], normal.negative)
            m.d.sync += result.eq(finite)
        if self.poisonable:
            with m.If(normal.poison):
                m.d.sync += [result.eq(NAN), overflow.eq(0)]
