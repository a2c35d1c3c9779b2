"""What a cell and an array compute, in fractions, and random operands for them.

Elements are signed magnitudes as (sign, magnitude) pairs, so that minus zero exists; a vector or a
block also has deficits and ``nonzero``.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import floor


@dataclass(frozen=True)
class Vector:
    """B elements, their block's deficit, and whether there is anything."""

    elements: list
    deficit: int
    nonzero: int

    def const(self, bits):
        """The vector as an initialiser of ``vector_layout(B, bits, ...)``."""
        return {
            "elements": [sign << bits | magnitude for sign, magnitude in self.elements],
            "deficit": self.deficit,
            "nonzero": self.nonzero,
        }


@dataclass(frozen=True)
class Block:
    """Rows (a) of B elements (b), both deficits, and whether there is anything."""

    rows: list
    east: int
    north: int
    nonzero: int

    def const(self, bits, row, index):
        """Row ``index`` as an initialiser of ``held_layout(...)``, ``row`` cells to go."""
        return {
            "row": row,
            "index": index,
            "elements": [sign << bits | magnitude for sign, magnitude in self.rows[index]],
            "deficit_east": self.east,
            "deficit_north": self.north,
            "nonzero": self.nonzero,
            "valid": 1,
        }


def value(element):
    sign, magnitude = element
    return -magnitude if sign else magnitude


def aligned(block_sum, d, fraction):
    """block_sum * 2^(F - d) to the nearest integer, ties upward."""
    return floor(Fraction(block_sum) * Fraction(2) ** (fraction - d) + Fraction(1, 2))


def multiply(vector, block, north, fraction, sum_bits):
    """What one cell adds to its B partial sums, and whether it is inexact."""
    side = len(vector.elements)
    if not (vector.nonzero and block.nonzero):
        return [0] * side, False
    d = vector.deficit + (block.north if north else block.east)
    sums = []
    for lane in range(side):
        held = [block.rows[lane][k] if north else block.rows[k][lane] for k in range(side)]
        total = sum(value(v) * value(h) for v, h in zip(vector.elements, held, strict=True))
        assert -(2 ** (sum_bits - 1)) <= total < 2 ** (sum_bits - 1)
        sums.append(aligned(total, min(d, sum_bits + fraction), fraction))
    return sums, d > fraction


class Operands:
    """Random vectors and blocks: full-scale, small and zero magnitudes, near and far deficits."""

    def __init__(self, rng, *, block, held_bits, sum_bits, fraction):
        self.rng, self.block, self.held_bits = rng, block, held_bits
        self.fraction, self.most = fraction, sum_bits + fraction

    def element(self, bits, scale):
        top = (1 << bits) - 1
        magnitude = top if scale == "full" else self.rng.randrange(top + 1)
        return self.rng.getrandbits(1), magnitude

    def deficit(self):
        kind = self.rng.randrange(6)
        if kind == 0:
            return self.most
        if kind == 1:
            return self.rng.randint(0, self.most)
        return self.rng.randint(0, (self.fraction + 2) // 2 if kind < 4 else 2)

    def vector(self, bits, nonzero=None):
        scale = self.rng.choice(("full", "any", "any"))
        nonzero = self.rng.random() < 0.9 if nonzero is None else nonzero
        elements = [self.element(bits, scale) for _ in range(self.block)]
        return Vector(elements, self.deficit(), int(nonzero))

    def held(self):
        scale = self.rng.choice(("full", "any", "any"))
        rows = [
            [self.element(self.held_bits, scale) for _ in range(self.block)]
            for _ in range(self.block)
        ]
        return Block(rows, self.deficit(), self.deficit(), int(self.rng.random() < 0.9))
