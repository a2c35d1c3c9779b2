# amaranth: UnusedElaboratable=no
"""The order of a tile's words, against loops over rows of blocks, groups and rows."""

from itertools import pairwise

import pytest

from diastole_hw.convert.lanes.passes import Passes
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from support.bench import design, run
from support.tiles import (
    MACHINES,
    Tile,
    class_of,
    finds,
    machine,
    piece_cols,
    tile_shape,
    tiles_of,
)

NAMES = list(MACHINES)


def finding_steps(tile, lanes):
    """Every word that begins inside the tensor, row by row."""
    for row in range(tile.rows):
        for col in range(0, tile.cols, lanes):
            yield {
                "row": row,
                "col": col,
                "row_end": col + lanes >= tile.cols,
                "last_row": row + 1 == tile.rows,
            }


def storing_steps(tile, block, lanes, vectors, piece):
    """Rows of blocks, their groups of 8 blocks, the group's blocks, as many as a word covers at a
    time, their rows."""
    side = max(block, lanes)
    wide, strip = 8 * block, 8 * block
    rows = -(-tile.rows // block) * block  # of blocks that are in the tensor
    cols = -(-tile.cols // side) * side
    tops = range(0, tile.rows, block)
    lefts = range(0, tile.cols, wide)
    groups = [(top, left) for top in tops for left in lefts]
    ends = {min(top + strip, rows) - 1 for top in range(0, rows, strip)}  # last rows of strips
    for top, left in groups:
        words = [
            (row, col)
            for begin in range(left, min(left + wide, cols), side)
            for row in range(top, top + block)
            for col in range(begin, begin + side, lanes)
        ]
        for row, col in words:
            strip_last = vectors and row in ends and col + lanes == cols
            yield {
                "row": row,
                "col": col,
                "first": (row, col) == words[0],
                "last": (row, col) == words[-1],
                "line_end": left == lefts[-1],
                "copy_end": (top, left) == groups[-1],
                "strip_first": vectors and col == 0 and row % strip == 0,
                "strip_last": strip_last,
                **({"strip_end": row // strip == (rows - 1) // strip} if vectors else {}),
                "piece_end": ends_piece(tile, block, piece, row, col, col + lanes, cols),
                "tile_end": (top, left) == groups[-1] and (row, col) == words[-1],
            }


def ends_piece(tile, block, piece, row, col, end, cols):
    """A word from ``col`` to ``end`` of a row, in a tile whose blocks end at ``cols``."""
    bottom = (tile.rows - 1) // block * block + block - 1
    return row == bottom and (end == cols or end % piece == 0)


def passes_of(numerics, data_width, cls, tile, lanes, finding):
    """(find, steps) of every pass over a tile."""
    if finding:
        yield True, list(finding_steps(tile, lanes))
    vectors = class_of(numerics, cls).grouping.kind == "vector"
    piece = piece_cols(numerics, data_width, cls)
    yield False, list(storing_steps(tile, numerics.block, lanes, vectors, piece))


class Bench:
    """Tiles of one tensor, and what stands behind the unit: ``used`` and ``found`` some time after
    the words of a pass."""

    def __init__(self, name, cls, shape, rng, p_tile=1.0, p_ready=1.0, p_used=1.0, tiles=None):
        numerics, data_width = machine(name)
        self.dut = design(Passes, ConverterSizes(numerics=numerics, data_width=data_width))
        self.cls, self.shape, self.rng = cls, shape, rng
        self.p_tile, self.p_ready, self.p_used = p_tile, p_ready, p_used
        self.lanes = self.dut.sizes.lanes
        self.halves = self.dut.sizes.buffered_tiles
        self.finds = finds(numerics, cls)
        self.tiles = tiles or tiles_of(numerics, cls, *shape)
        self.passes = [
            (number, *each)
            for number, tile in enumerate(self.tiles)
            for each in passes_of(numerics, data_width, cls, tile, self.lanes, self.finds)
        ]
        self.cycle, self.cycles = 0, []

    def check_step(self, step, number, find, wanted):
        tile = self.tiles[number]
        what = f"tile {number} find {find} {wanted}"
        row, col = wanted["row"], wanted["col"]
        half = number % 2 if self.halves == 2 else 0
        place = (step.at.half, step.at.row, step.at.word)
        assert place == (half, row, col // self.lanes), what
        assert step.find == find, what
        inside = row < tile.rows and col < tile.cols
        assert step.inside == inside, what
        if inside:
            index = (tile.row + row) * self.shape[1] + tile.col + col
            assert step.index == index % 2**34, what
        for flag, value in wanted.items():
            if flag not in ("row", "col"):
                assert getattr(step, flag) == value, f"{what}: {flag}"
        if find:
            assert not step.tile_end, what

    async def give_tiles(self, ctx):
        dut = self.dut
        ctx.set(dut.cls, self.cls)
        ctx.set(dut.cols, self.shape[1])
        for tile in self.tiles:
            while self.rng.random() >= self.p_tile:
                await ctx.tick()
            ctx.set(dut.tile.payload, tile.fields())
            ctx.set(dut.tile.valid, 1)
            while not (await ctx.tick().sample(dut.tile.ready))[-1]:
                pass
            ctx.set(dut.tile.valid, 0)

    async def take_words(self, ctx):
        dut, rng = self.dut, self.rng
        given = 0  # and not yet used
        for number, find, steps in self.passes:
            for wanted in steps:
                while True:
                    ctx.set(dut.o.ready, rng.random() < self.p_ready)
                    _, _, valid, ready, step = await ctx.tick().sample(
                        dut.o.valid, dut.o.ready, dut.o.payload
                    )
                    self.cycle += 1
                    given = max(0, given - (rng.random() < self.p_used)) + (valid and ready)
                    ctx.set(dut.used, given == 0)
                    if valid and ready:
                        break
                self.check_step(step, number, find, wanted)
                self.cycles.append(self.cycle)
            if self.finds:
                given = await self.between(ctx, find, given)

    async def between(self, ctx, find, given):
        """Nothing comes before all is used, and what was looked for is found."""
        dut = self.dut
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.used, find)  # which says nothing while something is looked for
        given *= not (find and self.p_used == 1)
        while given or (self.p_used < 1 and self.rng.random() < 0.7):
            await self.nothing_comes(ctx)
            given -= given > 0 and self.rng.random() < self.p_used
        if find:
            ctx.set(dut.trials_done, 1)
            await self.nothing_comes(ctx)
            ctx.set(dut.trials_done, 0)
        ctx.set(dut.used, 1)
        return given

    async def nothing_comes(self, ctx):
        valid = (await ctx.tick().sample(self.dut.o.valid))[-1]
        self.cycle += 1
        assert not valid, "a word before those of the pass before were used"

    def run(self):
        async def end(ctx):
            await self.take_words(ctx)
            ctx.set(self.dut.o.ready, 1)
            for _ in range(4):
                assert not (await ctx.tick().sample(self.dut.o.valid))[-1], "a word too many"

        run(self.dut, self.give_tiles, end, limit=60_000)


def shape_of(name, cls, rng):
    """More than one tile, the last ones clipped."""
    height, width = tile_shape(machine(name)[0], cls)
    small = height * width <= 1024
    return height + rng.randrange(1, height + 1) if small else rng.randrange(
        1, 5
    ), width + rng.randrange(1, width)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cls", range(3))
@pytest.mark.sampled(4)
def test_order(name, cls, rng):
    Bench(name, cls, shape_of(name, cls, rng), rng, p_tile=0.6, p_ready=0.6, p_used=0.4).run()


@pytest.mark.parametrize("name", ["squares", "large squares", "vectors", "two scales"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 64)])
def test_small_tensors(name, shape, rng):
    for cls in range(3):
        Bench(name, cls, shape, rng, p_used=0.5).run()


def test_indices_use_all_their_bits(rng):
    """The last rows and columns of a tensor as wide as one may be, far down."""
    rows, cols = 997, 2**24 - 1
    tile = Tile(row=rows - 5, col=cols - 31, rows=5, cols=31, tensor_rows=rows, tensor_cols=cols)
    Bench("vectors", 0, (rows, cols), rng, tiles=[tile]).run()


@pytest.mark.parametrize(
    "name, gap",
    [("squares", 0), ("long vectors", 0), ("squares of two scales", 2), ("two scales", 2)],
)
def test_timing(name, gap, rng):
    """A word per cycle; 2 cycles between passes where all is used and found at once."""
    bench = Bench(name, 0, (8, 80), rng)
    bench.run()
    lengths = [len(steps) for *_, steps in bench.passes]
    starts = {sum(lengths[:number]) for number in range(1, len(lengths))}
    gaps = [after - before - 1 for before, after in pairwise(bench.cycles)]
    assert len(gaps) == sum(lengths) - 1
    assert gaps == [gap if number in starts else 0 for number in range(1, sum(lengths))]
