"""One frozen configuration object, checked whole; the TOML file is read in :mod:`.config_file`.

Each key is described here once: its type, default, range and meaning. The messages of `check` and
the comments that `init` writes come from these descriptions.
"""

import hashlib
import json
import re
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from diastole.keywords import KEYWORDS
from diastole_sim.formats import FORMAT_NAMES
from diastole_sim.numerics import BLOCK_SIDES, Numerics
from diastole_sim.rounding import RULES

Block = Literal[BLOCK_SIDES]
Format = Literal[FORMAT_NAMES]
Rounding = Literal[tuple(RULES)]


def _integer(default: int, low: int, high: int, about: str) -> Any:
    return Field(default=default, ge=low, le=high, description=about)


def _choice(default: int | str, about: str) -> Any:
    return Field(default=default, description=about)


class Section(BaseModel):
    """A table of the file: no unknown keys, no conversion of types, never changed after."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @field_validator("*", mode="before")
    @classmethod
    def _choices_have_their_type(cls, value: Any, info: ValidationInfo) -> Any:
        """Python takes true and 1.0 for 1, as pydantic's ``Literal`` does; the file must not."""
        kind = cls.model_fields[info.field_name].annotation
        if get_origin(kind) is Literal and type(value) is not type(get_args(kind)[0]):
            raise ValueError("wrong type")
        return value


class ArrayConfig(Section):
    """The array of cells; each cell multiplies a block of B x B by a vector."""

    rows: int = _integer(2, 1, 64, "Rows of cells")
    cols: int = _integer(2, 1, 64, "Columns of cells")
    block: Block = _choice(
        8, "Side B of a block: B x B elements share an exponent, and a cell has B x B multipliers"
    )
    transpose: Literal["in_place", "edge"] = _choice(
        "in_place",
        "Where a transposed product is made: in the cells, or by turning what enters",
    )


class FormatConfig(Section):
    """Storage format of each class of tensor: bfpM has M magnitude bits and a sign."""

    x: Format = _choice("bfp4", "Format of activations")
    w: Format = _choice("bfp4", "Format of weights")
    dy: Format = _choice("bfp4", "Format of gradients")


class RoundingConfig(Section):
    """How each class of tensor is rounded when it is converted."""

    x: Rounding = _choice("nearest", "Rounding of activations")
    w: Rounding = _choice("nearest", "Rounding of weights")
    dy: Rounding = _choice("stochastic-b", "Rounding of gradients; a biased one destroys training")
    bits: int = _integer(8, 1, 16, "Random bits of each stochastic rounding")


class AccumulatorConfig(Section):
    """The integer accumulators, SW + F + G bits wide."""

    fraction: int = _integer(
        18, 0, 32, "Fraction bits F: a product is exact where no two blocks' deficits exceed F"
    )
    headroom: int = _integer(14, 1, 16, "Headroom G: a contraction is at most 2^G blocks long")


class BusConfig(Section):
    """The AXI4 master to memory."""

    data_width: Literal[32, 64, 128, 256, 512] = _choice(64, "Width of the memory bus in bits")


class Config(Section):
    """Everything that decides what is generated. Frozen; made by :func:`.config_file.read`.

    Constructing it directly checks each key, with pydantic's ``ValidationError``; only ``read`` and
    ``from_document`` check the keys against each other too and word the errors for people.
    """

    name: str = Field(default="diastole", description="Name of the top module and of the product")
    array: ArrayConfig = ArrayConfig()
    format: FormatConfig = FormatConfig()
    rounding: RoundingConfig = RoundingConfig()
    accumulator: AccumulatorConfig = AccumulatorConfig()
    bus: BusConfig = BusConfig()

    @field_validator("name")
    @classmethod
    def _name_is_an_identifier(cls, value: str) -> str:
        if not re.fullmatch("[a-z][a-z0-9_]*", value) or value in KEYWORDS:
            raise ValueError("not a module name")
        return value

    @property
    def macs(self) -> int:
        """Multipliers of the array: rows * cols * B * B."""
        return self.array.rows * self.array.cols * self.array.block**2

    @property
    def numerics(self) -> Numerics:
        """What the numbers depend on, and nothing else, as the golden model takes it."""
        return Numerics.from_dict(
            {
                "block": self.array.block,
                **{
                    name: {
                        "format": getattr(self.format, name),
                        "rounding": getattr(self.rounding, name),
                    }
                    for name in ("x", "w", "dy")
                },
                "random_bits": self.rounding.bits,
                "fraction": self.accumulator.fraction,
                "headroom": self.accumulator.headroom,
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Every key with its value, nested as in the file; plain types only."""
        return self.model_dump()

    @property
    def config_sha256(self) -> str:
        """SHA-256 in hexadecimal of the canonical content: all keys, sorted, as compact JSON."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()
