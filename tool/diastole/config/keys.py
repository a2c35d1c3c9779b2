"""One frozen configuration object, checked as a whole. :mod:`diastole.config.file` reads the TOML
file.

A key is described only in this module: type, default, range and meaning. The messages of `check`
and the comments that `init` writes come from the descriptions.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from diastole.config.numbers import NUMBERS, numbers_of
from diastole_hw.emit.keywords import KEYWORDS
from diastole_sim.spec.accumulator import (
    DEFAULT_CHUNK,
    DEFAULT_MANTISSA,
    EXPONENT_BITS,
    LONGEST_CHUNK,
    MAX_MANTISSA,
    MAX_NAMED_EXPONENT_BITS,
    MIN_MANTISSA,
    SHORTEST_CHUNK,
    mantissa_of,
)
from diastole_sim.spec.formats import (
    FAST,
    FORMAT_NAMES,
    GROUP_SIZES,
    SCALE_CODE_RULES,
    SCALE_RULES,
    parse_format,
    parse_grouping,
)
from diastole_sim.spec.lfsr import DEFAULT_LFSR_BITS, MAX_LFSR_BITS, MIN_LFSR_BITS
from diastole_sim.spec.limits import decided_classes, planes_by_class, slot_words
from diastole_sim.spec.numerics import (
    BLOCK_SIDES,
    CLASS_NAMES,
    DEFAULT_WIDTHS,
    MAX_HISTORY,
    MAX_MARGIN,
    MAX_WINDOW,
    MIN_WINDOW,
    OVERFLOWS,
    SOURCES,
    SPECIALS,
    WIDTHS,
    Numerics,
    require_widths,
)
from diastole_sim.spec.rounding import (
    DEFAULT_RANDOM_BITS,
    KINDS,
    MAX_RANDOM_BITS,
    RULES,
    default_random_bits,
)

if TYPE_CHECKING:
    from diastole_hw.plan.plan import Plan
    from diastole_sim.spec.sizes.vector_shape import VectorShape

MAX_NAME = 64
"""Most characters of the name of a product: names of files and modules contain the name."""
SPECIAL_LANES = (1, 2, 4, 8, 16, 32)
PANELS_KIB = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


@dataclass(frozen=True)
class Accepted:
    """Accepted values of a key in words, for types that do not list the values."""

    text: str


def _named(parse: Callable[[str], object]) -> AfterValidator:
    """Accept a text that ``parse`` accepts, unchanged."""

    def check(text: str | None) -> str | None:
        if text is not None:
            parse(text)
        return text

    return AfterValidator(check)


def _one_of(choices: Collection[int | str]) -> AfterValidator:
    """Accept the keys or members of a table, and None where the type has None."""

    def check(value: int | str | None) -> int | str | None:
        if value is not None and value not in choices:
            raise ValueError("not one of the choices")
        return value

    return AfterValidator(check)


def _listed(choices: Iterable[int | str]) -> str:
    return "one of " + ", ".join(map(str, choices))


def _widths(value: Any) -> Any:
    """Return a list of the file as a value of ``fast.widths``."""
    if not isinstance(value, list | tuple):
        raise ValueError("not a list")
    widths = tuple(cast(Sequence[Any], value))
    if any(type(one) is not int for one in widths):
        raise ValueError("not integers")
    require_widths(widths)
    return widths


def _mantissa(value: Any) -> Any:
    """Return the mantissa bits of a float's name, or the value itself if the value is no text."""
    return mantissa_of(value) if isinstance(value, str) else value


def _window(value: int | None) -> int | None:
    if value and not MIN_WINDOW <= value <= MAX_WINDOW:
        raise ValueError("out of range")
    return value


