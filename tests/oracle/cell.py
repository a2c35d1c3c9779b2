"""What a cell and an array compute, in fractions, and random operands for them.

Elements are (sign, significand, d) triples, so that minus zero exists. A cell is described by the
numbers of its ``CellShape``; what they mean is said here again.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import floor

ONE = 8
"""A group's significand that changes nothing but the unit, in NVFP4's eighths."""


@dataclass(frozen=True)
class Vector:
    """B elements of one layout, and the marks of their group."""

    kind: object  # the Element
    elements: list
    deficit: int
    nonzero: int
    significand: int = ONE
    extent: int = 0
    poison: int = 0

    def const(self, shape):
        """The vector as an initialiser of ``vector_layout(shape, kind)``."""
        marks = {"significand": self.significand, "extent": self.extent, "poison": self.poison}
        return {
            "elements": [encoded(self.kind, element) for element in self.elements],
            "deficit": self.deficit,
            "nonzero": self.nonzero,
        } | {name: marks[name] for name in mark_names(shape)}


@dataclass(frozen=True)
class Block:
    """Rows (a) of B elements (b), and marks: of the block, or lists of one per row.

    ``poison`` has B lists of B.
    """

    rows: list
    east: int
    north: list
    nonzero: list
    significand: list
    extent: list
    poison: list

    @classmethod
    def square(cls, rows, east, north, nonzero, *, significand=ONE, extent=None, poison=None):
        """With one deficit per direction, one ``nonzero`` and one significand."""
        side = len(rows)
        return cls(
            rows,
            east,
            [north] * side,
            [nonzero] * side,
            [significand] * side,
            extent or [0] * side,
            poison or [[0] * side] * side,
        )

    @property
    def is_square(self):
        """Whether all rows have the marks that a slot to the east reads of any of them."""
        return len(set(self.nonzero)) == 1 and len(set(self.significand)) == 1

    def const(self, shape, row, index):
        """Row ``index`` as an initialiser of ``stationary_layout(shape)``, ``row`` cells to go."""
        marks = {
            "significand": self.significand[index],
            "extent": self.extent[index],
            "poison": sum(bit << place for place, bit in enumerate(self.poison[index])),
        }
        return {
            "row": row,
            "index": index,
            "elements": [encoded(shape.stationary, element) for element in self.rows[index]],
            "deficit_east": self.east,
            "deficit_north": self.north[index],
            "nonzero": self.nonzero[index],
            "valid": 1,
        } | {name: marks[name] for name in mark_names(shape)}


@dataclass(frozen=True)
class Added:
    """What one cell adds to its B partial sums, and to their flags."""

    sums: list
    inexact: bool
    poison: list


def mark_names(shape):
    """The marks that not every shape has."""
    chosen = {
        "significand": shape.significands,
        "extent": shape.extents,
        "poison": shape.poison,
    }
    return [name for name, there in chosen.items() if there]


def encoded(kind, element):
    """Bits of an element: its significand, d, the sign."""
    sign, significand, d = element
    fall_bits = kind.depth.bit_length()
    return significand | d << kind.significand_bits | sign << (kind.significand_bits + fall_bits)


def value(element):
    """The signed significand; the value where there is no d."""
    sign, significand, _ = element
    return -significand if sign else significand


def product(vector_kind, v, held_kind, h, window):
    """A product as it enters its tree: an integer, rounded half away from zero."""
    if window is None:
        return value(v) * value(h)
    places = window - vector_kind.significand_bits - held_kind.significand_bits - v[2] - h[2]
    magnitude = floor(abs(value(v) * value(h)) * Fraction(2) ** places + Fraction(1, 2))
    return -magnitude if v[0] != h[0] else magnitude


def aligned(block_sum, d, fraction):
    """block_sum * 2^(F - d) to the nearest integer, ties upward."""
    return floor(Fraction(block_sum) * Fraction(2) ** (fraction - d) + Fraction(1, 2))


def multiply(vector, block, north, shape):
    """What a cell of this shape adds for one vector; to the east the block must be a square."""
    side = len(vector.elements)
    own = north and shape.lane_deficits
    sums, lossy = [], False
    for lane in range(side):
        marks = lane if own else 0
        stationary = [block.rows[lane][k] if north else block.rows[k][lane] for k in range(side)]
        if not (vector.nonzero and block.nonzero[marks]):
            sums.append(0)
            continue
        total = sum(
            product(vector.kind, v, shape.stationary, h, shape.window)
            for v, h in zip(vector.elements, stationary, strict=True)
        )
        if shape.significands:
            total *= vector.significand * block.significand[marks]
        assert -(2 ** (shape.sum_bits - 1)) <= total < 2 ** (shape.sum_bits - 1)
        d = vector.deficit + (block.north[marks] if north else block.east)
        sums.append(aligned(total, min(d, shape.sum_bits + shape.fraction), shape.fraction))
        lossy |= d > shape.fraction
    if shape.extents and vector.nonzero and vector.extent:
        reach = max(e * there for e, there in zip(block.extent, block.nonzero, strict=True))
        lossy |= reach > 0 and vector.extent + reach > shape.window
    poison = [
        int(shape.poison and bool(vector.poison or any(block.poison[lane] if north else column)))
        for lane, column in enumerate(zip(*block.poison, strict=True))
    ]
    return Added(sums, lossy, poison)


class Operands:
    """Random vectors and blocks: full-scale, small and zero elements, near and far deficits."""

    def __init__(self, rng, shape):
        self.rng, self.shape, self.block = rng, shape, shape.block
        self.most = shape.sum_bits + shape.fraction

    def element(self, kind, scale):
        rng, bits = self.rng, kind.significand_bits
        sign, top = rng.getrandbits(1), (1 << bits) - 1
        significand = top if scale == "full" else rng.randrange(top + 1)
        if not kind.depth:
            return sign, significand, 0
        d = 0 if scale == "full" else rng.choice((0, rng.randint(0, 4), rng.randint(0, kind.depth)))
        d = min(d, kind.depth)
        if kind.derived and d < kind.depth and rng.random() < 0.9:
            significand |= 1 << (bits - 1)
        elif kind.derived and not significand >> (bits - 1):
            d = kind.depth
        return (sign, significand, d) if significand else (sign, 0, 0)

    def deficit(self):
        kind = self.rng.randrange(6)
        if kind == 0:
            return self.most
        if kind == 1:
            return self.rng.randint(0, self.most)
        return self.rng.randint(0, (self.shape.fraction + 2) // 2 if kind < 4 else 2)

    def nonzero(self):
        return int(self.rng.random() < 0.9)

    def significand(self):
        return self.rng.choice((15, self.rng.randrange(1, 16)))

    def extent(self, kind):
        most = kind.significand_bits + kind.depth
        return self.rng.choice((0, self.rng.randint(0, most), self.rng.randint(0, most // 2)))

    def poison(self):
        return int(self.rng.random() < 0.03)

    def scale(self):
        return self.rng.choice(("full", "any", "any"))

    def vector(self, kind, nonzero=None):
        """One of the elements ``kind``; ``nonzero`` 0 makes it a bubble."""
        scale = self.scale()
        return Vector(
            kind,
            [self.element(kind, scale) for _ in range(self.block)],
            self.deficit(),
            self.nonzero() if nonzero is None else nonzero,
            self.significand(),
            self.extent(kind),
            self.poison() if nonzero is None else 0,
        )

    def stationary(self, square=True):
        """A block; not ``square``: every row has a deficit to the north, and marks, of its own."""
        scale, side, kind = self.scale(), self.block, self.shape.stationary
        poisoned = self.rng.random() < 0.3
        one = self.deficit(), self.nonzero(), self.significand()
        each = [
            one if square else (self.deficit(), self.nonzero(), self.significand())
            for _ in range(side)
        ]
        north, nonzero, significand = (list(marks) for marks in zip(*each, strict=True))
        return Block(
            [[self.element(kind, scale) for _ in range(side)] for _ in range(side)],
            self.deficit(),
            north,
            nonzero,
            significand,
            [self.extent(kind) for _ in range(side)],
            [[int(poisoned) and self.poison() for _ in range(side)] for _ in range(side)],
        )

    def any_stationary(self):
        """A block as the shape allows it: a square, or with marks of its own for every row."""
        return self.stationary(square=not self.shape.lane_deficits or self.rng.random() < 0.4)


@dataclass(frozen=True)
class Offer:
    """What a cell's loading has in one cycle, and the block that it then holds, if it is known."""

    block: Block
    row: int
    index: int
    valid: int
    swap: int
    stationary: Block | None

    def const(self, shape):
        """The word as an initialiser of ``stationary_layout(shape)``."""
        return self.block.const(shape, self.row, self.index) | {"valid": self.valid}

    def passed_on(self, shape):
        """What leaves to the north one cycle later if it is valid: a word for another cell."""
        absent = [f"deficit_{name}" for name in ("east", "north") if name not in shape.directions]
        word = self.block.const(shape, self.row - 1, self.index)
        return word | dict.fromkeys(absent, 0)


