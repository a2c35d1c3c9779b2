# amaranth: UnusedElaboratable=no
"""Which scale each unit of a tile gets: sums of squares of errors in exact fractions."""

import pytest

from diastole_hw.convert.lanes.trials import Trials
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from support.bench import design, simulation
from support.tiles import class_of, machine, tile_shape
from support.two_scales import worse

SCALE = 138
"""T = 0."""


class Tile:
    """Random numbers, and random pairs of scales of the units that they lie in."""

    def __init__(self, numerics, cls, rng):
        height, width = tile_shape(numerics, cls)
        self.grouping = class_of(numerics, cls).grouping
        self.vectors = self.grouping.kind == "vector"
        self.side = self.grouping.size
        self.rows = rng.randrange(1, min(height, 20) + 1)
        self.cols = rng.randrange(1, min(width, 40) + 1)
        self.threes = rng.random() < 0.5
        self.numbers = [[self.number(rng) for _ in range(self.cols)] for _ in range(self.rows)]
        self.rng, self.codes = rng, {}

    def number(self, rng):
        """Below 4; or about 9, which is 3 times 3, and between 4 and 6 times 2."""
        if self.threes:
            return 0x4110_0000 + rng.randrange(-999, 999)
        return rng.randrange(118, 129) << 23 | rng.getrandbits(23)

    def unit(self, row, col, down):
        """The name of an element's unit: of its row or square, or of its column."""
        if not self.vectors:
            return "square", row // self.side, col // self.side
        return ("down", row // self.side, col) if down else ("along", row, col // self.side)

    def scales(self, unit):
        """(six, four): E4M3's codes from 1 to 15, the latter about half as large again: no number
        is larger than 6 times the scale."""
        if unit not in self.codes:
            six = self.rng.randrange(56, 80)
            self.codes[unit] = six, six + self.rng.randrange(3, 6)
            if self.threes:
                self.codes[unit] = 64, 68
        return self.codes[unit]

    def right(self, unit):
        """1 where the squares of errors are smaller with the scale for 4."""
        total = 0
        for row in range(self.rows):
            for col in range(self.cols):
                if unit in (self.unit(row, col, False), self.unit(row, col, True)):
                    total += worse(self.numbers[row][col], *self.scales(unit), SCALE)
        return int(total < 0)


async def give(ctx, dut, tile):
    """All words of a tile, row by row."""
    lanes = dut.sizes.lanes
    for row in range(tile.rows):
        for first in range(0, tile.cols, lanes):
            here = [(row, first + n) for n in range(lanes) if first + n < tile.cols]
            word = {"at": {"row": row, "word": first // lanes}, "add": 1}
            word |= {"row_end": first + lanes >= tile.cols, "last_row": row + 1 == tile.rows}
            ctx.set(dut.word, word)
            numbers = sum(tile.numbers[r][c] << 32 * (c - first) for r, c in here)
            ctx.set(dut.values, numbers)
            for port, down in ((dut.measured, False), (getattr(dut, "measured_t", None), True)):
                if port is None:
                    continue
                for r, c in here:
                    six, four = tile.scales(tile.unit(r, c, down))
                    ctx.set(port[c - first], four | six << 8)
            await ctx.tick()
            ctx.set(dut.word, {})


async def finish(ctx, dut):
    for _ in range(40):
        if ctx.get(dut.done):
            break
        await ctx.tick()
    else:
        raise AssertionError("the tile is never done")
    await ctx.tick()


@pytest.mark.parametrize(
    "name, cls", [("two scales", 0), ("two scales", 1), ("squares of two scales", 1)]
)
async def test_units(name, cls, rng):
    """Of some tiles, one after the other, each read when it is done."""
    numerics, data_width = machine(name)
    dut = design(Trials, ConverterSizes(numerics=numerics, data_width=data_width))
    lanes, found = dut.sizes.lanes, set()
    ctx = await simulation(dut, limit=20_000)
    ctx.set(dut.cls, cls)
    ctx.set(dut.scale, SCALE)
    for _ in range(6):
        tile = Tile(numerics, cls, rng)
        await give(ctx, dut, tile)
        await finish(ctx, dut)
        if not tile.vectors:
            for unit in {tile.unit(0, col, False) for col in range(tile.cols)}:
                assert ctx.get(dut.squares[unit[2] % len(dut.squares)]) == tile.right(unit)
                found.add(tile.right(unit))
            continue
        for row in range(tile.rows):
            for first in range(0, tile.cols, lanes):
                ctx.set(dut.read_en, 1)
                ctx.set(dut.read_at, {"row": row, "word": first // lanes})
                await ctx.tick()
                right = tile.right(tile.unit(row, first, False))
                assert ctx.get(dut.row_value) == right
                for col in range(first, min(first + lanes, tile.cols)):
                    down = tile.right(tile.unit(row, col, True))
                    assert ctx.get(dut.column_values[col - first]) == down
                    found.update((right, down))
    assert found == {0, 1}


async def test_squares_are_those_of_the_class(rng):
    """8 is 4 times the scale for 6, and 9 is 3 times that for 4: what most numbers of a square of
    16 are counts, not what those of its first two columns are, which were a square of class 0."""
    numerics, data_width = machine("squares of two scales")
    dut = design(Trials, ConverterSizes(numerics=numerics, data_width=data_width))
    ctx = await simulation(dut)
    ctx.set(dut.cls, 1)
    ctx.set(dut.scale, SCALE)
    eight, nine = 0x4100_0000, 0x4110_0000
    for few, most in ((eight, nine), (nine, eight)):
        tile = Tile(numerics, 1, rng)
        tile.threes, tile.rows, tile.cols = True, 1, 16
        tile.numbers = [[few] * 2 + [most] * 14]
        await give(ctx, dut, tile)
        await finish(ctx, dut)
        assert ctx.get(dut.squares[0]) == tile.right(("square", 0, 0)) == (most == nine)
