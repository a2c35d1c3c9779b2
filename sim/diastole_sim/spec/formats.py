"""Number formats, as objects for the converter, the cell, the memory plan and the model.

One description covers all formats. A group of elements shares an exponent e, and an element is
(-1)^s * sig * 2^(e - d - p + 1). sig has p bits, a hidden bit included. d, 0 to D, is the distance
of the element's own exponent below the group's exponent. Block floating point has D = 0; subnormals
of minifloats are at d = D. A magnitude code is then one integer, ((D - d) << (p - 1)) + sig. The
code grows with the magnitude, so rounding may carry from sig into d.

A new format is one line in ``_named`` (or none, if ``e<E>m<M>`` covers the format), and nothing
more.
"""

import re
from dataclasses import dataclass, replace

from diastole_sim.spec.require import require_choice, require_int

EXPONENT_BIAS = 127
"""Stored exponent of a group minus the exponent, as in binary32. A stored 0 is a group of zeros."""
NAN_EXPONENT = 255
"""Stored exponent of a group that is not a number (as in E8M0)."""
MAX_EXPONENT = 127
"""Largest exponent of a group. Elements that would need a larger exponent saturate."""
SIGNIFICAND_FRACTION = 3
"""Fraction bits of an NVFP4 scale's 4-bit significand."""
SCALE_SIGNIFICAND_BITS = SIGNIFICAND_FRACTION + 1
"""Bits of an E4M3 scale's significand, the hidden bit included."""
BINARY32_SIGNIFICAND_BITS = 24
"""Bits of a float32's significand, the hidden bit included."""
TWO_LEVEL_LARGEST, TWO_LEVEL_EXPONENT = 21, 11
"""Largest magnitude of an NVFP4 tensor with a scale of 1: 448 * 6 = 2688 = 21/16 * 2^11."""
FOUR_OVER_SIX_LARGEST, FOUR_OVER_SIX_EXPONENT = 24, 10
"""Largest magnitude of an NVFP4 tensor with a scale of 1 if a group's scale may be half as large
again: 256 * 6 = 1536 = 24/16 * 2^10."""
SCALE_RULES = ("floor", "even", "ceil", "rceil")
"""Rules for an exponent from the largest magnitude."""
PLANE_SCALE_RULES = ("floor", "ceil")
"""Scale rules whose exponent does not depend on the bits of a magnitude."""
PLANE_BITS = 2
"""Bits of a chunk of a magnitude in a plane, without the sign."""
FOUR_OVER_SIX = "four-over-six"
"""Rule under which a group's largest magnitude becomes 6, or 4 if the error is smaller then."""
SCALE_CODE_RULES = ("nearest", "up", FOUR_OVER_SIX)
"""Rules for an E4M3 scale from the largest magnitude (NVFP4)."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """Storage format of elements, and the kind of scale of a group.

    - ``exponent_bits``: E, 0 in block floating point.
    - ``fraction_bits``: stored bits below the exponent. p is ``fraction_bits`` in block floating
      point, else one more.
    - ``specials``: meaning of the highest codes: ``none`` (all finite), ``nan`` (all ones is NaN,
      as in OFP8 E4M3), ``ieee`` (Inf and NaN).
    - ``scale``: ``exponent`` (the group's exponent, kept as a byte), ``e8m0`` (OCP MX), ``power``
      (a power of two), ``one`` (bf16), ``e4m3`` (NVFP4: a minifloat per group times a power of two
      per tensor).
    - ``groupings``: accepted kinds of :class:`Grouping`, the default first.
    - ``group``: default length of a vector group, None if the default follows from the block side.
    - ``planes``: true if the bits of a magnitude are chosen at every conversion. An element is then
      stored as a chunk of ``PLANE_BITS`` bits in each plane, with the sign. ``fraction_bits`` are
      the bits of one plane, and after a conversion (:meth:`at_width`) the chosen bits.
    """

    name: str
    exponent_bits: int
    fraction_bits: int
    specials: str
    scale: str
    groupings: tuple[str, ...]
    group: int | None = None
    planes: bool = False

    def __post_init__(self) -> None:
        require_int("exponent_bits", self.exponent_bits, 0, 8)
        require_int("fraction_bits", self.fraction_bits, 0 if self.exponent_bits else 1, 8)
        require_choice("specials", self.specials, ("none", "nan", "ieee"))
        require_choice("scale", self.scale, ("exponent", "e8m0", "power", "one", "e4m3"))

    # Elements.

    @property
    def element_bits(self) -> int:
        """Bits of a stored element: the magnitude code, and the sign above."""
        return self.magnitude_bits + 1

    @property
    def image_bits(self) -> int:
        """Bits of an element in an image; bits of one plane if the format has planes."""
        return PLANE_BITS + 1 if self.planes else self.element_bits

    @property
    def magnitude_bits(self) -> int:
        """Bits of a magnitude code."""
        return self.exponent_bits + self.fraction_bits

    @property
    def precision(self) -> int:
        """p: bits of a significand, the hidden bit included."""
        return self.fraction_bits + bool(self.exponent_bits)

    @property
    def depth(self) -> int:
        """D: binades below the top binade."""
        return self.top_exponent - (1 - self.bias) if self.exponent_bits else 0

    @property
    def bias(self) -> int:
        """Bias of an element's exponent field."""
        return 2 ** (self.exponent_bits - 1) - 1 if self.exponent_bits else 0

    @property
    def top_exponent(self) -> int:
        """emax: exponent of the largest element with a scale of 1."""
        if not self.exponent_bits:
            return 0
        return 2**self.exponent_bits - 1 - self.bias - (self.specials == "ieee")

    @property
    def max_code(self) -> int:
        """Largest finite magnitude code."""
        if self.specials == "ieee":
            return ((2**self.exponent_bits - 1) << self.fraction_bits) - 1
        return 2**self.magnitude_bits - 1 - (self.specials == "nan")

    @property
    def overflow_code(self) -> int | None:
        """Magnitude code of a number that is too large and may not saturate: Inf or NaN. None if
        the format has neither.

        Codes above ``max_code`` are NaN, except Inf in ``ieee``.
        """
        return None if self.specials == "none" else self.max_code + 1

    @property
    def must_saturate(self) -> str | None:
        """Reason why no specification of the format turns a number beyond the largest into Inf or
        NaN. None for the formats of OFP8 and bfloat16, whose specifications do."""
        if self.scale == "e8m0":
            return f"the standard MX v1.0 (6.3) saturates at the largest element of {self.name}"
        return f"{self.name} has neither Inf nor NaN" if self.overflow_code is None else None

    @property
    def nan_code(self) -> int | None:
        """Magnitude code of NaN: the quiet NaN without payload. None if the format has no NaN."""
        if self.specials == "ieee":
            return self.max_code + 1 | 1 << (self.fraction_bits - 1)
        return self.overflow_code

    @property
    def max_significand(self) -> int:
        """sig of the largest element, p bits: the element is sig * 2^(emax - p + 1)."""
        if not self.exponent_bits:
            return self.max_code
        return 2**self.fraction_bits | self.max_code & 2**self.fraction_bits - 1

    def at_width(self, width: int) -> "Format":
        """Return a format of planes as stored after a conversion to ``width`` bits of magnitude."""
        return replace(self, fraction_bits=width)

    @property
    def plane_count(self) -> int:
        """Number of planes of an element; 1 in a format without planes. The first plane has the top
        bits."""
        return self.fraction_bits // PLANE_BITS if self.planes else 1

    @property
    def signed_zero(self) -> bool:
        """True if a zero keeps its sign. Block floating point and MXINT8 have one zero."""
        return self.exponent_bits > 0

    # Scales.

    @property
    def two_level(self) -> bool:
        """True if groups have scales that are numbers of their own, below a scale of the tensor."""
        return self.scale == "e4m3"

    @property
    def nan_byte(self) -> int:
        """Stored exponent of a group that is not a number."""
        if not self.two_level:
            return NAN_EXPONENT
        assert SCALE_FORMAT.nan_code is not None
        return SCALE_FORMAT.nan_code

    @property
    def scale_offset(self) -> int:
        """Offset between the exponent field of an NVFP4 scale and the exponent of the group's top
        binade, for a tensor's scale of 1. The offset is subtracted from the field."""
        return SCALE_FORMAT.bias - self.top_exponent

    @property
    def tensor_scale_bias(self) -> int:
        """Bias of a tensor's scale in a command. The bias is added to the exponent of the top
        binade, in NVFP4 to T. In NVFP4 the resulting byte is the stored exponent of the top binade,
        too."""
        return EXPONENT_BIAS + (TWO_LEVEL_EXPONENT if self.two_level else 0)

    @property
    def tensor_exponents(self) -> tuple[int, int]:
        """Smallest and largest exponent of a tensor's scale, from the smallest to the largest
        binary32: the exponent of the top binade, or T of NVFP4."""
        largest = MAX_EXPONENT + EXPONENT_BIAS + self.two_level
        return 1 - self.tensor_scale_bias, largest - self.tensor_scale_bias

    @property
    def unit_exponent(self) -> int:
        """Exponent of a tensor's scale of 1: the exponent of the top binade, or T of NVFP4."""
        return 0 if self.two_level else self.top_exponent

    @property
    def scale_rules(self) -> tuple[str, ...]:
        """Scale rules to choose from; none if the scale is fixed."""
        if self.planes:
            return PLANE_SCALE_RULES
        return {"one": (), "e4m3": SCALE_CODE_RULES}.get(self.scale, SCALE_RULES)

    @property
    def default_scale_rule(self) -> str:
        """Default scale rule: ``rceil`` for a scale that is a power of two of its own, as CUDA's
        libraries and MLX store MX formats; ``floor`` in block floating point."""
        defaults = {"one": "fixed", "e4m3": "nearest", "exponent": "floor"}
        return defaults.get(self.scale, "rceil")

    @property
    def lowest_exponent(self) -> int:
        """Smallest exponent of a group. Below this exponent the group becomes a group of zeros.

        E8M0 scales are kept from 2^-126 on, so a stored 0 is free for zeros.
        """
        return -126 + (self.top_exponent if self.scale == "e8m0" else 0)

    def default_grouping(self, block: int, tensor_class: str) -> "Grouping":
        """Return the default grouping of a class of tensors."""
        if self.groupings[0] == "tensor":
            return Grouping(kind="tensor")
        if self.group is None:
            return Grouping(kind="square", size=block)
        if self.two_level and tensor_class == "w":
            return Grouping(kind="square", size=max(self.group, block))
        return Grouping(kind="vector", size=max(self.group, block))


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """Elements that share a scale.

    ``square``: ``size`` x ``size``. ``vector``: 1 x ``size`` along the contraction of the product
    that reads the elements, so a tensor has two quantised copies. ``tensor``: all elements; the
    stored exponents belong to blocks. ``size``: a power of two, 1 to 128, at least the block side.
    """

    kind: str
    size: int = 0

    def __post_init__(self) -> None:
        require_choice("grouping", self.kind, ("square", "vector", "tensor"))
        if self.kind != "tensor":
            require_choice("group size", self.size, GROUP_SIZES)

    def __str__(self) -> str:
        side = {"square": f"{self.size}x", "vector": "1x", "tensor": "tensor"}[self.kind]
        return side + (str(self.size) if self.size else "")


GROUP_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
"""Sides of squares and lengths of vector groups."""
_GROUPS = re.compile("([1-9][0-9]{0,9})x([1-9][0-9]{0,9})")


def parse_grouping(text: object) -> Grouping:
    """Return the grouping in a text ``"8x8"``, ``"1x16"`` or ``"tensor"``; ``"1x1"`` is a square.
    ValueError for any different text."""
    match = _GROUPS.fullmatch(text) if isinstance(text, str) else None
    if text == "tensor":
        return Grouping(kind="tensor")
    if match is None or match[1] not in ("1", match[2]):
        raise ValueError(
            f'grouping must be "8x8" (squares), "1x16" (vectors) or "tensor", not {text!r}'
        )
    return Grouping(kind="square" if match[1] == match[2] else "vector", size=int(match[2]))


def _named() -> dict[str, Format]:
    squares, anything = ("square", "vector"), ("tensor", "square", "vector")

    def one(
        name: str,
        e: int,
        f: int,
        specials: str,
        scale: str,
        groupings: tuple[str, ...] = squares,
        group: int | None = None,
    ) -> Format:
        return Format(
            name=name,
            exponent_bits=e,
            fraction_bits=f,
            specials=specials,
            scale=scale,
            groupings=groupings,
            group=group,
        )

    formats = [one(f"bfp{m}", 0, m, "none", "exponent") for m in range(1, 9)]
    formats += [
        one("fp8_e4m3", 4, 3, "nan", "power", anything),
        one("fp8_e5m2", 5, 2, "ieee", "power", anything),
        one("bf16", 8, 7, "ieee", "one", ("tensor",)),
        one("mxint8", 0, 7, "none", "e8m0", group=32),
        one("mxfp8_e4m3", 4, 3, "nan", "e8m0", group=32),
        one("mxfp8_e5m2", 5, 2, "ieee", "e8m0", group=32),
        one("mxfp6_e3m2", 3, 2, "none", "e8m0", group=32),
        one("mxfp6_e2m3", 2, 3, "none", "e8m0", group=32),
        one("mxfp4_e2m1", 2, 1, "none", "e8m0", group=32),
        one("nvfp4", 2, 1, "none", "e4m3", group=16),
    ]
    return {each.name: each for each in formats}


FORMATS = _named()
NVFP4 = FORMATS["nvfp4"]
"""The format with two levels of scales."""
SCALE_FORMAT = FORMATS["fp8_e4m3"]
"""Format of NVFP4's scales of groups, without signs."""
FORMAT_NAMES = tuple(FORMATS)
"""Names of formats in the order of a message, which adds ``e<E>m<M>``."""
FAST = replace(FORMATS["bfp2"], name="fast", planes=True)
"""Block floating point whose width is chosen at every conversion (Zhang, McDanel, Kung: FAST, HPCA
2022). Not a member of ``FORMATS``, whose elements have a fixed width."""
GENERIC = r"e([2-5])m([1-5])"
"""Minifloats of up to 8 bits: bias 2^(E-1) - 1, subnormals, every code finite."""


def parse_format(name: object) -> Format:
    """Return the format called ``name``: a member of ``FORMAT_NAMES``, ``fast``, or ``e<E>m<M>``
    with E in 2..5, M in 1..5 and 1 + E + M at most 8. ValueError for any different name; the
    message lists the known names."""
    match = re.fullmatch(GENERIC, name) if isinstance(name, str) else None
    if isinstance(name, str) and name in FORMATS:
        return FORMATS[name]
    if name == FAST.name:
        return FAST
    if match is None or 1 + int(match[1]) + int(match[2]) > 8:
        require_choice("format", name, (*FORMAT_NAMES, "e<E>m<M>"))
    assert match is not None
    return Format(
        name=match[0],
        exponent_bits=int(match[1]),
        fraction_bits=int(match[2]),
        specials="none",
        scale="power",
        groupings=("tensor", "square", "vector"),
    )


def exact_product_bits(a: Format, b: Format) -> int:
    """Return w at which no product of two elements loses a bit: pA + pB + DA + DB."""
    return a.precision + b.precision + a.depth + b.depth


def default_product_bits(a: Format, b: Format) -> int:
    """Return the default w: exact up to 18 bits, else a window of 16, or of 24 if both operands
    have five exponent bits or one has eight."""
    exact = exact_product_bits(a, b)
    if exact <= 18:
        return exact
    exponents = sorted((a.exponent_bits, b.exponent_bits))
    return min(exact, 24 if exponents[0] >= 5 or exponents[1] >= 8 else 16)
