"""An integer becomes a float of an accumulator, with one rounding."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_output
from diastole_sim.spec.accumulator import EXPONENT_BITS, LEAST_MANTISSA, MOST_MANTISSA
from diastole_sim.spec.require import require_int


def float_layout(mantissa: int) -> data.StructLayout:
    """(-1)^negative * (1 + fraction / 2^m) * 2^(exponent - 1); 0 where all bits are."""
    members = {"fraction": unsigned(mantissa), "exponent": unsigned(EXPONENT_BITS)}
    return data.StructLayout(members | {"negative": unsigned(1)})


def normalised(m: Module, value, levels: int, fill=None):
    """``value`` shifted left until its top bit is 1, by less than 2^``levels``, and by how much.

    Bits of ``fill`` come in from below, zeros where it is None. Of a value without a 1 both are
    anything, but for levels that are exactly its length: then it is shifted as far as possible.
    """
    width, counts = len(value), []
    for level in reversed(range(levels)):
        distance = 1 << level
        zeros = Signal(name=f"zeros_{distance}")
        shifted = Signal(width, name=f"shifted_{distance}")
        below = 0 if fill is None else fill.replicate(distance)
        m.d.comb += [
            zeros.eq(~value[-distance:].any()),
            shifted.eq(Mux(zeros, Cat(below, value)[:width] if fill is not None
                           else value << distance, value)),
        ]  # fmt: skip
        value = shifted
        counts.append(zeros)
    return value, Cat(reversed(counts))


class RoundSum(wiring.Component):
    """``result`` = R_p(``sum``), p = m + 1: to nearest, ties to even. ``inexact`` says that it is
    not ``sum``.

    Of a negative sum the ones' complement is normalised, ones behind it: without end these are the
    unit that it lacks, so nothing is negated.

    Timing: one cycle, one value per cycle. There is no valid bit: the user delays one alongside.

    Parameters
    ----------
    sum_bits : int
        3 to 63.
    mantissa : int
        m, 2 to 23.

    Members
    -------
    sum : In(signed(sum_bits))
        Above -2^(sum_bits - 1); not checked.
    result : Out(float_layout(mantissa))
    inexact : Out(1)

    ValueError if out of range. Source: docs/formats.md, "Float accumulators".
    """

    result: data.View

    def __init__(self, *, sum_bits: int, mantissa: int):
        require_int("sum_bits", sum_bits, 3, 63)
        require_int("mantissa", mantissa, LEAST_MANTISSA, MOST_MANTISSA)
        self.sum_bits, self.mantissa = sum_bits, mantissa
        super().__init__(
            {
                "sum": In(signed(sum_bits)),
                "result": Out(float_layout(mantissa)),
                "inexact": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        magnitude_bits, precision = self.sum_bits - 1, self.mantissa + 1
        levels = (magnitude_bits - 1).bit_length()
        negative = self.sum[-1]
        # As long as all levels shift, so that zeros, and -1, end with the exponent of a unit.
        magnitude = Signal(1 << levels)
        m.d.comb += magnitude.eq(self.sum[:-1] ^ negative.replicate(magnitude_bits))
        normal, count = normalised(m, magnitude, levels, negative)
        lacking = max(0, precision + 2 - len(normal))
        bits = Cat(negative.replicate(lacking), normal)
        kept, half, rest = bits[-precision:], bits[-precision - 1], bits[: -precision - 1]
        beyond = Signal()  # of the sum itself, some bit below the half
        up = Signal()
        result = data_output(m, self.result, "result_register")
        inexact = data_output(m, self.inexact, "inexact_register")
        m.d.comb += [
            beyond.eq((rest ^ negative.replicate(len(rest))).any()),
            up.eq(Mux(negative, half | (kept[0] & ~beyond), half & (kept[0] | beyond))),
        ]
        # The leading one, or what is rounded up to it, makes the exponent one more.
        packed = Signal(len(self.result.as_value()) - 1)
        m.d.comb += packed.eq((Cat(kept[:-1], ~count)) + (kept[-1] << self.mantissa) + up)
        m.d.sync += [
            result.eq(Cat(packed, negative)),
            inexact.eq((half ^ negative) | beyond),
        ]
        return m
