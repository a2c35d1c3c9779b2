"""Parameters that decide the bits of a result: formats, groups, scales, roundings, block,
accumulator."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

from diastole_sim.spec.accumulator import FloatAccumulator
from diastole_sim.spec.formats import (
    Format,
    Grouping,
    default_product_bits,
    exact_product_bits,
    parse_format,
    parse_grouping,
)
from diastole_sim.spec.lfsr import DEFAULT_LFSR_BITS, PAIR_LFSR_BITS, taps_of
from diastole_sim.spec.require import require_choice, require_int
from diastole_sim.spec.rounding import KINDS, MAX_RANDOM_BITS, RANDOM_BITS, ROW_KINDS, RULES

BLOCK_SIDES = (1, 2, 4, 8, 16, 32)
CLASS_NAMES = ("x", "w", "dy")
"""Tensor classes: activations, weights, gradients. The number of a class is its index in this
tuple."""
MAX_ACCUMULATOR_BITS = 63
OVERFLOWS = ("saturate", "specification")
"""Treatments of a finite value beyond the largest element: the value becomes the largest element,
or the Inf or NaN of the format's specification."""
SPECIALS = ("flag", "poison")
"""Treatments of NaN and Inf. With ``flag``, 0 and the largest element are stored and a flag is set.
With ``poison``, NaN and Inf are stored, and every result that they reach is NaN. The Inf or NaN of
an overflow becomes the largest element under ``flag``."""
WIDTHS = (2, 4, 6, 8)
"""Possible bits of a magnitude in a format of planes."""
DEFAULT_WIDTHS = (2, 4)
SOURCES = ("current", "delayed", "host")
"""Sources of a tensor's scale: the data, the data in steps before, or the host."""
MAX_HISTORY = 1024
"""Most steps before whose tensors give a ``delayed`` scale."""
MAX_MARGIN = 15
"""Most binades by which a ``delayed`` scale is raised."""
MIN_WINDOW, MAX_WINDOW = 8, 48


@dataclass(frozen=True, kw_only=True)
class TensorClass:
    """Storage and rounding of the tensors of one class.

    ``rounding`` is a key of ``RULES``. ``scale`` is a member of the format's ``scale_rules``, or
    ``fixed`` if the format has none. ``overflow`` is a member of ``OVERFLOWS``. ValueError if the
    values do not go together.
    """

    format: Format
    rounding: str
    grouping: Grouping
    scale: str
    overflow: str = "saturate"

    def __post_init__(self) -> None:
        require_choice("rounding", self.rounding, tuple(RULES))
        require_choice("overflow", self.overflow, OVERFLOWS)
        require_choice(f"grouping of {self.format.name}", self.grouping.kind, self.format.groupings)
        require_choice(
            f"scale of {self.format.name}", self.scale, self.format.scale_rules or ("fixed",)
        )

    @property
    def two_copies(self) -> bool:
        """True if a tensor has a copy for each axis: groups along the rows, and groups down the
        columns."""
        return self.grouping.kind == "vector"

    @property
    def has_tensor_scale(self) -> bool:
        """True if a scale belongs to the whole tensor (in NVFP4 beside the scales of groups)."""
        return self.format.two_level or (
            self.grouping.kind == "tensor" and self.format.scale != "one"
        )