# A Literal takes no table of another module: a type checker would have to run the program.
Block = Annotated[int, _one_of(BLOCK_SIDES), Accepted(_listed(BLOCK_SIDES))]
Rounding = Annotated[str, _one_of(RULES), Accepted(_listed(RULES))]
Overflow = Annotated[str, _one_of(OVERFLOWS), Accepted(_listed(OVERFLOWS))]
Kind = Annotated[str, _one_of(KINDS), Accepted(_listed(KINDS))]
Special = Annotated[str, _one_of(SPECIALS), Accepted(_listed(SPECIALS))]
Source = Annotated[str, _one_of(SOURCES), Accepted(_listed(SOURCES))]
Format = Annotated[
    str,
    _named(parse_format),
    Accepted(
        f"one of {', '.join((*FORMAT_NAMES, FAST.name))}, "
        "e<E>m<M> (E in 2..5, M in 1..5, 1 + E + M at most 8)"
    ),
]
# None: the default of the format, which depends on the value of another key.
GroupingText = Annotated[
    str | None,
    _named(parse_grouping),
    Accepted(
        'squares such as "8x8", vectors such as "1x16", or "tensor"; sides are powers of two, '
        f"at most {GROUP_SIZES[-1]}"
    ),
]
Scale = Annotated[
    str | None,
    _one_of((*SCALE_RULES, *SCALE_CODE_RULES)),
    Accepted(f"{_listed(SCALE_RULES)}, or for nvfp4 {_listed(SCALE_CODE_RULES)}"),
]
Widths = Annotated[
    tuple[int, ...],
    BeforeValidator(_widths),
    Accepted(f"a list of some of {', '.join(map(str, WIDTHS))}, ascending"),
]
Mantissa = Annotated[
    int,
    BeforeValidator(_mantissa),
    Accepted(
        f"an integer in {MIN_MANTISSA}..{MAX_MANTISSA}, or e<E>m<M> with such an M and E in "
        f"{EXPONENT_BITS}..{MAX_NAMED_EXPONENT_BITS} (fewer bits of exponent do not hold every "
        "sum, more are not used)"
    ),
]
NumbersName = Annotated[str | None, _one_of(NUMBERS), Accepted(_listed(NUMBERS))]
Window = Annotated[
    int | None,
    AfterValidator(_window),
    Accepted(f"0 or an integer in {MIN_WINDOW}..{MAX_WINDOW}"),
]

SpecialLanes = Annotated[int | None, _one_of(SPECIAL_LANES), Accepted(_listed(SPECIAL_LANES))]
Panel = Annotated[int, _one_of(PANELS_KIB), Accepted(_listed(PANELS_KIB))]


def _integer(default: int, low: int, high: int, about: str) -> Any:
    return Field(default=default, ge=low, le=high, description=about)


def _choice(default: int | str | None, about: str) -> Any:
    return Field(default=default, description=about)


class Section(BaseModel):
    """A table of the file: no unknown keys, no conversion of types, no later changes."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @field_validator("*", mode="before")
    @classmethod
    def _choices_have_their_type(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse true and 1.0 for 1. Python and pydantic's ``Literal`` take true and 1.0 for 1."""
        assert info.field_name is not None
        kind = cls.model_fields[info.field_name].annotation
        if get_origin(kind) is Literal and type(value) is not type(get_args(kind)[0]):
            raise ValueError("wrong type")
        return value


class ArrayConfig(Section):
    """The array of cells; each cell multiplies a block of B x B by a vector."""

    rows: int = _integer(2, 1, 64, "Rows of cells")
    cols: int = _integer(2, 1, 64, "Columns of cells")
    block: Block = _choice(
        8, "Side B of a block: a cell has B x B multipliers, and groups are multiples of B"
    )
    transpose: Literal["in_place", "edge"] = _choice(
        "in_place",
        "Place of the transposition for dX and dW: in the cells, or at the edge of the array",
    )


class FormatConfig(Section):
    """Storage format of every class of tensor; `diastole formats` lists the formats."""

    x: Format = _choice("bfp4", "Format of activations")
    w: Format = _choice("bfp4", "Format of weights")
    dy: Format = _choice("bfp4", "Format of gradients")


class BlockConfig(Section):
    """Elements of a tensor that share a scale; vectors run along the contraction."""

    x: GroupingText = _choice(None, "Groups of activations")
    w: GroupingText = _choice(None, "Groups of weights")
    dy: GroupingText = _choice(None, "Groups of gradients")


class ScaleConfig(Section):
    """Rule by which the scale of a group follows from the group's largest magnitude."""

    x: Scale = _choice(None, "Rule of activations")
    w: Scale = _choice(None, "Rule of weights")
    dy: Scale = _choice(None, "Rule of gradients")
    source: Source = _choice(
        "current",
        "Source of the scale of a whole tensor: its data, its data in earlier steps, or the host",
    )
    history: int = _integer(
        1, 1, MAX_HISTORY, "Number of earlier steps whose largest magnitude gives a delayed scale"
    )
    margin: int = _integer(
        0,
        0,
        MAX_MARGIN,
        "Powers of two by which a delayed scale is raised, so that larger values fit",
    )


class OverflowConfig(Section):
    """Result for finite values beyond the largest element: that element, or OCP's Inf or NaN."""

    x: Overflow = _choice("saturate", "Overflow of activations")
    w: Overflow = _choice("saturate", "Overflow of weights")
    dy: Overflow = _choice("saturate", "Overflow of gradients")


