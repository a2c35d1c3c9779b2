"""What decides the bits of a result: formats, roundings, block side, accumulator."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from diastole_sim.check import require_choice, require_int
from diastole_sim.formats import BlockFormat, block_sum_bits, parse_format
from diastole_sim.rounding import RULES

BLOCK_SIDES = (1, 2, 4, 8, 16, 32)
CLASS_NAMES = ("x", "w", "dy")
"""Tensor classes: activations, weights, gradients. A class's number is its place here."""
MAX_ACCUMULATOR_BITS = 63


@dataclass(frozen=True, kw_only=True)
class TensorClass:
    """How tensors of one class are stored and rounded; ``rounding`` is a key of ``RULES``."""

    format: BlockFormat
    rounding: str

    def __post_init__(self) -> None:
        require_choice("rounding", self.rounding, tuple(RULES))


@dataclass(frozen=True, kw_only=True)
class Numerics:
    """Everything that a result depends on, besides the tensors, their tags, the seed and the step.

    ``block``: side of a block, 1 to 32, a power of two. ``x``, ``w``, ``dy``: the tensor classes.
    ``random_bits``: bits of a stochastic rounding's draw (1..16). ``fraction``: F, bits kept below
    the unit of an aligned block sum (0..32). ``headroom``: G, up to 2^G blocks are summed (1..16).
    ValueError if one is out of range, or if the accumulator needs more than 63 bits.
    """

    block: int
    x: TensorClass
    w: TensorClass
    dy: TensorClass
    random_bits: int
    fraction: int
    headroom: int

    def __post_init__(self) -> None:
        require_choice("block", self.block, BLOCK_SIDES)
        require_int("random_bits", self.random_bits, 1, 16)
        require_int("fraction", self.fraction, 0, 32)
        require_int("headroom", self.headroom, 1, 16)
        if self.accumulator_bits > MAX_ACCUMULATOR_BITS:
            raise ValueError(
                f"the accumulator must have at most {MAX_ACCUMULATOR_BITS} bits, not "
                f"{self.accumulator_bits}: block sums of {self.block_sum_bits} bits, "
                f"fraction {self.fraction}, headroom {self.headroom}"
            )

    @property
    def block_sum_bits(self) -> int:
        """SW of the widest of the three products."""
        formats = [self.tensor_class(name).format for name in CLASS_NAMES]
        return max(block_sum_bits(a, b, self.block) for a, b in combinations(formats, 2))

    @property
    def accumulator_bits(self) -> int:
        """W: bits of an accumulator, sign included."""
        return self.block_sum_bits + self.fraction + self.headroom

    @property
    def max_contraction(self) -> int:
        """Longest contraction, in elements, that no accumulator can overflow on."""
        return self.block << self.headroom

    def tensor_class(self, name: str) -> TensorClass:
        """The class called ``name``: ``x``, ``w`` or ``dy``; ValueError for another."""
        require_choice("tensor class", name, CLASS_NAMES)
        return {"x": self.x, "w": self.w, "dy": self.dy}[name]

    def to_dict(self) -> dict[str, Any]:
        """As plain values that JSON holds; the ``parameters.numerics`` of a manifest."""
        classes = {
            name: {
                "format": self.tensor_class(name).format.name,
                "rounding": self.tensor_class(name).rounding,
            }
            for name in CLASS_NAMES
        }
        return {
            "block": self.block,
            **classes,
            "random_bits": self.random_bits,
            "fraction": self.fraction,
            "headroom": self.headroom,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Numerics":
        """The inverse of :meth:`to_dict`; ValueError for a key that is missing or unknown."""
        _require_keys("numerics", values, (*_SCALARS, *CLASS_NAMES))
        classes: dict[str, TensorClass] = {}
        for name in CLASS_NAMES:
            _require_keys(f"numerics.{name}", values[name], ("format", "rounding"))
            classes[name] = TensorClass(
                format=parse_format(values[name]["format"]), rounding=values[name]["rounding"]
            )
        return cls(**classes, **{key: values[key] for key in _SCALARS})


_SCALARS = ("block", "random_bits", "fraction", "headroom")


def _require_keys(where: str, values: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    if set(values) != set(keys):
        raise ValueError(
            f"{where} must have the keys {', '.join(sorted(keys))}, not {', '.join(sorted(values))}"
        )
