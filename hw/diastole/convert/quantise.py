"""One lane of the converter: a binary32 number to an element of its block."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_sim.check import require_choice, require_int
from diastole_sim.rounding import RULES

CLASSES = 3  # of tensors: x, w, dy
_SIGNIFICAND_BITS = 24


def check_classes(mantissa_bits, rounding, random_bits) -> None:
    """ValueError unless the three classes' formats and rounding rules are ones the lanes have."""
    if len(mantissa_bits) != CLASSES or len(rounding) != CLASSES:
        raise ValueError("mantissa_bits and rounding must have one entry per class, x, w, dy")
    for bits in mantissa_bits:
        require_int("mantissa_bits", bits, 2, 8)
    for rule in rounding:
        require_choice("rounding", rule, tuple(RULES))
    require_int("random_bits", random_bits, 1, 16)


def round_up(rule, lowest, fraction, sticky, random, random_bits):
    """Whether a magnitude is rounded away from zero, one bit.

    Parameters
    ----------
    rule : str
        One of ``diastole_sim.rounding.RULES``; ``nearest`` sends ties to even, the others are A, B
        and C of the P3109 interim report.
    lowest : Value
        Lowest bit kept.
    fraction : Value
        First ``random_bits + 1`` bits below it, the most significant on top.
    sticky : Value
        Whether any bit below those is set.
    random : Value
        ``random_bits`` random bits; not used by ``nearest``.
    """
    half = fraction[-1]
    if rule == "nearest":
        return half & (fraction[:-1].any() | sticky | lowest)
    kept = fraction[1:]
    if rule == "stochastic-a":
        return (kept + random)[random_bits]
    if rule == "stochastic-b":
        return (fraction + Cat(Const(1, 1), random))[random_bits + 1]
    tie_or_more = fraction[0] & (sticky | kept[0])
    return (kept + tie_or_more + random)[random_bits]


class LaneQuantiser(wiring.Component):
    """Quantise a binary32 number by the largest exponent of its block, and round it.

    With d = ``exponent`` - the number's exponent field, and m the magnitude bits of ``cls``:
    ``magnitude = min(round(significand / 2^(24 - m + d)), 2^m - 1)``, sign 0 if that is 0.
    Subnormals count as zero, NaN gives +0, Inf the largest magnitude with its sign. Where
    ``exponent`` is 0 (a block without finite non-zero numbers) everything gives +0.

    Timing: latency 2 cycles, one number per cycle, no handshake: all outputs belong to the inputs
    of two cycles ago.

    Parameters
    ----------
    mantissa_bits : tuple of 3 int
        Magnitude bits m of the classes x, w and dy (2 to 8).
    rounding : tuple of 3 str
        Rule of each class: ``nearest``, ``stochastic-a``, ``stochastic-b`` or ``stochastic-c``.
    random_bits : int
        Random bits per number (1 to 16).

    Members
    -------
    cls : In(2)
        Class of the tensor, 0 to 2; not checked. Must not change within 2 cycles of a number.
    value : In(32)
        binary32.
    exponent : In(8)
        Largest exponent field of the block's finite numbers, at least that of ``value``; not
        checked.
    random : In(random_bits)
        Uniform random bits; not looked at by a class that rounds to nearest.
    element : Out(max(mantissa_bits) + 1)
        Magnitude in the low m bits, sign at bit m, zeros above.
    saturated, nan, inf : Out(1)
        Magnitude above 2^m - 1 after rounding (not for Inf); what ``value`` was.

    ValueError if out of range.
    """

    def __init__(self, *, mantissa_bits, rounding, random_bits):
        check_classes(mantissa_bits, rounding, random_bits)
        self.mantissa_bits, self.rounding = tuple(mantissa_bits), tuple(rounding)
        self.random_bits = random_bits
        super().__init__(
            {
                "cls": In(2),
                "value": In(32),
                "exponent": In(8),
                "random": In(random_bits),
                "element": Out(max(mantissa_bits) + 1),
                "saturated": Out(1),
                "nan": Out(1),
                "inf": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        width = max(_SIGNIFICAND_BITS, max(self.mantissa_bits) + self.random_bits + 1)
        fixed = Signal(width)  # the significand, its top at the weight of the block's exponent
        sticky = Signal()
        sign = Signal()
        nan = Signal()
        inf = Signal()
        random = Signal(self.random_bits)
        self._align(m, fixed, sticky, width)
        special = self.value[23:31] == 0xFF
        m.d.sync += [
            sign.eq(self.value[31]),
            nan.eq(special & self.value[:23].any()),
            inf.eq(special & ~self.value[:23].any()),
            random.eq(self.random),
        ]
        full = Signal()  # Inf in a block that has an exponent
        m.d.sync += full.eq(special & ~self.value[:23].any() & self.exponent.any())
        with m.Switch(self.cls):
            for cls in range(CLASSES):
                with m.Case(cls):
                    self._round(m, cls, fixed, sticky, random, sign, full)
        m.d.sync += [self.nan.eq(nan), self.inf.eq(inf)]
        return m

    def _align(self, m, fixed, sticky, width):
        """First cycle: shift the significand right by the distance to the block's exponent."""
        field = self.value[23:31]
        finite = field.any() & (field != 0xFF) & self.exponent.any()
        significand = Cat(self.value[:23], Const(1, 1))
        distance = Signal(8)
        m.d.comb += distance.eq(self.exponent - field)
        clamped = Mux(distance > width, width, distance)
        wide = Signal(2 * width)
        m.d.comb += wide.eq(Cat(Const(0, 2 * width - _SIGNIFICAND_BITS), significand) >> clamped)
        m.d.sync += fixed.eq(Mux(finite, wide[width:], 0))
        m.d.sync += sticky.eq(finite & wide[:width].any())

    def _round(self, m, cls, fixed, sticky, random, sign, full):
        """Second cycle: round to the class's magnitude bits, saturate, attach the sign."""
        bits = self.mantissa_bits[cls]
        kept = fixed[-bits:]
        below = fixed[:-bits]
        fraction = below[-(self.random_bits + 1) :]
        rest = below[: -(self.random_bits + 1)].any() | sticky
        up = Signal(name=f"up{cls}")
        m.d.comb += up.eq(
            round_up(self.rounding[cls], kept[0], fraction, rest, random, self.random_bits)
        )
        top = 2**bits - 1
        magnitude = Signal(bits, name=f"magnitude{cls}")
        with m.If(full | (kept == top)):
            m.d.comb += magnitude.eq(top)
        with m.Else():
            m.d.comb += magnitude.eq(kept + up)
        m.d.sync += self.element.eq(Cat(magnitude, sign & magnitude.any()))
        m.d.sync += self.saturated.eq((kept == top) & up)
