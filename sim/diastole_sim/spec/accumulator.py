"""Accumulators that are floats: a contraction is cut into chunks, whose exact sums are rounded.

R_p(v) is the integer v rounded to p significant bits, to nearest, ties to even. With q_n what the
blocks of chunk n sum to, an integer in units of 2^-F, shifted by the deficits as ever::

    acc = R_p(acc + R_p(q_n))        for n ascending, from acc = 0

Numbers count from the bound of their row and lane, and one unit is the smallest: so there are no
subnormals and no overflow, and 6 bits of exponent are enough for any W.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import lcm
from typing import Any

from diastole_sim.spec.require import require_int

EXPONENT_BITS = 6
"""Of a float in an accumulator."""
LEAST_MANTISSA, MOST_MANTISSA = 2, 23
SHORTEST_CHUNK, LONGEST_CHUNK = 8, 512
"""In elements."""
DEFAULT_MANTISSA, DEFAULT_CHUNK = 9, 64
"""Those of Wang et al., NeurIPS 2018."""
MOST_NAMED_EXPONENT_BITS = 8
_NAME = re.compile("e([0-9]+)m([0-9]+)")


@dataclass(frozen=True, kw_only=True)
class FloatAccumulator:
    """``mantissa``: m, bits behind the leading one. ``chunk``: L, elements of a contraction that
    are added as integers. ValueError if one is out of range."""

    mantissa: int
    chunk: int

    def __post_init__(self) -> None:
        require_int("mantissa", self.mantissa, LEAST_MANTISSA, MOST_MANTISSA)
        require_int("chunk", self.chunk, SHORTEST_CHUNK, LONGEST_CHUNK)

    @property
    def precision(self) -> int:
        """p: significant bits."""
        return self.mantissa + 1

    @property
    def bits(self) -> int:
        """Of a float: sign, exponent and mantissa."""
        return 1 + EXPONENT_BITS + self.mantissa

    def blocks(self, block: int) -> int:
        """Blocks of side ``block`` along a chunk."""
        return self.chunk // block

    def headroom(self, block: int) -> int:
        """Bits that the sum of a chunk needs beyond those of a shifted block sum."""
        return (self.blocks(block) - 1).bit_length()

    def to_dict(self) -> dict[str, Any]:
        """As plain values; :meth:`from_dict` reads them."""
        return {"kind": "float", "mantissa": self.mantissa, "chunk": self.chunk}

    @classmethod
    def from_dict(cls, values: Any) -> "FloatAccumulator":
        """ValueError unless it is what :meth:`to_dict` gives."""
        if set(values) != {"kind", "mantissa", "chunk"} or values["kind"] != "float":
            raise ValueError(
                "numerics.accumulator must have kind (float), mantissa and chunk, "
                f"not {dict(values)!r}"
            )
        return cls(mantissa=values["mantissa"], chunk=values["chunk"])


def mantissa_of(name: str) -> int:
    """m of a float that is named, such as ``e6m9``. ValueError if it is no such name, or has an
    exponent that could not hold every sum."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r} is no e<E>m<M>")
    require_int("E", int(found[1]), EXPONENT_BITS, MOST_NAMED_EXPONENT_BITS)
    return require_int("M", int(found[2]), LEAST_MANTISSA, MOST_MANTISSA)


def chunks_of(cuts: Iterable[int]) -> tuple[int, ...]:
    """The chunks, in elements, that are whole numbers of all ``cuts``: what passes of the array
    take of a contraction. Empty if the shortest is too long."""
    unit = lcm(*cuts)
    first = -(-SHORTEST_CHUNK // unit) * unit
    return tuple(range(first, LONGEST_CHUNK + 1, unit))
