"""Number formats, as objects that the converter, the cell, the memory plan and the model ask."""

import re
from dataclasses import dataclass

from diastole_sim.check import require_choice, require_int

EXPONENT_BIAS = 127
"""Stored exponent of a block minus its exponent, as in binary32; a stored 0 is a block of zeros."""


@dataclass(frozen=True, kw_only=True)
class BlockFormat:
    """Block floating point: sign and magnitude per element, one exponent per block.

    A block with exponent e holds (-1)^s * mag * 2^(e - m + 1) with m = ``mantissa_bits`` (2..8)
    and 0 <= mag <= 2^m - 1; e is the exponent of its largest element (-126..127).
    ``name`` is ``bfp`` and m. ValueError if a parameter is out of range.
    """

    name: str
    mantissa_bits: int

    def __post_init__(self) -> None:
        require_int("mantissa_bits", self.mantissa_bits, 2, 8)
        require_choice("name", self.name, (f"bfp{self.mantissa_bits}",))

    @property
    def element_bits(self) -> int:
        """Bits of a stored element: the magnitude, and the sign above it."""
        return self.mantissa_bits + 1

    @property
    def max_magnitude(self) -> int:
        """Largest magnitude, in units in the last place."""
        return 2**self.mantissa_bits - 1

    @property
    def point(self) -> int:
        """Fraction bits of a magnitude: mag * 2^-point times 2^e is the element's value."""
        return self.mantissa_bits - 1

    def kept_shift(self, significand_bits: int) -> int:
        """Bits that the block's largest element loses from a significand of that many bits."""
        return significand_bits - self.mantissa_bits


FORMAT_NAMES = tuple(f"bfp{bits}" for bits in range(2, 9))
"""Every accepted name, in the order in which a message lists them."""


def parse_format(name: str) -> BlockFormat:
    """The format called ``name``, ``bfp2`` to ``bfp8``; ValueError lists the known names."""
    require_choice("format", name, FORMAT_NAMES)
    found = re.fullmatch(r"bfp(\d)", name)
    assert found is not None
    return BlockFormat(name=name, mantissa_bits=int(found.group(1)))


def block_sum_bits(a: BlockFormat, b: BlockFormat, block: int) -> int:
    """SW: bits of a two's complement register that holds any block sum of the two formats.

    A lane adds ``block`` products; SW = mA + mB + 1 + log2(block).
    """
    return a.mantissa_bits + b.mantissa_bits + 1 + (block.bit_length() - 1)