class RoundingConfig(Section):
    """Rounding of every class of tensor when a tensor is converted."""

    x: Rounding = _choice("nearest", "Rounding of activations")
    w: Rounding = _choice("nearest", "Rounding of weights")
    dy: Rounding = _choice(
        "stochastic-b", "Rounding of gradients; a biased rounding destroys training"
    )
    bits: int = _integer(
        DEFAULT_RANDOM_BITS, 1, MAX_RANDOM_BITS, "Random bits of each stochastic rounding"
    )
    kind: Kind = _choice(
        KINDS[0],
        "Source of random bits: hashes, a shift register (24 bits at most, or 3), the element",
    )
    lfsr_bits: int = _integer(
        DEFAULT_LFSR_BITS,
        MIN_LFSR_BITS,
        MAX_LFSR_BITS,
        "Bits of the shift register of the kind lfsr, at least `bits`",
    )

    @model_validator(mode="before")
    @classmethod
    def _bits_of_the_kind(cls, values: Any) -> Any:
        """Set the number of random bits that a kind prescribes, if the file has no number."""
        table = cast(dict[str, Any], values) if isinstance(values, dict) else {}
        if table.get("kind") not in KINDS or "bits" in table:
            return cast(Any, values)
        return table | {"bits": default_random_bits(table["kind"])}


class FastConfig(Section):
    """The format `fast`, whose width is chosen whenever a tensor is converted."""

    widths: Widths = Field(
        default=DEFAULT_WIDTHS, description="Numbers of bits of a magnitude to choose from"
    )


class CellConfig(Section):
    """The multipliers and adders of a cell."""

    pipeline: Literal["none", "products", "full"] = _choice(
        "none",
        "Registers in a cell for a faster clock: after the multipliers, or also in the adders",
    )
    multiplier: Literal["fabric", "dsp", "dsp25"] = _choice(
        "fabric",
        "Multipliers of significands: logic, or DSP blocks of an FPGA; dsp25: blocks of 25 x 18",
    )
    window: Window = _choice(
        None, "Bits of a rounded product before the addition; 0: products are not rounded"
    )


class AccumulatorConfig(Section):
    """The accumulators: integers, or floats that add exact sums of chunks.

    An integer has SW + F + G bits: SW bits of the sum of a block, F fraction bits (``fraction``)
    and G bits of headroom (``headroom``).
    """

    fraction: int = _integer(
        18, 0, 32, "Fraction bits F: a product is exact if the deficits of blocks do not exceed F"
    )
    headroom: int = _integer(14, 1, 16, "Headroom G: a contraction is at most 2^G blocks long")
    kind: Literal["integer", "float"] = _choice(
        "integer", "Numbers in which the sums of chunks are added"
    )
    mantissa: Mantissa = Field(
        default=DEFAULT_MANTISSA,
        ge=MIN_MANTISSA,
        le=MAX_MANTISSA,
        description="Mantissa bits of a float accumulator, after the leading one",
    )
    chunk: int = _integer(
        DEFAULT_CHUNK,
        SHORTEST_CHUNK,
        LONGEST_CHUNK,
        "Elements added exactly before a float accumulator rounds: a multiple of B",
    )

    @property
    def floats(self) -> dict[str, Any] | None:
        """Arguments of `Numerics` for float accumulators; None for integers."""
        if self.kind == "integer":
            return None
        return {key: getattr(self, key) for key in ("kind", "mantissa", "chunk")}


class BusConfig(Section):
    """The AXI4 master to memory."""

    data_width: Literal[32, 64, 128, 256, 512] = _choice(64, "Width of the memory bus in bits")
    ports: Literal[1, 2] = _choice(1, "Number of memory buses of this width")


class MemoryConfig(Section):
    """The memories on the chip."""

    output_register: bool = _choice(
        False, "true: memories of operands, sums and transposed rows have output registers"
    )


class VectorConfig(Section):
    """The vector unit, which runs programs over tensors between the products."""

    enable: bool = _choice(False, "true: the machine has a vector unit")
    special: SpecialLanes = _choice(
        None, "Lanes for exp, reciprocals and logarithms; default: a quarter of the block side"
    )
    panel_kib: Panel = _choice(64, "Memory on the chip for the vectors of programs, in KiB")
    draws: bool = _choice(
        False, "true: programs may read random numbers, as dropout in training needs"
    )


