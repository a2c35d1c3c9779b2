"""Quantise a binary32 number to an element of its group: a lane of the converter."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.convert.by_class import by_class
from diastole_hw.convert.lanes.divide import Divide, division_cycles
from diastole_hw.convert.lanes.scale import SCALE_OFFSET
from diastole_sim.spec.formats import PLANE_BITS, SIGNIFICAND_FRACTION
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics, TensorClass
from diastole_sim.spec.rounding import is_stochastic

_DISTANCE_BITS = 11
TOP_CYCLES = 4
"""Latency of a lane in cycles if a class may fold; no class divides then."""

MONITORED = ("differs", "narrow")
"""Outputs of a lane to the precision monitor."""


def rounds_up(rule, lowest, fraction, sticky, random, random_bits):
    """Return whether a magnitude is rounded away from zero, as one bit.

    Parameters
    ----------
    rule : str
        One of ``diastole_sim.spec.rounding.RULES``. ``nearest`` sends ties to even; the other rules
        are A, B and C of the P3109 interim report.
    lowest : Value
        Lowest bit kept.
    fraction : Value
        First ``random_bits + 1`` bits below the lowest bit kept, the most significant on top.
    sticky : Value
        True if any bit below ``fraction`` is set.
    random : Value
        ``random_bits`` random bits; not used by ``nearest``.
    """
    half = fraction[-1]
    if rule == "nearest":
        return half & (fraction[:-1].any() | sticky | lowest)
    addend = fraction[1:]
    if rule == "stochastic-a":
        return (addend + random)[random_bits]
    if rule == "stochastic-b":
        return (fraction + Cat(Const(1, 1), random))[random_bits + 1]
    tie_or_more = fraction[0] & (sticky | addend[0])
    return (addend + tie_or_more + random)[random_bits]


class LaneQuantiser(wiring.Component):
    """Quantise a binary32 number by the exponent of its group, and round the result.

    Let e be the exponent of the group, x and s the number's exponent and 24-bit significand, and p,
    D and the codes as in the class's format. Then d = min(max(e - x, 0), D),
    significand = round(s / 2^(24 - p + e - x - d)), code = ((D - d) << (p - 1)) + significand. A
    code above the largest, and every x > e, becomes the largest code, or
    :meth:`Numerics.overflow_code`. In NVFP4 the number is first divided exactly by the significand
    of its scale.

    Subnormals count as zero, as does every number in a group with the stored exponent 0. NaN and
    Inf follow ``special``. Either NaN becomes +0 and Inf the largest element, or NaN and Inf get
    their own codes. In a group that is not a number all elements are +0. Zeros have a sign in
    formats with a sign of zero.

    ``top`` is the fold of a unit with only this element. For a finite number that does not become
    zero, ``top`` is D + 1 - d after rounding, plus 1 if the significand is larger than the
    significand of the largest element. Else ``top`` is 0. For a number that is too large, d is 0.
    With ``fold``, the largest ``top`` of a unit, the element is an element of a group with an
    exponent lower by D + 1 - ``fold``.

    Timing: latency :attr:`latency` cycles, a number per cycle, no handshake: all outputs belong to
    the inputs of :attr:`latency` cycles ago.

    Parameters
    ----------
    numerics : Numerics
        Classes x, w and dy.
    monitored : bool
        True if the lane has the outputs of the precision monitor.

    Members
    -------
    cls : In(2)
        Class of the tensor, 0 to 2; not checked. Must not change within the latency.
    planes : In(2)
        Number of planes of the stored tensor in the format ``fast``, less 1; p is twice the number.
        Must hold as ``cls``. Only in a machine with planes, where the bits of a magnitude stand on
        top of ``element``, with zeros below.
    scale : In(8)
        T + 138 of an NVFP4 tensor; must hold as ``cls``.
    value : In(32)
        binary32.
    blank : In(1)
        The number is +0, whatever ``value`` is.
    exponent : In(8)
        Stored exponent of the group, before folding: e + 127, the code of an NVFP4 scale, 0, or the
        byte of a group that is not a number.
    fold : In(8)
        At least the ``top`` of the element. Ignored unless the class folds
        (:meth:`Numerics.folds`).
    random : In(random_bits)
        Uniform random bits; ignored by a class that rounds to nearest.
    element : Out(largest element_bits of the classes)
        Magnitude code, the sign above the code, zeros above the sign.
    top : Out(8)
        0 in a class that may not fold.
    saturated, underflowed, nan, inf : Out(1)
        ``saturated``: finite and above the largest element. ``underflowed``: finite, not zero, and
        zero as an element. Neither is set in groups that are not numbers. ``nan``, ``inf``:
        ``value`` is a NaN, an Inf.
    differs, narrow : Out(2)
        |k4 - 4 k2| and k2, of magnitudes of 4 and of 2 bits, rounded to nearest even and saturating
        (Zhang, McDanel, Kung: FAST, HPCA 2022). Only if ``monitored``.
    """

    def __init__(self, *, numerics: Numerics, monitored: bool = False):
        self.numerics, self.monitored = numerics, monitored
        super().__init__(
            {"planes": In(2 if numerics.chooses_widths else 0)}
            | dict.fromkeys(MONITORED, Out(2 if monitored else 0))
            | {
                "cls": In(2),
                "scale": In(8),
                "value": In(32),
                "blank": In(1),
                "exponent": In(8),
                "fold": In(8),
                "random": In(numerics.random_bits),
                "element": Out(max(c.format.element_bits for c in self._classes)),
                "top": Out(8),
                "saturated": Out(1),
                "underflowed": Out(1),
                "nan": Out(1),
                "inf": Out(1),
            }
        )

    @property
    def _classes(self) -> list[TensorClass]:
        """Classes of tensors in their widest formats."""
        return [self.numerics.converted_class(name) for name in CLASS_NAMES]

    @property
    def _folds(self) -> list[bool]:
        return [self.numerics.folds(name) for name in CLASS_NAMES]

    @property
    def _precision(self) -> int:
        """Largest p of the classes."""
        return max(c.format.precision for c in self._classes)

    @property
    def _drawn_bits(self) -> int:
        """Random bits that any class uses, at least 1."""
        drawn = any(is_stochastic(c.rounding) for c in self._classes)
        return self.numerics.random_bits if drawn else 1

    @property
    def _quotient_bits(self) -> int:
        """Bits of the quotient of a number by its scale's significand. Lower bits only count as
        sticky."""
        return self._precision + self._drawn_bits + 1

    @property
    def latency(self) -> int:
        """Latency in cycles."""
        divided = division_cycles(self._quotient_bits) if self.numerics.scale_significands else 0
        return 3 + any(self._folds) + divided

    def elaborate(self, platform):
        m = Module()
        # Cycles of a division, if any; then the first and second cycle: place and align.
        depth = by_class(m, self.cls, [c.format.depth for c in self._classes], "depth")
        operand = self._read(m, depth)
        if self.numerics.scale_significands:
            operand = self._divide(m, operand, depth)
        aligned = self._align(m, self._place(m, operand), depth)
        # Third cycle: round, by class.
        code = Signal(len(self.element))  # with the sign
        saturated = Signal()
        underflowed = Signal()
        with m.Switch(self.cls):
            for cls in range(len(CLASS_NAMES)):
                with m.Case(cls):
                    self._round(m, cls, aligned, code, saturated, underflowed)
        results = {
            "saturated": saturated,
            "underflowed": underflowed,
            "nan": aligned["nan"],
            "inf": aligned["inf"],
        }
        # Fourth cycle, if any class folds: lower the exponent.
        if any(self._folds):
            code = delay(m, code, "code")
            results = {name: delay(m, value, name) for name, value in results.items()}
            folded = Signal(len(self.element))
            fold = delay(m, self.fold, "fold", self.latency - 1)
            top = Signal(8)
            with m.Switch(self.cls):
                for cls in range(len(CLASS_NAMES)):
                    with m.Case(cls):
                        self._fold(m, cls, code, results["saturated"], fold, folded, top)
            m.d.sync += self.top.eq(top)
            code = folded
        if self.monitored:
            self._monitor(m, aligned)
        m.d.sync += [
            self.element.eq(code),
            self.saturated.eq(results["saturated"]),
            self.underflowed.eq(results["underflowed"]),
            self.nan.eq(results["nan"]),
            self.inf.eq(results["inf"]),
        ]
        return m

    def _read(self, m, depth):
        """Read the properties of the number and of its group into a record."""
        field, fraction = self.value[23:31], self.value[:23]
        special = Signal()
        poisoned = Signal()
        distance = Signal(signed(_DISTANCE_BITS))
        deep = Signal(signed(_DISTANCE_BITS + 1))
        # `blank` does not set the number to 0: the gates would stand before the subtractions.
        m.d.comb += special.eq((field == 0xFF) & ~self.blank)
        m.d.comb += [
            distance.eq(self.exponent - field),
            # The number comes late, from a memory: a single subtraction, not two in series.
            deep.eq((self.exponent - depth) - field),
        ]
        # In a format without NaN, the exponent of the group marks NaN.
        groups = [
            self.numerics.special == "poison" and c.format.nan_code is None for c in self._classes
        ]
        if any(groups):
            byte = self._classes[groups.index(True)].format.nan_byte
            of_class = by_class(m, self.cls, map(int, groups), "groups_poisoned")
            m.d.comb += poisoned.eq(of_class.bool() & (self.exponent == byte))
        return {
            "sign": self.value[31] & ~self.blank,
            "finite": field.any() & ~special & ~self.blank,
            "special": special,
            "fractional": fraction.any(),
            "present": self.exponent.any() & ~poisoned,
            "poisoned": poisoned,
            "distance": distance,
            "deep": deep,
            "significand": Cat(fraction, Const(1, 1)),
            "sticky": Const(0, 1),
            "random": self.random,
        }

    def _divide(self, m, operand, depth):
        """Return the record of the number divided by its scale, some cycles later."""
        divider = Divide(bits=self._quotient_bits)
        cycles = division_cycles(divider.bits)
        m.submodules.divide = divider
        code = self.exponent[:7]
        low, subnormal = code[:3], code[3:] == 0
        lead = Signal(2)  # left shift of a subnormal scale to a significand of at least 8
        with m.If(subnormal):
            m.d.comb += lead.eq(Mux(low[2], 1, Mux(low[1], 2, 3)))
        m.d.comb += divider.significand.eq(operand["significand"])
        m.d.comb += divider.divisor.eq(Mux(subnormal, low << lead, low | 1 << SIGNIFICAND_FRACTION))
        distance = Signal(signed(_DISTANCE_BITS))
        exponent = Mux(subnormal, 1, code[3:]) + self.scale - SCALE_OFFSET - lead  # e + 127
        m.d.comb += distance.eq(exponent - self.value[23:31])
        delayed = {
            name: delay(m, value, f"{name}_divided", cycles)
            for name, value in (operand | {"distance": distance}).items()
            if name not in ("significand", "sticky", "deep")
        }
        quotient_distance = Signal(signed(_DISTANCE_BITS))
        deep = Signal(signed(_DISTANCE_BITS + 1), name="quotient_deep")
        m.d.comb += quotient_distance.eq(delayed["distance"].as_signed() + divider.below)
        m.d.comb += deep.eq((delayed["distance"].as_signed() - depth) + divider.below)
        return delayed | {
            "significand": divider.quotient,
            "sticky": divider.sticky,
            "distance": quotient_distance,
            "deep": deep,
        }

    def _place(self, m, operand):
        """Register the record, in the first cycle (after any division): ``deep``, how far the
        number lies below the lowest binade, and ``beyond``, whether the number lies above the top
        binade."""
        inputs = {name: value for name, value in operand.items() if name != "distance"}
        inputs["over"] = operand["distance"].as_signed() < 0
        placed = {name: delay(m, value, f"{name}_placed") for name, value in inputs.items()}
        over, special, fractional = (placed.pop(name) for name in ("over", "special", "fractional"))
        return placed | {
            "beyond": placed["finite"] & placed["present"] & over,
            "nan": special & fractional,
            "inf": special & ~fractional,
        }

    def _align(self, m, operand, depth):
        """Shift right by the distance of the number below the last binade, in the second cycle.

        The record gets ``fixed``, with the p bits of the element on top, ``sticky``, and ``high``,
        which is D - d; ``beyond`` is passed on.
        """
        significand = operand["significand"]
        width = max(len(significand), self._precision + self._drawn_bits + 1)
        depths = [c.format.depth for c in self._classes]
        finite = operand["finite"] & operand["present"]
        deep = operand["deep"].as_signed()
        shift = Signal(range(width + 1))
        above = Signal(range(max(depths) + 1))
        far = Signal()  # the shift leaves no bit
        with m.If(deep < 0):
            m.d.comb += above.eq(Mux(operand["beyond"], depth, -deep))
        with m.Else():
            m.d.comb += [shift.eq(deep), far.eq(deep[len(shift) :].any())]
        shifted = Signal(width)
        pad = width - len(significand)
        m.d.comb += shifted.eq(Cat(Const(0, pad), significand) >> shift)
        # Bits lost by the shift, found in parallel with the shift.
        lost = Cat(bit & (shift > pad + n) for n, bit in enumerate(significand))
        fixed = Signal(width)
        sticky = Signal()
        high = Signal(range(max(depths) + 1))
        m.d.sync += [
            fixed.eq(Mux(finite & ~far, shifted, 0)),
            sticky.eq(finite & (far | lost.any() | operand["sticky"])),
            high.eq(Mux(finite, above, 0)),
        ]
        flags = ("sign", "finite", "present", "poisoned", "nan", "inf", "random", "beyond")
        delayed = {name: delay(m, operand[name], f"{name}_aligned") for name in flags}
        return delayed | {"fixed": fixed, "sticky": sticky, "high": high}

    def _round(self, m, cls, aligned, result, saturated, underflowed):
        """Round to the class's code, limit the code and attach the sign, in the third cycle."""
        chosen = self._classes[cls]
        kind, bits = chosen.format, self._drawn_bits
        fixed, sticky, missing = self._narrowed(m, cls, aligned)
        truncated, below = fixed[-kind.precision :], fixed[: -kind.precision]
        fraction, rest = below[-(bits + 1) :], below[: -(bits + 1)].any() | sticky
        rounded = Signal(kind.magnitude_bits + 1, name=f"rounded{cls}")
        up = rounds_up(chosen.rounding, truncated[0], fraction, rest, aligned["random"], bits)
        high = aligned["high"] << (kind.precision - 1) if kind.depth else Const(0)
        m.d.comb += rounded.eq(high + truncated + up)

        largest = kind.max_code >> missing if kind.planes else kind.max_code
        overflow = self.numerics.overflow_code(CLASS_NAMES[cls])
        poison = self.numerics.special == "poison" and kind.nan_code is not None
        code = Signal(kind.magnitude_bits, name=f"code{cls}")
        above = Signal(name=f"above{cls}")
        m.d.comb += above.eq(aligned["beyond"] | (rounded > largest))
        m.d.comb += code.eq(Mux(above, largest if overflow is None else overflow, rounded))
        if poison:
            with m.If(aligned["nan"]):
                m.d.comb += code.eq(kind.nan_code)
            with m.If(aligned["inf"]):
                m.d.comb += code.eq(kind.overflow_code)
        else:
            with m.If(aligned["inf"] & aligned["present"]):
                m.d.comb += code.eq(largest)
        signed_ = code.any()
        if kind.signed_zero:
            signed_ = ~aligned["poisoned"] & (Const(int(poison)) | ~aligned["nan"])
        if self.numerics.chooses_widths:
            low = Const(0, len(result) - 1 - kind.magnitude_bits)
            code = Cat(low, (code << missing)[: kind.magnitude_bits])
        m.d.comb += [
            result.eq(Cat(code, aligned["sign"] & signed_)),
            saturated.eq(above),
            underflowed.eq(aligned["finite"] & ~aligned["poisoned"] & ~code.any()),
        ]

    def _narrowed(self, m, cls, aligned):
        """Return the value to round, shifted until the requested bits are the lowest of the p bits
        on top; whether nonzero bits were lost; and the length of the shift."""
        kind, fixed = self._classes[cls].format, aligned["fixed"]
        if not kind.planes:
            return fixed, aligned["sticky"], Const(0, 1)
        moved = Signal.like(fixed, name=f"moved{cls}")
        lost = Signal(name=f"lost{cls}")
        missing = Signal(range(kind.precision), name=f"narrower{cls}")
        with m.Switch(self.planes):
            for width in self.numerics.widths:
                by = kind.precision - width
                with m.Case(width // PLANE_BITS - 1):
                    m.d.comb += [moved.eq(fixed >> by), missing.eq(by)]
                    m.d.comb += lost.eq(fixed[:by].any() if by else 0)
        return moved, aligned["sticky"] | lost, missing

    def _monitor(self, m, aligned):
        """Compute magnitudes of both widths, whatever the rounding of the class, and their
        difference."""
        fixed = aligned["fixed"]
        rounded = {}
        for bits in (4, 2):
            truncated, below = fixed[-bits:], fixed[:-bits]
            rest = below[:-1].any() | aligned["sticky"]
            sum_ = Signal(bits + 1, name=f"monitored{bits}")
            m.d.comb += sum_.eq(truncated + (below[-1] & (rest | truncated[0])))
            largest = sum_[bits] | aligned["beyond"] | (aligned["inf"] & aligned["present"])
            rounded[bits] = sum_[:bits] | largest.replicate(bits)
        wide, narrow = rounded[4], Cat(Const(0, 2), rounded[2])
        m.d.sync += [
            self.differs.eq(Mux(wide < narrow, narrow - wide, wide - narrow)),
            self.narrow.eq(rounded[2]),
        ]

    def _fold(self, m, cls, code, too_large, fold, folded, top):
        """Compute ``top`` from the code, and the code for a lowered exponent, in the fourth
        cycle."""
        kind = self._classes[cls].format
        m.d.comb += folded.eq(code)
        if not self._folds[cls]:
            return
        low_bits = kind.precision - 1
        magnitude = code[: kind.magnitude_bits]
        field, low = magnitude[low_bits:], magnitude[:low_bits]
        normal = field.any()
        one_less = low.all() if kind.specials == "nan" else Const(0)
        counts = magnitude.any() & (magnitude <= kind.max_code)
        by = Signal(range(kind.depth + 2), name=f"by{cls}")
        m.d.comb += by.eq(kind.depth + 1 - fold)
        missing = Signal(range(kind.precision + 1), name=f"missing{cls}")
        for bit in range(low_bits):  # the highest bit set decides: the last assignment wins
            with m.If(~normal & low[bit]):
                m.d.comb += missing.eq(low_bits - bit)
        up = Signal(range(kind.precision + 1), name=f"up{cls}")
        m.d.comb += up.eq(Mux(missing < by, missing, by))
        lower = ((by - up) << low_bits) + Mux(normal, magnitude, low << up)
        with m.If(counts):
            m.d.comb += top.eq(Mux(normal, field + one_less, 1))
            m.d.comb += folded.eq(Cat(lower[: kind.magnitude_bits], code[kind.magnitude_bits :]))
        if self.numerics.overflow_code(CLASS_NAMES[cls]) is not None:  # stored as Inf or NaN
            with m.If(too_large):
                m.d.comb += top.eq(kind.depth + 1)


def delay(m, value, name, cycles=1):
    """Return ``value`` behind ``cycles`` registers, whose names begin with ``name``."""
    for cycle in range(cycles):
        later = Signal(len(value), name=f"{name}_late{cycle + 1}")
        m.d.sync += later.eq(value)
        value = later
    return value
