"""Float accumulators: a contraction is cut into chunks, whose exact sums are rounded.

R_p(v) is the integer v rounded to p significant bits, to nearest, ties to even. q_n is the sum of
the blocks of chunk n, shifted by the deficits: an integer in units of 2^-F. (A deficit is the
distance of a block's exponent from the bound of its row and lane.) Then::

    acc = R_p(acc + R_p(q_n))        for n ascending, from acc = 0

Numbers count from the bound of their row and lane, and the smallest number is one unit. So an
accumulator has no subnormals and no overflow, and 6 bits of exponent are enough for any W.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import lcm
from typing import Any

from diastole_sim.spec.require import require_int

EXPONENT_BITS = 6
"""Bits of the exponent of a float in an accumulator."""
MIN_MANTISSA, MAX_MANTISSA = 2, 23
SHORTEST_CHUNK, LONGEST_CHUNK = 8, 512
"""Shortest and longest chunk in elements."""
DEFAULT_MANTISSA, DEFAULT_CHUNK = 9, 64
"""Mantissa and chunk of Wang et al., NeurIPS 2018."""
MAX_NAMED_EXPONENT_BITS = 8
_NAME = re.compile("e([0-9]+)m([0-9]+)")


@dataclass(frozen=True, kw_only=True)
class FloatAccumulator:
    """Float accumulator. ``mantissa``: m, bits behind the leading bit. ``chunk``: L, elements of a
    contraction that are added as integers. ValueError if a number is out of range."""

    mantissa: int
    chunk: int

    def __post_init__(self) -> None:
        require_int("mantissa", self.mantissa, MIN_MANTISSA, MAX_MANTISSA)
        require_int("chunk", self.chunk, SHORTEST_CHUNK, LONGEST_CHUNK)

    @property
    def precision(self) -> int:
        """p: significant bits."""
        return self.mantissa + 1

    @property
    def bits(self) -> int:
        """Bits of a float: sign, exponent and mantissa."""
        return 1 + EXPONENT_BITS + self.mantissa

    def blocks(self, block: int) -> int:
        """Return the number of blocks of side ``block`` along a chunk."""
        return self.chunk // block

    def headroom(self, block: int) -> int:
        """Return the bits of the sum of a chunk beyond the bits of a shifted block sum."""
        return (self.blocks(block) - 1).bit_length()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for :meth:`from_dict`."""
        return {"kind": "float", "mantissa": self.mantissa, "chunk": self.chunk}

    @classmethod
    def from_dict(cls, values: Any) -> "FloatAccumulator":
        """Return the accumulator written by :meth:`to_dict`. ValueError for any different value."""
        if set(values) != {"kind", "mantissa", "chunk"} or values["kind"] != "float":
            raise ValueError(
                "numerics.accumulator must have kind (float), mantissa and chunk, "
                f"not {dict(values)!r}"
            )
        return cls(mantissa=values["mantissa"], chunk=values["chunk"])


def mantissa_of(name: str) -> int:
    """Return m of a float's name, such as ``e6m9``. ValueError if the text is no name of a float,
    or the exponent could not hold every sum."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is not of the form e<E>m<M>, such as e6m9")
    require_int("E", int(match[1]), EXPONENT_BITS, MAX_NAMED_EXPONENT_BITS)
    return require_int("M", int(match[2]), MIN_MANTISSA, MAX_MANTISSA)


def chunks_of(cuts: Iterable[int]) -> tuple[int, ...]:
    """Return the accepted lengths of a chunk in elements: the multiples of all ``cuts``. A cut is
    the number of elements of a contraction in a pass of the array. Empty if the shortest multiple
    is too long."""
    unit = lcm(*cuts)
    first = -(-SHORTEST_CHUNK // unit) * unit
    return tuple(range(first, LONGEST_CHUNK + 1, unit))