class Config(Section):
    """All keys that decide the generated hardware. Frozen.

    The constructor checks every key alone, with pydantic's ``ValidationError``. The functions
    :func:`diastole.config.file.load_config`, which reads a TOML file, and ``from_document`` beside
    it also check combinations of keys, and word the errors for people.
    """

    name: str = Field(default="diastole", description="Name of the top module and of the product")
    special: Special = _choice(
        "flag",
        "Treatment of NaN and Inf: flag (0 and the largest element), or poison (NaN results)",
    )
    numbers: NumbersName = _choice(
        None,
        "Published numbers: defaults for formats, roundings and sums",
    )
    array: ArrayConfig = ArrayConfig()
    format: FormatConfig = FormatConfig()
    block: BlockConfig = BlockConfig()
    scale: ScaleConfig = ScaleConfig()
    overflow: OverflowConfig = OverflowConfig()
    rounding: RoundingConfig = RoundingConfig()
    fast: FastConfig = FastConfig()
    cell: CellConfig = CellConfig()
    accumulator: AccumulatorConfig = AccumulatorConfig()
    bus: BusConfig = BusConfig()
    memory: MemoryConfig = MemoryConfig()
    vector: VectorConfig = VectorConfig()

    @model_validator(mode="before")
    @classmethod
    def _numbers_are_defaults(cls, values: Any) -> Any:
        """Fill absent keys from published numbers. A wrong name of numbers is reported later."""
        numbers = numbers_of(values)
        return values if numbers is None else numbers.under(values)

    @field_validator("name")
    @classmethod
    def _name_is_an_identifier(cls, value: str) -> str:
        is_name = re.fullmatch("[a-z][a-z0-9_]*", value) and len(value) <= MAX_NAME
        if not is_name or value in KEYWORDS:
            raise ValueError("not a module name")
        return value

    @property
    def macs(self) -> int:
        """Number of multipliers of the array: rows * cols * B * B."""
        return self.array.rows * self.array.cols * self.array.block**2

    @property
    def numerics(self) -> Numerics:
        """Numerics for the golden model: all keys that decide the numbers, and no further keys.

        ValueError if keys contradict each other, which ``load_config`` has ruled out.
        """
        return Numerics.from_dict(self.numeric_values())

    def numeric_values(self) -> dict[str, Any]:
        """Return the keys of :attr:`numerics`. None leaves a value to the format."""
        classes = {
            name: {
                "format": getattr(self.format, name),
                "rounding": getattr(self.rounding, name),
                "grouping": getattr(self.block, name),
                "scale": getattr(self.scale, name),
                "overflow": getattr(self.overflow, name),
            }
            for name in CLASS_NAMES
        }
        return classes | {
            "block": self.array.block,
            "random_bits": self.rounding.bits,
            "rounding_kind": self.rounding.kind,
            "lfsr_bits": self.rounding.lfsr_bits,
            "fraction": self.accumulator.fraction,
            "headroom": self.accumulator.headroom,
            "window": self.cell.window,
            "special": self.special,
            "source": self.scale.source,
            "history": self.scale.history,
            "margin": self.scale.margin,
            "widths": self.fast.widths,
            "accumulator": self.accumulator.floats,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return every key with its value, nested as in the file. Plain types only, None for an
        absent key."""
        return self.model_dump()

    @property
    def config_sha256(self) -> str:
        """SHA-256 in hexadecimal of the canonical content: all keys, sorted, as compact JSON.

        An absent key counts as null, not as the default of its format. ``numbers`` does not count,
        only the keys set by ``numbers``.
        """
        content = self.to_dict()
        del content["numbers"]
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def identification(self) -> int:
        """First 32 bits of the SHA-256, as in the machine's identification register."""
        return int(self.config_sha256[:8], 16)

    @property
    def plan(self) -> "Plan":
        """Sizes that follow from the configuration."""
        # Imported in the property: only work on hardware needs Amaranth.
        from diastole_hw.plan.plan import Plan

        rows, cols = self.array.rows, self.array.cols
        return Plan.of(
            self.numerics,
            rows=rows,
            cols=cols,
            in_place=self.array.transpose == "in_place",
            vector=self.vector_shape,
            pipeline=self.cell.pipeline,
            multiplier=self.cell.multiplier,
            output_register=self.memory.output_register,
            **self.bus.model_dump(),
        )

    @property
    def modelled_sizes(self) -> dict[str, Any]:
        """Arguments of the model of cycles besides the numerics of the machine."""
        array = {"rows": self.array.rows, "cols": self.array.cols}
        in_place = self.array.transpose == "in_place"
        machine = {"in_place": in_place, "cell_cycles": self.plan.cell_cycles}
        return array | self.bus.model_dump() | machine | {"has_vector": self.vector.enable}

    @property
    def vector_shape(self) -> "VectorShape | None":
        """Sizes of the vector unit; None without a vector unit."""
        from diastole_sim.spec.sizes.vector_shape import VectorShape

        if not self.vector.enable:
            return None
        return VectorShape.of(
            block=self.array.block,
            data_width=self.bus.data_width,
            specials=self.vector.special,
            panel_kib=self.vector.panel_kib,
            draws=self.vector.draws,
            choices=decided_classes(planes_by_class(self.numerics)),
            slot_words=slot_words(self.numerics),
        )