@dataclass(frozen=True, kw_only=True)
class Numerics:
    """Parameters of a result besides the tensors, their tags, the seed and the step.

    - ``block``: side of a block, 1 to 32, a power of two.
    - ``x``, ``w``, ``dy``: tensor classes.
    - ``random_bits``: bits of a stochastic rounding's draw (1..24, fewer for most kinds).
    - ``rounding_kind``: source of draws, a member of ``KINDS``.
    - ``lfsr_bits``: bits of the register of the kind ``lfsr`` (3..24, at least ``random_bits``).
    - ``fraction``: F, bits kept below the unit of an aligned block sum (0..32).
    - ``headroom``: G, up to 2^G blocks are summed (1..16).
    - ``window``: bits of a product at the entry of its adder tree (8..48), 0 for no rounding there,
      None for the default.
    - ``special``, ``source``: members of ``SPECIALS`` and ``SOURCES``.
    - ``history``, ``margin``: for a ``delayed`` scale, number of steps before that count (1..1024),
      and powers of two by which the scale is raised (0..15).
    - ``widths``: members of ``WIDTHS``, ascending, to which a class of format ``fast`` may be
      converted.
    - ``accumulator``: None for integers, or the floats in which chunks are added.

    ValueError if a value is out of range, or if values do not go together (:func:`contradictions`).
    """

    block: int
    x: TensorClass
    w: TensorClass
    dy: TensorClass
    random_bits: int
    fraction: int
    headroom: int
    window: int | None = None
    special: str = "flag"
    source: str = "current"
    history: int = 1
    margin: int = 0
    widths: tuple[int, ...] = DEFAULT_WIDTHS
    rounding_kind: str = KINDS[0]
    lfsr_bits: int = DEFAULT_LFSR_BITS
    accumulator: FloatAccumulator | None = None

    def __post_init__(self) -> None:
        require_choice("block", self.block, BLOCK_SIDES)
        require_int("random_bits", self.random_bits, 1, MAX_RANDOM_BITS)
        require_choice("rounding_kind", self.rounding_kind, KINDS)
        taps_of(self.lfsr_bits)
        require_int("fraction", self.fraction, 0, 32)
        require_int("headroom", self.headroom, 1, 16)
        if self.window:
            require_int("window", self.window, MIN_WINDOW, MAX_WINDOW)
        require_choice("special", self.special, SPECIALS)
        require_choice("source", self.source, SOURCES)
        require_int("history", self.history, 1, MAX_HISTORY)
        require_int("margin", self.margin, 0, MAX_MARGIN)
        require_widths(self.widths)
        for _, text in contradictions(self):
            raise ValueError(text)

    # Widths that are chosen at every conversion.

    @property
    def chooses_widths(self) -> bool:
        """True if a class is converted to any of ``widths``."""
        return any(self.tensor_class(name).format.planes for name in CLASS_NAMES)

    def converted_class(self, name: str, width: int | None = None) -> TensorClass:
        """Return the class for a conversion. A format of planes has ``width`` bits of magnitude,
        None for the widest. ValueError for a width unknown to the class."""
        storage = self.tensor_class(name)
        if storage.format.planes:
            bits = self.widths[-1] if width is None else width
            require_choice(f"width of {name}", bits, self.widths)
            return replace(storage, format=storage.format.at_width(bits))
        if width is not None:
            raise ValueError(
                f"width must be left out: class {name} has the format {storage.format.name}, "
                "not fast"
            )
        return storage

    def planes_of(self, name: str) -> tuple[int, ...]:
        """Return the possible numbers of planes of a tensor of a class, ascending; 1 if the format
        has no planes."""
        format = self.tensor_class(name).format
        if not format.planes:
            return (1,)
        return tuple(format.at_width(width).plane_count for width in self.widths)

    # Draws.

    @property
    def draws_by_rows(self) -> bool:
        """True if draws are states of a register that starts anew in every row."""
        return self.rounding_kind in ROW_KINDS

    @property
    def state_bits(self) -> int:
        """n: bits of the register."""
        return self.lfsr_bits if self.rounding_kind == "lfsr" else PAIR_LFSR_BITS

    # Products.

    @cached_property
    def _widest_window(self) -> int:
        return max(
            _window(self.window, a.format, b.format)
            for a, b in combinations((self.x, self.w, self.dy), 2)
        )

    def product_bits(self, a: str, b: str) -> int:
        """Return w, the width in bits at which products of two classes enter the adder tree. The
        whole machine has one w, unless no class has exponents in its elements and every product is
        exact."""
        first, second = self.tensor_class(a).format, self.tensor_class(b).format
        if any(self.tensor_class(name).format.depth for name in CLASS_NAMES):
            return self._widest_window
        return exact_product_bits(first, second)

    def is_windowed(self, a: str, b: str) -> bool:
        """Return whether a product of two classes may lose bits in the tree."""
        first, second = self.tensor_class(a).format, self.tensor_class(b).format
        return self.product_bits(a, b) < exact_product_bits(first, second)

    def folds(self, name: str) -> bool:
        """Return whether the converter folds a class, so that d counts from the largest element of
        each block.

        Folding spends a window on the binades in use. A class is folded if its exponent belongs to
        the tensor, and a product of the class is windowed. The exponent of a group lies at most one
        binade above the group's largest magnitude under any scale rule, and is not folded.
        """
        storage = self.tensor_class(name)
        others = (other for other in CLASS_NAMES if other != name)
        windowed = any(self.is_windowed(name, other) for other in others)
        return windowed and storage.format.depth > 0 and storage.grouping.kind == "tensor"

    @property
    def has_tensor_scales(self) -> bool:
        """True if a class has a scale for the whole tensor."""
        return any(self.tensor_class(name).has_tensor_scale for name in CLASS_NAMES)

    @property
    def scale_significands(self) -> bool:
        """True if the scales of groups are no powers of two (NVFP4)."""
        return self.x.format.two_level

    @property
    def block_sum_bits(self) -> int:
        """SW: bits of a two's complement register for any block sum of the three products: w + 1 +
        log2(block), and 8 more for the two scale significands of NVFP4."""
        widest = max(self.product_bits(a, b) for a, b in combinations(CLASS_NAMES, 2))
        return widest + self.block.bit_length() + 8 * self.scale_significands

    @property
    def accumulator_bits(self) -> int:
        """W: bits of an integer for any sum, sign included."""
        return self.block_sum_bits + self.fraction + self.headroom

    @property
    def chunk_sum_bits(self) -> int:
        """Bits of an integer for the sum of a chunk, with float accumulators."""
        assert self.accumulator is not None
        grown = min(self.headroom, self.accumulator.headroom(self.block))
        return self.block_sum_bits + self.fraction + grown

    @property
    def max_accumulator_bits(self) -> int:
        """Largest W. Under rounding to nearest, a chunk moves a float by at most twice the chunk's
        own sum, and the first chunk by its sum. The float stays below 2^63 if chunks have 2^i
        blocks. For chunks of any different length W must be a bit less."""
        accumulator = self.accumulator
        blocks = 1 if accumulator is None else accumulator.blocks(self.block)
        return MAX_ACCUMULATOR_BITS - (blocks & (blocks - 1) != 0)

    @property
    def max_contraction(self) -> int:
        """Longest contraction, in elements, without overflow of an accumulator."""
        return self.block << self.headroom

    def overflow_code(self, name: str) -> int | None:
        """Return the magnitude code, Inf or NaN, that a conversion stores for a finite number
        beyond the largest element. None if the conversion stores the largest element."""
        stored = self.special == "poison" and self.flags_overflow(name)
        return self.tensor_class(name).format.overflow_code if stored else None

    def flags_overflow(self, name: str) -> bool:
        """Return whether a finite number beyond the largest element counts in the class's flags as
        the Inf or NaN of the format's specification."""
        return self.tensor_class(name).overflow == "specification"

    @property
    def fused(self) -> bool:
        """True if a single pass can compute the gradients dX and dW: only then has dY a single
        copy."""
        return not self.dy.two_copies

    def tensor_class(self, name: str) -> TensorClass:
        """Return the class called ``name``: ``x``, ``w`` or ``dy``. ValueError for any different
        name."""
        require_choice("tensor class", name, CLASS_NAMES)
        return {"x": self.x, "w": self.w, "dy": self.dy}[name]

    # As plain values.

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, the ``parameters.numerics`` of a manifest."""
        classes = {
            name: {
                "format": storage.format.name,
                "rounding": storage.rounding,
                "grouping": str(storage.grouping),
                "scale": storage.scale,
                "overflow": storage.overflow,
            }
            for name, storage in ((name, self.tensor_class(name)) for name in CLASS_NAMES)
        }
        widths = {"widths": list(self.widths)} if self.chooses_widths else {}
        kind = {} if self.rounding_kind == KINDS[0] else {"rounding_kind": self.rounding_kind}
        lfsr = {"lfsr_bits": self.lfsr_bits} if self.rounding_kind == "lfsr" else {}
        floats = {"accumulator": self.accumulator.to_dict()} if self.accumulator else {}
        before = {"history": self.history, "margin": self.margin}
        delayed = before if self.source == "delayed" else {}
        scalars = {key: getattr(self, key) for key in _SCALARS}
        return scalars | delayed | kind | lfsr | widths | floats | classes

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Numerics":
        """Return the numerics written by :meth:`to_dict`.

        The following keys have defaults (or None): ``window``, ``special``, ``source``,
        ``history``, ``margin``, ``widths``, ``rounding_kind``, ``lfsr_bits``, ``accumulator``, and
        ``grouping``, ``scale`` and ``overflow`` of a class. ValueError for a key that is missing or
        unknown.
        """
        optional = (*_DEFAULTED, *_LATER, "accumulator")
        _require_keys("numerics", values, (*_REQUIRED, *CLASS_NAMES), optional)
        require_choice("block", values["block"], BLOCK_SIDES)
        classes = {
            name: make_class(name, values["block"], f"numerics.{name}", values[name])
            for name in CLASS_NAMES
        }
        scalars = {key: values[key] for key in (*_SCALARS, *_LATER) if key in values}
        if "widths" in values:
            scalars["widths"] = tuple(values["widths"])
        if values.get("accumulator") is not None:
            scalars["accumulator"] = FloatAccumulator.from_dict(values["accumulator"])
        return cls(**classes, **scalars)


_REQUIRED = ("block", "random_bits", "fraction", "headroom")
_DEFAULTED = ("window", "special", "source")
_SCALARS = (*_REQUIRED, *_DEFAULTED)
_LATER = ("widths", "rounding_kind", "lfsr_bits", "history", "margin")
"""Keys that are written only for a machine with the feature, so that the values of all remaining
machines stay equal."""


def make_class(name: str, block: int, where: str, values: Mapping[str, Any]) -> TensorClass:
    """Return the class ``name`` from plain values. Absent values are the format's defaults."""
    _require_keys(where, values, ("format", "rounding"), ("grouping", "scale", "overflow"))
    format = parse_format(values["format"])
    grouping, scale = values.get("grouping"), values.get("scale")
    return TensorClass(
        format=format,
        rounding=values["rounding"],
        grouping=(
            format.default_grouping(block, name) if grouping is None else parse_grouping(grouping)
        ),
        scale=format.default_scale_rule if scale is None else scale,
        overflow=values.get("overflow") or "saturate",
    )


