"""Compare two scales of an NVFP4 group by the error of a single element."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.convert.lanes.quantise import delay
from diastole_hw.data_registers import data_output, data_register, one_later
from diastole_sim.spec.formats import (
    BINARY32_SIGNIFICAND_BITS,
    EXPONENT_BIAS,
    NVFP4,
    SCALE_FORMAT,
    SCALE_SIGNIFICAND_BITS,
    SIGNIFICAND_FRACTION,
)

TRIAL_CYCLES = 6
"""Latency of :class:`ScaleTrial` in cycles."""
WORSE_BITS = 35
"""Bits of an element's share. Errors are below 32 units: the squares of two errors differ by less
than 2^10 units. The difference has 24 bits below the unit, and a sign."""
_ELEMENTS = (0, 1, 2, 3, 4, 6, 8, 12)  # elements of E2M1, in halves
_MIDDLES = (1, 3, 5, 7, 10, 14, 20)  # midpoints between neighbouring elements, in quarters
_FRACTION = BINARY32_SIGNIFICAND_BITS  # bits of a magnitude below the unit
_MAGNITUDE_BITS = 8 + _FRACTION
_ROUNDED_BITS = 9  # bits of 12 times a significand of 5 bits
_ERROR_BITS = 7  # bits of a difference, or a sum, of two errors: below 64, with a sign
# The unit is u = 2^(field - bias - 3 - 1 + T), with the exponent field of the code ``six``. A
# magnitude with its highest bit 7 places above the unit fills all bits. A smaller magnitude is
# shifted right from this place by the difference of the exponents, which is
# _DISTANCE + field + (T + 138) - the exponent field of the binary32.
_DISTANCE = (_MAGNITUDE_BITS - 1 - _FRACTION + EXPONENT_BIAS - NVFP4.tensor_scale_bias) - (
    SCALE_FORMAT.bias + SIGNIFICAND_FRACTION + 1
)


class ScaleTrial(wiring.Component):
    """Output how much worse an element is with the scale ``four`` of its group than with ``six``.

    ``worse`` = (v - r4)^2 - (v - r6)^2 = (r6 - r4) (2 v - r4 - r6), in units of 2^-24 u^2. v is the
    magnitude in units u of half a last place of ``six``, cut to 24 bits below the unit. r4 and r6
    are the nearest of 0, 1/2, 1, 3/2, 2, 3, 4 and 6 times a scale, in units.

    The result is exact if ``six`` and ``four`` are results of
    :class:`diastole_hw.convert.lanes.scale.LaneScale` for this magnitude or a larger magnitude. In
    this case v is below 256, or both scales are the largest and ``worse`` is 0. Other scales are
    not checked. NaN, Inf, zeros and subnormals count as 0.

    Timing: ``worse`` belongs to the inputs of :data:`TRIAL_CYCLES` cycles ago, an element per
    cycle.

    Members
    -------
    scale : In(8)
        T + 138 of the tensor; must hold from ``value`` on.
    value : In(32)
        binary32.
    six, four : In(8)
        E4M3 codes of both scales of the element's group.
    worse : Out(signed(WORSE_BITS))

    Source: Cook et al., Four Over Six, arXiv 2512.02010.
    """

    def __init__(self):
        super().__init__(
            {
                "scale": In(8),
                "value": In(32),
                "six": In(8),
                "four": In(8),
                "worse": Out(signed(WORSE_BITS)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        magnitude, scales = self._align(m)
        places = [
            self._nearest(m, magnitude, scale, name)
            for scale, name in zip(scales, ("six", "four"), strict=True)
        ]
        magnitude = one_later(m, magnitude, "compared")
        scales = [one_later(m, scale, f"compared{n}") for n, scale in enumerate(scales)]
        six, four = (
            self._multiple(m, place, scale, name)
            for place, scale, name in zip(places, scales, ("six", "four"), strict=True)
        )
        magnitude = one_later(m, magnitude, "rounded")
        # Difference and sum of the errors. Below the unit, the sum has the bits of twice v.
        differ = data_register(signed(_ERROR_BITS))
        whole = data_register(signed(_ERROR_BITS))
        below = data_register(_FRACTION)
        twice = Cat(Const(0, 1), magnitude)
        m.d.sync += [
            differ.eq(six - four),
            whole.eq(twice[_FRACTION:] - six - four),
            below.eq(twice[:_FRACTION]),
        ]
        worse = data_output(m, self.worse, "difference")
        m.d.sync += worse.eq(differ * Cat(below, whole).as_signed())
        return m

    def _align(self, m):
        """Return the magnitude in units, and the significands of both scales in the last place of
        ``six``."""
        field, fraction = self.value[23:31], self.value[:23]
        normal = field.any() & ~field.all()
        codes = {"six": self.six, "four": self.four}
        fields, significands = {}, {}
        for name, code in codes.items():
            of_code = code[SIGNIFICAND_FRACTION:7]
            fields[name] = Mux(of_code.any(), of_code, 1)
            significands[name] = Cat(code[:SIGNIFICAND_FRACTION], of_code.any())
        above = data_register()  # `four` lies a binade above `six`
        significant = data_register(BINARY32_SIGNIFICAND_BITS)
        distance = data_register(signed(10))
        m.d.sync += [
            above.eq(fields["four"] != fields["six"]),
            significant.eq(Mux(normal, Cat(fraction, Const(1, 1)), 0)),
            distance.eq(fields["six"] + self.scale + _DISTANCE - field),
        ]
        six, four = (delay(m, significands[name], name) for name in codes)
        shift = Signal(range(_MAGNITUDE_BITS + 1))
        with m.If(distance > _MAGNITUDE_BITS):
            m.d.comb += shift.eq(_MAGNITUDE_BITS)
        with m.Elif(distance > 0):
            m.d.comb += shift.eq(distance)
        magnitude = data_register(_MAGNITUDE_BITS)
        top = Const(0, _MAGNITUDE_BITS - BINARY32_SIGNIFICAND_BITS)
        wider = Signal(SCALE_SIGNIFICAND_BITS + 1)
        m.d.comb += wider.eq(four << above)
        m.d.sync += magnitude.eq(Cat(top, significant) >> shift)
        return magnitude, [one_later(m, six, "six_aligned"), one_later(m, wider, "four_aligned")]

    @staticmethod
    def _nearest(m, magnitude, scale, name):
        """Return the E2M1 code nearest to the magnitude. Of two equally near codes return the
        larger: their errors are equal."""
        high = magnitude[_FRACTION - 1 :]  # in halves of a unit: midpoints are integers
        beyond = []
        for number, middle in enumerate(_MIDDLES):
            limit = Signal(len(high) + 1, name=f"{name}_middle{number}")
            m.d.comb += limit.eq(scale * middle)
            beyond.append(high >= limit)
        code = data_register(range(len(_ELEMENTS)), name=f"{name}_code")
        m.d.sync += code.eq(sum(beyond))
        return code

    @staticmethod
    def _multiple(m, place, scale, name):
        """Return the rounded magnitude in units."""
        element = Signal(range(max(_ELEMENTS) + 1), name=f"{name}_element")
        with m.Switch(place):
            for code, value in enumerate(_ELEMENTS):
                with m.Case(code):
                    m.d.comb += element.eq(value)
        rounded = data_register(_ROUNDED_BITS, name=f"{name}_rounded")
        m.d.sync += rounded.eq(element * scale)
        return rounded
