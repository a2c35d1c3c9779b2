"""Number formats, as objects that the converter, the cell, the memory plan and the model ask.

One description covers them all. A group of elements shares an exponent e, and an element is
(-1)^s * sig * 2^(e - d - p + 1): sig has p bits, a hidden one included, and d, 0 to D, is how far
the element's own exponent lies below the group's. Block floating point has D = 0; subnormals of
minifloats are at d = D. A magnitude code is then one integer, ((D - d) << (p - 1)) + sig, which
grows with the magnitude, so that rounding may carry from sig into d.

To add a format: one line in ``_named`` (or none, if ``e<E>m<M>`` has it), and nothing else.
"""

import re
from dataclasses import dataclass, replace

from diastole_sim.spec.require import require_choice, require_int

EXPONENT_BIAS = 127
"""Stored exponent of a group minus its exponent, as in binary32; a stored 0 is a group of zeros."""
NAN_EXPONENT = 255
"""Stored exponent of a group that is not a number (E8M0 has the same)."""
MAX_EXPONENT = 127
"""Of a group; what would need more saturates."""
SIGNIFICAND_FRACTION = 3
"""Fraction bits of an NVFP4 scale's 4-bit significand."""
SCALE_SIGNIFICAND_BITS = SIGNIFICAND_FRACTION + 1
"""Of an E4M3 scale's significand, the hidden bit included."""
BINARY32_SIGNIFICAND_BITS = 24
"""Of a float32, the hidden bit included."""
TWO_LEVEL_LARGEST, TWO_LEVEL_EXPONENT = 21, 11
"""Largest magnitude of an NVFP4 tensor whose scale is 1: 448 * 6 = 2688 = 21/16 * 2^11."""
FOUR_OVER_SIX_LARGEST, FOUR_OVER_SIX_EXPONENT = 24, 10
"""The same where a group's scale may be half as large again: 256 * 6 = 1536 = 24/16 * 2^10."""
SCALE_RULES = ("floor", "even", "ceil", "rceil")
"""How an exponent follows from the largest magnitude."""
PLANE_SCALE_RULES = ("floor", "ceil")
"""Those by which it does not depend on how many bits a magnitude has."""
PLANE_BITS = 2
"""Of a magnitude's chunk, as a plane stores it; the sign comes to them."""
FOUR_OVER_SIX = "four-over-six"
"""The rule by which a group's largest magnitude becomes 6, or 4 where the error is smaller then."""
SCALE_CODE_RULES = ("nearest", "up", FOUR_OVER_SIX)
"""How an E4M3 scale does (NVFP4)."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """A storage format of elements, and the kind of scale that its groups have.

    ``exponent_bits``: E, 0 in block floating point. ``fraction_bits``: stored bits below them;
    there p = ``fraction_bits``, else p is one more. ``specials``: what the highest codes are:
    ``none`` (all finite), ``nan`` (all ones is NaN, as in OFP8 E4M3), ``ieee`` (Inf and NaN).
    ``scale``: ``exponent`` (the group's exponent, kept as a byte), ``e8m0`` (OCP MX), ``power``
    (a power of two), ``one`` (bf16), ``e4m3`` (NVFP4: a minifloat per group times a power of two
    per tensor). ``groupings``: the kinds of :class:`Grouping` that it takes, the default first;
    ``group``: default length of a vector group, None where the default follows from the block side.
    ``planes``: the bits of a magnitude are chosen at every conversion, and an element is stored as
    a chunk of ``PLANE_BITS`` of them in each of its planes, with the sign; ``fraction_bits`` are
    those of one plane, and of a converted tensor (:meth:`at_width`) those that were chosen.
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
        """Bits of a stored element: the magnitude code, and the sign above it."""
        return self.magnitude_bits + 1

    @property
    def image_bits(self) -> int:
        """Bits of an element in an image: of one plane, where there are planes."""
        return PLANE_BITS + 1 if self.planes else self.element_bits

    @property
    def magnitude_bits(self) -> int:
        """Bits of a magnitude code."""
        return self.exponent_bits + self.fraction_bits

    @property
    def precision(self) -> int:
        """p: bits of a significand, the hidden one included."""
        return self.fraction_bits + bool(self.exponent_bits)

    @property
    def depth(self) -> int:
        """D: binades below the top one."""
        return self.top_exponent - (1 - self.bias) if self.exponent_bits else 0

    @property
    def bias(self) -> int:
        """Of an element's exponent field."""
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
        """Magnitude code of what is too large, if it may not saturate: Inf, or NaN; None: neither.

        Codes above ``max_code`` are NaN, but for Inf in ``ieee``.
        """
        return None if self.specials == "none" else self.max_code + 1

    @property
    def must_saturate(self) -> str | None:
        """Why no specification of the format makes Inf or NaN of a number beyond the largest; None
        where one does: OFP8's, and that of bfloat16."""
        if self.scale == "e8m0":
            return f"MX v1.0 (6.3) clamps to the largest element of {self.name}"
        return f"{self.name} has neither Inf nor NaN" if self.overflow_code is None else None

    @property
    def nan_code(self) -> int | None:
        """A magnitude code of NaN: the quiet one without payload; None if there is none."""
        if self.specials == "ieee":
            return self.max_code + 1 | 1 << (self.fraction_bits - 1)
        return self.overflow_code

    @property
    def max_significand(self) -> int:
        """sig of the largest element, p bits: it is sig * 2^(emax - p + 1)."""
        if not self.exponent_bits:
            return self.max_code
        return 2**self.fraction_bits | self.max_code & 2**self.fraction_bits - 1

    def at_width(self, width: int) -> "Format":
        """A format of planes as a conversion to ``width`` bits of magnitude has it."""
        return replace(self, fraction_bits=width)

    @property
    def plane_count(self) -> int:
        """Planes in which an element is stored, the top bits first; 1 in other formats."""
        return self.fraction_bits // PLANE_BITS if self.planes else 1

    @property
    def signed_zero(self) -> bool:
        """Whether a zero keeps its sign; block floating point and MXINT8 have one zero."""
        return self.exponent_bits > 0

    # Scales.

    @property
    def two_level(self) -> bool:
        """Whether groups have scales that are numbers of their own, below one of the tensor."""
        return self.scale == "e4m3"

    @property
    def nan_byte(self) -> int:
        """The stored exponent of a group that is not a number."""
        if not self.two_level:
            return NAN_EXPONENT
        assert SCALE_FORMAT.nan_code is not None
        return SCALE_FORMAT.nan_code

    @property
    def scale_offset(self) -> int:
        """What is to be taken from an NVFP4 scale's exponent field to have that of its group's top
        binade, for a tensor's scale of 1."""
        return SCALE_FORMAT.bias - self.top_exponent

    @property
    def tensor_scale_bias(self) -> int:
        """Of a tensor's scale in a command: added to the exponent of its top binade; in NVFP4 to T,
        and then the byte is that of the top binade, too."""
        return EXPONENT_BIAS + (TWO_LEVEL_EXPONENT if self.two_level else 0)

    @property
    def tensor_exponents(self) -> tuple[int, int]:
        """Smallest and largest exponent of a tensor's scale: of its top binade, or T of NVFP4, from
        that of the smallest to that of the largest binary32."""
        largest = MAX_EXPONENT + EXPONENT_BIAS + self.two_level
        return 1 - self.tensor_scale_bias, largest - self.tensor_scale_bias

    @property
    def unit_exponent(self) -> int:
        """The exponent of a tensor's scale of 1: of its top binade, or T of NVFP4."""
        return 0 if self.two_level else self.top_exponent

    @property
    def scale_rules(self) -> tuple[str, ...]:
        """The rules that may be chosen, none where the scale is fixed."""
        if self.planes:
            return PLANE_SCALE_RULES
        return {"one": (), "e4m3": SCALE_CODE_RULES}.get(self.scale, SCALE_RULES)

    @property
    def default_scale_rule(self) -> str:
        """What is taken if nothing is said: ``rceil`` where a scale is a power of two of its own,
        as CUDA's libraries and MLX store MX formats; ``floor`` in block floating point."""
        defaults = {"one": "fixed", "e4m3": "nearest", "exponent": "floor"}
        return defaults.get(self.scale, "rceil")

    @property
    def lowest_exponent(self) -> int:
        """Smallest exponent of a group; below it the group is one of zeros.

        E8M0 scales are kept from 2^-126 on, so that a stored 0 is free.
        """
        return -126 + (self.top_exponent if self.scale == "e8m0" else 0)

    def default_grouping(self, block: int, tensor_class: str) -> "Grouping":
        """What a class of tensor is grouped by if nothing is said."""
        if self.groupings[0] == "tensor":
            return Grouping(kind="tensor")
        if self.group is None:
            return Grouping(kind="square", size=block)
        if self.two_level and tensor_class == "w":
            return Grouping(kind="square", size=max(self.group, block))
        return Grouping(kind="vector", size=max(self.group, block))


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """Which elements share a scale.

    ``square``: ``size`` x ``size``. ``vector``: 1 x ``size`` along the contraction of the product
    that reads them, so there are two quantised copies. ``tensor``: all; the stored exponents are
    those of blocks. ``size``: a power of two, 1 to 128, at least the block side.
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
    """``"8x8"``, ``"1x16"`` or ``"tensor"``; ``"1x1"`` is a square. ValueError for another text."""
    found = _GROUPS.fullmatch(text) if isinstance(text, str) else None
    if text == "tensor":
        return Grouping(kind="tensor")
    if found is None or found[1] not in ("1", found[2]):
        raise ValueError(
            f'grouping must be "8x8" (squares), "1x16" (vectors) or "tensor", not {text!r}'
        )
    return Grouping(kind="square" if found[1] == found[2] else "vector", size=int(found[2]))


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
"""The format of two levels of scales."""
SCALE_FORMAT = FORMATS["fp8_e4m3"]
"""Of NVFP4's scales of groups, without their signs."""
FORMAT_NAMES = tuple(FORMATS)
"""Every name, in the order in which a message lists them; ``e<E>m<M>`` comes to them."""
FAST = replace(FORMATS["bfp2"], name="fast", planes=True)
"""Block floating point whose width is chosen at every conversion (Zhang, McDanel, Kung: FAST,
HPCA 2022). Not among ``FORMATS``, whose elements have one width each."""
GENERIC = r"e([2-5])m([1-5])"
"""Minifloats of up to 8 bits: bias 2^(E-1) - 1, subnormals, every code finite."""


def parse_format(name: object) -> Format:
    """The format called ``name``: one of ``FORMAT_NAMES``, or ``e<E>m<M>`` with E in 2..5, M in
    1..5 and 1 + E + M at most 8. ValueError lists what is known."""
    found = re.fullmatch(GENERIC, name) if isinstance(name, str) else None
    if isinstance(name, str) and name in FORMATS:
        return FORMATS[name]
    if name == FAST.name:
        return FAST
    if found is None or 1 + int(found[1]) + int(found[2]) > 8:
        require_choice("format", name, (*FORMAT_NAMES, "e<E>m<M>"))
    assert found is not None
    return Format(
        name=found[0],
        exponent_bits=int(found[1]),
        fraction_bits=int(found[2]),
        specials="none",
        scale="power",
        groupings=("tensor", "square", "vector"),
    )


def exact_product_bits(a: Format, b: Format) -> int:
    """w at which no product of two elements loses a bit: pA + pB + DA + DB."""
    return a.precision + b.precision + a.depth + b.depth


def default_product_bits(a: Format, b: Format) -> int:
    """w if nothing is said: exact up to 18 bits, else a window of 16, or of 24 where both operands
    have five exponent bits or one has eight."""
    exact = exact_product_bits(a, b)
    if exact <= 18:
        return exact
    exponents = sorted((a.exponent_bits, b.exponent_bits))
    return min(exact, 24 if exponents[0] >= 5 or exponents[1] >= 8 else 16)