def contradictions(numerics: Numerics) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the values that do not go together: the keys to blame, as named in the configuration
    file, and a line about the accepted values."""
    classes = {name: numerics.tensor_class(name) for name in CLASS_NAMES}
    two_level = [name for name in CLASS_NAMES if classes[name].format.two_level]
    if 0 < len(two_level) < len(CLASS_NAMES):
        yield (
            tuple(f"format.{name}" for name in CLASS_NAMES),
            (
                "format.x, format.w and format.dy must all be nvfp4, or none of them: the "
                "scales of nvfp4 are not powers of two (nvfp4 is chosen for "
                f"{' and '.join(two_level)})"
            ),
        )
    planes = [name for name in CLASS_NAMES if classes[name].format.planes]
    others = [n for n in CLASS_NAMES if n not in planes and classes[n].format.name != "bfp2"]
    if planes and others:
        yield (
            tuple(f"format.{name}" for name in others),
            (
                f"format.{others[0]} must be fast or bfp2 where format.{planes[0]} is "
                f"fast, not {classes[others[0]].format.name}: the planes of fast are "
                "multiplied like bfp2"
            ),
        )
    for name, storage in classes.items():
        size = storage.grouping.size
        if storage.grouping.kind != "tensor" and size % numerics.block:
            kind = storage.grouping.kind
            first = numerics.block
            example = f"{first}x{first}" if kind == "square" else f"1x{max(first, 2)}"
            yield (
                (f"block.{name}", "array.block"),
                (
                    f"block.{name} must be a multiple of array.block = {numerics.block} "
                    f'(such as "{example}"), not "{storage.grouping}"'
                ),
            )
    yield from _unspecified(classes)
    yield from _misdrawn(numerics)
    yield from _not_delayed(numerics)
    if numerics.accumulator is not None and numerics.accumulator.chunk % numerics.block:
        yield (
            ("accumulator.chunk", "array.block"),
            (
                f"accumulator.chunk must be a multiple of array.block = {numerics.block}, "
                f"not {numerics.accumulator.chunk}"
            ),
        )
    pairs = list(combinations(CLASS_NAMES, 2))
    needed = max(classes[a].format.precision + classes[b].format.precision for a, b in pairs)
    if numerics.window and numerics.window < needed:
        yield (
            ("cell.window",),
            (
                f"cell.window must be 0 or at least {needed}, the bits of a product of two "
                f"significands, not {numerics.window}"
            ),
        )
        return
    width = numerics.accumulator_bits
    limit = numerics.max_accumulator_bits
    if width > limit:
        sum_bits, f, g = numerics.block_sum_bits, numerics.fraction, numerics.headroom
        max_sum = limit - sum_bits
        advice = (
            f"choose F + G of at most {max_sum}"
            if max_sum >= 1
            else "no F and G are small enough; choose a cell.window of 16 or 24"
        )
        yield (
            ("cell.window", "accumulator.fraction", "accumulator.headroom"),
            (
                "accumulator.fraction (F) and accumulator.headroom (G) must make SW + F + "
                f"G at most {limit} bits, not {sum_bits} + {f} + {g} = {width}; SW follows "
                f"from the formats, cell.window and array.block: {advice}"
            ),
        )


def _unspecified(
    classes: Mapping[str, TensorClass],
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield classes with ``overflow = specification`` whose format's specification has no Inf or
    NaN for a number that is too large."""
    for name, storage in classes.items():
        reason = storage.format.must_saturate
        if storage.overflow == "specification" and reason is not None:
            yield (
                (f"overflow.{name}", f"format.{name}"),
                f"overflow.{name} must be saturate, not specification: {reason}",
            )


