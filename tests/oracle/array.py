"""What an array of cells computes: random passes, slots of both directions, and their sums."""

from dataclasses import dataclass

from oracle.cell import Added, Operands, added, multiply


@dataclass
class Slot:
    """``kind`` "east", "north" or "empty"; a vector for every port, used or not."""

    kind: str
    direction: int
    south: list
    west: list
    swap: bool


@dataclass
class Pass:
    """Held blocks by row and column of cells, first slot, and the slot of each word's loading."""

    blocks: list
    start: int
    words: dict  # slot: (row, index)


class Passes:
    """Passes of ``lengths`` slots, each loaded in the slots of its predecessor."""

    def __init__(self, rng, shape, cols, lengths, p_empty):
        self.rng, self.shape, self.cols = rng, shape, cols
        self.operands = Operands(rng, shape)
        self._passes, self.total = self._plan(lengths)
        self._words = {
            slot: (each, *word) for each in self._passes for slot, word in each.words.items()
        }
        swaps = {each.start - 1 for each in self._passes}
        self._slots = [
            self._new_slot(number, number in swaps, p_empty) for number in range(self.total)
        ]

    def slot(self, number):
        """The slot, or None outside of the plan."""
        return self._slots[number] if 0 <= number < self.total else None

    def word(self, slot, column):
        """The word that goes with a slot at the load port of a column, or noise."""
        if slot in self._words:
            each, row, index = self._words[slot]
            return each.blocks[row][column].const(self.shape, row, index)
        return self.operands.any_stationary().const(self.shape, 0, 0) | {"valid": 0}

    def wanted(self, latencies):
        """(side, port, cycle) to what leaves there: number of the slot, and its sums."""
        wanted = {}
        for number, slot in enumerate(self._slots):
            if slot.kind != "empty":
                blocks = [each for each in self._passes if each.start <= number][-1].blocks
                first = number + latencies[slot.kind]
                for port, sums in enumerate(self._sums(slot, blocks)):
                    wanted[slot.kind, port, first + port] = (number, sums)
        return wanted

    def _plan(self, lengths):
        shape, rng = self.shape, self.rng
        count = shape.rows * shape.block
        passes, start, swapped = [], count + 1, 0
        for length in lengths:
            # From the swap before to the slot before its own swap.
            slots = sorted(rng.sample(range(swapped, start - 1), count))
            square = not shape.lane_deficits or rng.random() < 0.4
            blocks = [
                [self.operands.stationary(square) for _ in range(self.cols)]
                for _ in range(shape.rows)
            ]
            passes.append(Pass(blocks, start, dict(zip(slots, self._order(), strict=True))))
            swapped, start = start - 1, start + length
        return passes, start

    def _order(self):
        """Words of all rows in any order, but a block's first word before its others."""
        words = [
            (row, index) for row in range(self.shape.rows) for index in range(self.shape.block)
        ]
        self.rng.shuffle(words)
        for row in range(self.shape.rows):
            places = [place for place, word in enumerate(words) if word[0] == row]
            first = words.index((row, 0))
            words[places[0]], words[first] = words[first], words[places[0]]
        return words

    def _new_slot(self, number, swap, p_empty):
        rng, shape = self.rng, self.shape
        empty = number < self._passes[0].start or rng.random() < p_empty
        direction = rng.getrandbits(1)
        kind = shape.directions[direction % len(shape.directions)]
        if kind == "east" and not empty and not self._squares(number):
            kind, empty = ("north", False) if "north" in shape.directions else ("east", True)
            direction = 1
        # An empty slot's vectors are bubbles; in the direction that is not used there is anything.
        nonzero = 0 if empty else None
        south = [self.operands.vector(shape.south, nonzero) for _ in range(self.cols)]
        west = [self.operands.vector(shape.west, nonzero) for _ in range(shape.rows)]
        return Slot("empty" if empty else kind, direction, south, west, swap)

    def _squares(self, number):
        """Whether all blocks of the slot's pass may be used to the east."""
        each = [each for each in self._passes if each.start <= number][-1]
        return all(block.is_square for row in each.blocks for block in row)

    def _sums(self, slot, blocks):
        """Sums by port of the side that the slot leaves at."""
        north, side = slot.kind == "north", self.shape.block
        for port in range(self.cols if north else self.shape.rows):
            total = Added([0] * side, False, [0] * side)
            for k, vector in enumerate(slot.west if north else slot.south):
                block = blocks[k][port] if north else blocks[port][k]
                total = added(total, multiply(vector, block, north, self.shape))
            yield total
