"""Find the exponent of a group, or of a tensor, from the largest magnitude."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.convert.lanes.divide import division_step
from diastole_sim.spec.formats import (
    BINARY32_SIGNIFICAND_BITS,
    EXPONENT_BIAS,
    FOUR_OVER_SIX,
    FOUR_OVER_SIX_EXPONENT,
    FOUR_OVER_SIX_LARGEST,
    MAX_EXPONENT,
    NVFP4,
    SCALE_FORMAT,
    SIGNIFICAND_FRACTION,
    TWO_LEVEL_EXPONENT,
    TWO_LEVEL_LARGEST,
)
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics, TensorClass

LARGEST_BYTE = MAX_EXPONENT + EXPONENT_BIAS
_SIX = 12  # the significand of 6 = 12/8 * 2^2
_QUOTIENT_BITS = 5  # four significand bits of a scale, and the bit below
# amax / (6 * 2^T) = m / 1.5 * 2^(x - T - emax), amax / (4 * 2^T) = m * 2^(x - T - emax), and the
# field of a scale's code is biased
SCALE_OFFSET = NVFP4.tensor_scale_bias - EXPONENT_BIAS + NVFP4.scale_offset
"""Amount by which the field of a tensor's scale, T + tensor_scale_bias, plus the exponent of a
scale's code exceeds the biased exponent of the group's top binade."""


def raises_exponent(tensor_class: TensorClass, fraction):
    """Return whether a group's exponent is 1 above the exponent of the largest magnitude. The
    significand of the magnitude is 1.``fraction``."""
    kind = tensor_class.format
    dropped = BINARY32_SIGNIFICAND_BITS - kind.precision
    if tensor_class.scale == "even":
        return fraction >= 2 ** (BINARY32_SIGNIFICAND_BITS - 1) - 2 ** (dropped - 1)
    if tensor_class.scale == "ceil":
        return fraction.any()
    if tensor_class.scale == "rceil":
        return fraction > (kind.max_significand << dropped) - 2 ** (BINARY32_SIGNIFICAND_BITS - 1)
    return Const(0)


def tensor_scale(m, cls: int, tensor_class: TensorClass, amax, margin: int = 0):
    """Return the 8-bit scale of a command from the largest magnitude of the tensor (31 bits). A
    magnitude of 0 gives the code of the scale 1. ``margin``: binades by which the scale is raised,
    up to the largest scale."""
    field, fraction = amax[23:], amax[:23]
    scale = Signal(8, name=f"tensor_scale{cls}")
    if tensor_class.format.two_level:
        code = _raised(_two_level_scale(tensor_class, field, fraction), margin, LARGEST_BYTE + 1)
        m.d.comb += scale.eq(Mux(amax.any(), code, tensor_class.format.tensor_scale_bias))
    else:
        one = tensor_class.format.top_exponent + EXPONENT_BIAS
        code = _raised(
            _limited(field, raises_exponent(tensor_class, fraction)), margin, LARGEST_BYTE
        )
        m.d.comb += scale.eq(Mux(amax.any(), code, one))
    return scale


def _raised(scale, margin: int, most: int):
    """Return ``scale`` + ``margin``, at most ``most``."""
    return Mux(scale + margin > most, most, scale + margin) if margin else scale


def _two_level_scale(tensor_class, field, fraction):
    """Return T + 138 of a tensor with the ``field`` and the ``fraction`` of the largest
    magnitude."""
    largest, lower = TWO_LEVEL_LARGEST, 0
    if tensor_class.scale == FOUR_OVER_SIX:
        largest, lower = FOUR_OVER_SIX_LARGEST, TWO_LEVEL_EXPONENT - FOUR_OVER_SIX_EXPONENT
    code = field + (fraction > (largest - 16) << (BINARY32_SIGNIFICAND_BITS - 5))
    if not lower:
        return code
    most = LARGEST_BYTE + 1
    return Mux(code + lower > most, most, code + lower)


def _limited(field, above):
    """Return e + 127 of a group, at most the byte of the largest exponent."""
    return Mux(field == LARGEST_BYTE, LARGEST_BYTE, field + above)


class LaneScale(wiring.Component):
    """Find the stored exponent, before folding, of a group with the largest magnitude ``value``.

    The exponent never falls as the magnitude grows: the exponent of a group is the largest exponent
    of its elements. Subnormals and zeros give 0. NaN and Inf give 0 too, unless they make the group
    no number. In this case they give the byte of such a group, which is above all other bytes.

    With a single scale for the tensor, ``stored`` is the scale of the tensor, for Inf too if
    ``special`` is ``flag``. NVFP4 gives the code of E4M3 nearest to ``value`` / (6 * 2^T), ties to
    even, or rounded up by the scale rule ``up``. ``four`` is the code nearest to ``value`` /
    (4 * 2^T), and never falls either.

    Timing: ``stored`` and ``four`` belong to the inputs of the cycle before.

    Parameters
    ----------
    numerics : Numerics
        Classes x, w and dy.

    Members
    -------
    cls : In(2)
        Class of the tensor, 0 to 2; not checked.
    scale : In(8)
        e + 127 of the tensor, or T + 138; ignored in classes without a tensor scale.
    value : In(32)
        binary32.
    stored : Out(8)
    four : Out(8)
        Present only if a class has the rule ``four-over-six``; equal to ``stored`` in other
        classes.
    """

    def __init__(self, *, numerics: Numerics):
        self.numerics = numerics
        four = {"four": Out(8)} if self._tries else {}
        super().__init__({"cls": In(2), "scale": In(8), "value": In(32), "stored": Out(8)} | four)

    @property
    def _tries(self) -> bool:
        """True if groups of a class have two scales to choose from."""
        classes = (self.numerics.tensor_class(name) for name in CLASS_NAMES)
        return any(tensor_class.scale == FOUR_OVER_SIX for tensor_class in classes)

    def elaborate(self, platform):
        m = Module()
        field = self.value[23:31]
        special = Signal()
        m.d.comb += special.eq(field == 0xFF)
        classes = [self.numerics.tensor_class(name) for name in CLASS_NAMES]
        finite = [self._finite(m, cls, tensor_class) for cls, tensor_class in enumerate(classes)]
        fours = [
            self._for_four(m, cls, tensor_class, finite[cls])
            for cls, tensor_class in enumerate(classes)
        ]
        with m.Switch(self.cls):
            for cls, tensor_class in enumerate(classes):
                with m.Case(cls):
                    ignored = special
                    if self.numerics.special == "flag" and tensor_class.grouping.kind == "tensor":
                        ignored = special & self.value[:23].any()  # NaN; Inf has an element
                    counts = field.any() & ~ignored
                    poisons = (
                        self.numerics.special == "poison" and tensor_class.format.nan_code is None
                    )
                    outputs = [(self.stored, finite[cls])]
                    outputs += [(self.four, fours[cls])] if self._tries else []
                    for output, code in outputs:
                        m.d.sync += output.eq(Mux(counts, code, 0))
                        if poisons:
                            with m.If(special):
                                m.d.sync += output.eq(tensor_class.format.nan_byte)
        return m

    def _finite(self, m, cls, tensor_class):
        """Return the exponent byte of a normal number in a class."""
        if tensor_class.format.two_level:
            return self._scale_code(m, cls, tensor_class)
        if tensor_class.has_tensor_scale:
            return self.scale
        if tensor_class.format.scale == "one":
            return Const(LARGEST_BYTE)
        byte = Signal(8, name=f"byte{cls}")
        m.d.comb += byte.eq(
            _limited(self.value[23:31], raises_exponent(tensor_class, self.value[:23]))
        )
        lowest = tensor_class.format.lowest_exponent + EXPONENT_BIAS
        return byte if lowest == 1 else Mux(byte < lowest, 0, byte)

    def _scale_code(self, m, cls, tensor_class):
        remainder, dividend = Cat(self.value[20:23], 1), self.value[:20]
        quotient_bits = Const(0, 0)
        for step in range(_QUOTIENT_BITS + 1):
            name = f"class{cls}_step{step}"
            bit, remainder = division_step(m, remainder, Const(_SIX, 4), dividend[-1], name)
            dividend, quotient_bits = dividend[:-1], Cat(bit, quotient_bits)
        below = ~quotient_bits[-1]
        sticky = remainder.any() | dividend.any() | (quotient_bits[0] & ~below)
        quotient = Mux(below, quotient_bits, quotient_bits[1:])[:_QUOTIENT_BITS]

        exponent = Signal(signed(11), name=f"exponent{cls}")  # the field of the code, if positive
        m.d.comb += exponent.eq(self.value[23:31] + SCALE_OFFSET - self.scale - below)
        return _rounded_code(m, tensor_class, exponent, quotient, sticky, f"{cls}")

    def _for_four(self, m, cls, tensor_class, code):
        """Return the code of the scale by which the magnitude becomes 4, from the first bits of the
        magnitude. By other scale rules there is no choice: return ``code``."""
        if tensor_class.scale != FOUR_OVER_SIX:
            return code
        quotient = Cat(self.value[23 - _QUOTIENT_BITS + 1 : 23], 1)
        sticky = self.value[: 23 - _QUOTIENT_BITS + 1].any()
        exponent = Signal(signed(11), name=f"exponent{cls}_four")
        m.d.comb += exponent.eq(self.value[23:31] + SCALE_OFFSET - self.scale)
        return _rounded_code(m, tensor_class, exponent, quotient, sticky, f"{cls}_four")


def _rounded_code(m, tensor_class, exponent, quotient, sticky, suffix):
    """Return the code of a scale, rounded.

    ``exponent``: exponent field of the code, if positive. ``quotient``: first bits of a quotient
    from 1 to 2. ``sticky``: the quotient has further bits.
    """
    shift = Signal(range(_QUOTIENT_BITS + 2), name=f"shift{suffix}")
    with m.If(exponent < 1 - _QUOTIENT_BITS):
        m.d.comb += shift.eq(_QUOTIENT_BITS + 1)
    with m.Elif(exponent < 1):
        m.d.comb += shift.eq(1 - exponent)
    shifted = Signal(2 * _QUOTIENT_BITS + 1, name=f"shifted{suffix}")
    m.d.comb += shifted.eq(Cat(Const(0, _QUOTIENT_BITS + 1), quotient) >> shift)
    truncated, half = shifted[_QUOTIENT_BITS + 2 :], shifted[_QUOTIENT_BITS + 1]
    rest = shifted[: _QUOTIENT_BITS + 1].any() | sticky
    up = half | rest if tensor_class.scale == "up" else half & (rest | truncated[0])
    code = Signal(signed(15), name=f"code{suffix}")
    m.d.comb += code.eq(
        (Mux(exponent < 1, 0, exponent - 1) << SIGNIFICAND_FRACTION) + truncated + up
    )
    return Mux(code > SCALE_FORMAT.max_code, SCALE_FORMAT.max_code, code[:7])
