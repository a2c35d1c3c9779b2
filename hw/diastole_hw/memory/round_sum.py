"""Round an integer to a float of an accumulator."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_output
from diastole_sim.spec.accumulator import EXPONENT_BITS, MAX_MANTISSA, MIN_MANTISSA
from diastole_sim.spec.require import require_int


def float_layout(mantissa: int) -> data.StructLayout:
    """Return the layout of (-1)^negative * (1 + fraction / 2^m) * 2^(exponent - 1), or 0 if all
    bits are 0."""
    members = {"fraction": unsigned(mantissa), "exponent": unsigned(EXPONENT_BITS)}
    return data.StructLayout(members | {"negative": unsigned(1)})


def normalised(m: Module, value, levels: int, fill=None):
    """Shift ``value`` left by less than 2^``levels`` until the top bit is 1. Return the shifted
    value and the shift.

    Bits of ``fill`` enter at the bottom, or zeros if ``fill`` is None. A value without a 1 makes
    the two results undefined. The exception is a value of exactly 2^``levels`` bits, which is
    shifted as far as possible.
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
    """Compute ``result`` = R_p(``sum``), p = m + 1: to nearest, ties to even. ``inexact`` is set if
    ``result`` is not ``sum``.

    A negative sum is normalised as its ones' complement, which is the magnitude minus 1, with ones
    behind the last bit. An endless row of ones behind the last bit equals the missing 1, so no
    adder negates the sum.

    Timing: one cycle, one value per cycle. There is no valid bit: the user delays a valid bit
    alongside.

    Parameters
    ----------
    sum_bits : int
        Bits of ``sum``, 3 to 63.
    mantissa : int
        m, 2 to 23.

    Members
    -------
    sum : In(signed(sum_bits))
        Above -2^(sum_bits - 1). Not checked.
    result : Out(float_layout(mantissa))
    inexact : Out(1)

    ValueError if out of range. Source: docs/formats.md, "Float accumulators".
    """

    result: data.View

    def __init__(self, *, sum_bits: int, mantissa: int):
        require_int("sum_bits", sum_bits, 3, 63)
        require_int("mantissa", mantissa, MIN_MANTISSA, MAX_MANTISSA)
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
        # 2^levels bits, as far as all levels shift together, so that zeros, and -1, end with the
        # exponent of a unit.
        magnitude = Signal(1 << levels)
        m.d.comb += magnitude.eq(self.sum[:-1] ^ negative.replicate(magnitude_bits))
        normal, count = normalised(m, magnitude, levels, negative)
        lacking = max(0, precision + 2 - len(normal))
        bits = Cat(negative.replicate(lacking), normal)
        truncated, half, rest = bits[-precision:], bits[-precision - 1], bits[: -precision - 1]
        beyond = Signal()  # a bit of the sum itself, below the half, is set
        up = Signal()
        result = data_output(m, self.result, "result_register")
        inexact = data_output(m, self.inexact, "inexact_register")
        m.d.comb += [
            beyond.eq((rest ^ negative.replicate(len(rest))).any()),
            up.eq(Mux(negative, half | (truncated[0] & ~beyond), half & (truncated[0] | beyond))),
        ]
        # The leading one, or a carry of the rounding in its place, adds 1 to the exponent.
        packed = Signal(len(self.result.as_value()) - 1)
        m.d.comb += packed.eq((Cat(truncated[:-1], ~count)) + (truncated[-1] << self.mantissa) + up)
        m.d.sync += [
            result.eq(Cat(packed, negative)),
            inexact.eq((half ^ negative) | beyond),
        ]
        return m