def _misdrawn(numerics: Numerics) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield draws with too few or too many bits for the kind."""
    kind, bits = numerics.rounding_kind, numerics.random_bits
    minimum, maximum = RANDOM_BITS[kind]
    if not minimum <= bits <= maximum:
        accepted = f"an integer in {minimum}..{maximum}" if minimum < maximum else f"{maximum}"
        yield (
            ("rounding.bits", "rounding.kind"),
            f"rounding.bits must be {accepted} where rounding.kind is {kind}, not {bits}",
        )
    elif kind == "lfsr" and numerics.lfsr_bits < bits:
        yield (
            ("rounding.lfsr_bits", "rounding.bits", "rounding.kind"),
            (
                f"rounding.lfsr_bits must be at least rounding.bits = {bits} where rounding.kind "
                f"is lfsr, not {numerics.lfsr_bits}"
            ),
        )


def _not_delayed(numerics: Numerics) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield keys of delayed scales if scales are not delayed, or no scale belongs to a whole
    tensor."""
    usual = {"history": 1, "margin": 0}
    for name, value in usual.items():
        setting = getattr(numerics, name)
        if setting == value:
            continue
        if numerics.source == "delayed" and not numerics.has_tensor_scales:
            yield (
                (f"scale.{name}", *(f"format.{each}" for each in CLASS_NAMES)),
                (
                    f"scale.{name} must be {value} where no class has a scale for its whole "
                    f"tensor (block = tensor, or nvfp4), not {setting}"
                ),
            )
        if numerics.source != "delayed":
            yield (
                (f"scale.{name}", "scale.source"),
                (
                    f"scale.{name} must be {value} where scale.source is "
                    f"{numerics.source}, not {setting}: scale.{name} works only with "
                    "scale.source = delayed"
                ),
            )


def require_widths(widths: tuple[int, ...]) -> None:
    """Raise ValueError unless ``widths`` are some of ``WIDTHS``, ascending."""
    some = bool(widths) and set(widths) <= set(WIDTHS)
    if not some or list(widths) != sorted(set(widths)):
        accepted = ", ".join(map(str, WIDTHS))
        raise ValueError(
            f"fast.widths must list one or more of {accepted}, ascending, not {list(widths)}"
        )


def _window(window: int | None, a: Format, b: Format) -> int:
    exact = exact_product_bits(a, b)
    if window is None:
        return default_product_bits(a, b)
    return min(window, exact) if window else exact


def _require_keys(
    where: str, values: Mapping[str, Any], keys: tuple[str, ...], optional: tuple[str, ...] = ()
) -> None:
    names = set(values)
    if not set(keys) <= names <= {*keys, *optional}:
        raise ValueError(
            f"{where} must have the keys {', '.join(sorted(keys))}, not {', '.join(sorted(names))}"
        )