class Loading:
    """Blocks one after the other, their words with gaps, and swaps, early ones too.

    A block's first word is the first to come, the others in any order, between them words of other
    cells and noise. The first word of the next block may come together with a swap.
    """

    def __init__(self, operands, p_valid=0.8):
        self.operands, self.rng, self.p_valid = operands, operands.rng, p_valid
        self.active = None
        self._next_block()

    def _next_block(self):
        self.block = self.operands.any_stationary()
        self.indices = list(range(1, self.operands.block))
        self.rng.shuffle(self.indices)
        self.indices.append(0)  # taken from the end

    def cycle(self):
        stationary, rng = self.active, self.rng
        complete = not self.indices
        swap = rng.random() < (0.5 if complete else 0.02)
        if swap:
            self.active = self.block if complete else None
            if complete:
                self._next_block()
        if self.indices and rng.random() < self.p_valid:
            return Offer(self.block, 0, self.indices.pop(), 1, int(swap), stationary)
        other, index = self.operands.any_stationary(), rng.randrange(self.operands.block)
        valid = rng.getrandbits(1)
        row = rng.randrange(1, self.operands.shape.rows) if valid else rng.choice((0, 1))
        return Offer(other, row, index, valid, int(swap), stationary)


class Slots:
    """What a cell is to do with the slots that it is given: its model, one cycle at a time."""

    def __init__(self, operands, room):
        self.operands, self.rng, self.shape, self.room = (
            operands,
            operands.rng,
            operands.shape,
            room,
        )

    def cycle(self):
        """A random slot: direction bit, whether it goes north, a vector for every side."""
        shape, rng = self.shape, self.rng
        direction = rng.getrandbits(1)
        north = bool(direction) if len(shape.directions) == 2 else shape.directions == ("north",)
        return Slot(
            direction,
            north,
            self.operands.vector(shape.south),
            self.operands.vector(shape.west),
            [self._sums() for _ in range(2)],
        )

    def _sums(self):
        rng, side = self.rng, self.shape.block
        return Added(
            [rng.randrange(-self.room, self.room) for _ in range(side)],
            rng.random() < 0.2,
            [int(self.shape.poison and rng.random() < 0.2) for _ in range(side)],
        )


@dataclass(frozen=True)
class Slot:
    """One slot of a cell, and what arrives with it at its inputs for partial sums: west, south."""

    direction: int
    north: bool
    south: Vector
    west: Vector
    before: list

    @property
    def vector(self):
        return self.west if self.north else self.south

    def times(self, block, shape):
        """What the slot adds; None if that is not defined: no block, or one that is no square."""
        if block is None or not (self.north or block.is_square):
            return None
        return multiply(self.vector, block, self.north, shape)


def sums_const(sums, shape):
    """``sums`` as an initialiser of ``sum_layout(...)``."""
    poison = sum(bit << lane for lane, bit in enumerate(sums.poison))
    return {"sums": sums.sums, "inexact": int(sums.inexact)} | (
        {"poison": poison} if shape.poison else {}
    )


def added(before, these):
    """Partial sums and flags after a cell."""
    return Added(
        [a + b for a, b in zip(before.sums, these.sums, strict=True)],
        before.inexact or these.inexact,
        [a | b for a, b in zip(before.poison, these.poison, strict=True)],
    )
