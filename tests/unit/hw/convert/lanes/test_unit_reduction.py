# amaranth: UnusedElaboratable=no
"""What every unit of a tile has, against ``max`` over the unit's elements, or ``sum``."""

import pytest

from diastole_hw.convert.lanes.reduction import BelowZero, Largest
from diastole_hw.convert.lanes.unit_reduction import UnitReduction
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from support.bench import design, simulation
from support.sweep import alternating
from support.tiles import MACHINES, class_of, machine, piece_cols, tile_shape

NAMES = list(MACHINES)
WITH_VECTORS = [
    name
    for name in NAMES
    if "vector" in [class_of(machine(name)[0], cls).grouping.kind for cls in range(3)]
]


def reduction_of(name, sizes):
    """Sums of as many elements as the largest unit has."""
    if name == "sums":
        return BelowZero(bits=11, most=sizes.max_elements)
    return Largest(bits={"bytes": 8, "pairs": 16}[name])


class Tile:
    """Random values of what lies in the tensor of a tile, and what its units have: the largest, or
    1 where the sum is below 0."""

    def __init__(self, numerics, data_width, cls, rng, reduction):
        height, width = tile_shape(numerics, cls)
        grouping = class_of(numerics, cls).grouping
        self.cls = cls
        self.piece = piece_cols(numerics, data_width, cls)
        self.vectors = grouping.kind == "vector"
        self.side = numerics.block if grouping.kind == "tensor" else grouping.size
        self.rows = rng.choice([1, height, rng.randrange(1, height + 1)])
        if height * width > 1024:
            self.rows = min(self.rows, 5 + self.side * rng.randrange(2))
        self.cols = rng.choice([1, width, rng.randrange(1, width + 1)])
        self.sums = isinstance(reduction, BelowZero)
        top = rng.choice([1, 4, 1 << reduction.bits - self.sums])  # often equal, or zeros
        least = (-top if top > 1 else 0) if self.sums else 0
        if self.sums and rng.random() < 0.4:  # sums as far from 0 as they may be
            least, top = rng.choice([(-1024, -1023), (1023, 1024)])
        self.values, self.values_t = (
            [[rng.randrange(least, top) for _ in range(self.cols)] for _ in range(self.rows)]
            for _ in range(2)
        )

    def words(self, lanes):
        """(row, word, bytes for rows, for columns, ends its row in the piece, is in the last row),
        piece by piece."""
        for left in range(0, self.cols, self.piece):
            firsts = range(left, min(left + self.piece, self.cols), lanes)
            for row in range(self.rows):
                for first in firsts:
                    here, down = (
                        (values[row] + [0] * lanes)[first : first + lanes]
                        for values in (self.values, self.values_t)
                    )
                    last = first == firsts[-1]
                    yield row, first // lanes, here, down, last, row + 1 == self.rows

    def reduced(self, rows, cols, values=None):
        values = values or self.values
        inside = [values[r][c] for r in rows if r < self.rows for c in cols if c < self.cols]
        return int(sum(inside) < 0) if self.sums else max(inside, default=0)

    def squares(self, count):
        """Of every piece, at their numbers modulo ``count``."""
        for left in range(0, self.cols, self.piece):
            squares = [0] * count
            for first in range(left, left + self.piece, self.side):
                cols = range(first, first + self.side)
                squares[first // self.side % count] = self.reduced(range(self.rows), cols)
            yield squares

    def along(self, row, col):
        first = col // self.side * self.side
        return self.reduced([row], range(first, first + self.side))

    def down(self, row, col):
        first = row // self.side * self.side
        return self.reduced(range(first, first + self.side), [col], self.values_t)


def block_by_block(words, sizes):
    """Words of a piece or a tile by rows, in the order of its blocks, or of what a word covers."""
    step = max(sizes.block_words, 1)
    return sorted(words, key=lambda word: (word[0] // sizes.block, word[1] // step, *word[:2]))


async def add(ctx, dut, tile, half, willing):
    """Give all words of a tile; ``willing()`` says in which cycles one comes."""
    ctx.set(dut.cls, tile.cls)
    words = tile.words(dut.sizes.lanes)
    if dut.by_blocks:
        words = block_by_block(words, dut.sizes)
    for row, word, values, values_t, row_end, last_row in words:
        while not willing():
            await ctx.tick()
        ctx.set(dut.add, 1)
        ctx.set(dut.row, row)
        ctx.set(dut.word, word)
        ctx.set(dut.half, half)
        ctx.set(dut.values, values)
        if dut.sizes.two_copies:
            ctx.set(dut.values_t, values_t)
        ctx.set(dut.row_end, row_end)
        ctx.set(dut.last_row, last_row)
        await ctx.tick()
        ctx.set(dut.add, 0)


def make(name, reduction, by_blocks=False):
    """Sums are of one tile at a time."""
    numerics, data_width = machine(name)
    sizes = ConverterSizes(numerics=numerics, data_width=data_width)
    keys = {"halves": 1 if reduction == "sums" else sizes.buffered_tiles, "by_blocks": by_blocks}
    return numerics, design(UnitReduction, sizes, reduction=reduction_of(reduction, sizes), **keys)


WAYS = {
    "rows-free-bytes": (1.0, False, "bytes"),
    "blocks-stalled-pairs": (0.5, True, "pairs"),
    "rows-stalled-sums": (0.5, False, "sums"),
    "blocks-free-bytes": (1.0, True, "bytes"),
    "rows-free-sums": (1.0, False, "sums"),
}


@pytest.mark.parametrize("name, p_add, by_blocks, reduction", alternating(NAMES, WAYS))
async def test_squares(name, p_add, by_blocks, reduction, rng):
    """Held from ``done``, 2 cycles after the last word, to that of the next tile."""
    numerics, dut = make(name, reduction, by_blocks)
    classes = [cls for cls in range(3) if class_of(numerics, cls).grouping.kind != "vector"]
    if not classes:
        assert not dut.sizes.squares
        assert len(dut.squares.as_value()) == 0
        return
    bus, count = dut.sizes.data_width, dut.sizes.piece_squares
    tiles = [Tile(numerics, bus, rng.choice(classes), rng, dut.reduction) for _ in range(5)]
    wanted = [squares for tile in tiles for squares in tile.squares(count)]
    events = []  # of every cycle: whether the last word comes, `done`, the squares

    async def watch(ctx):
        while True:
            _, _, *flags, done, squares = await ctx.tick().sample(
                dut.add, dut.row_end, dut.last_row, dut.done, dut.squares
            )
            events.append((all(flags), done, [squares[n] for n in range(count)]))

    ctx = await simulation(dut, background=[watch])
    for tile in tiles:
        await add(ctx, dut, tile, 0, lambda: rng.random() < p_add)
        for _ in range(2):  # the class holds up to `done`
            await ctx.tick()
    await ctx.tick()
    lasts = [cycle for cycle, (last, _, _) in enumerate(events) if last]
    dones = [cycle for cycle, (_, done, _) in enumerate(events) if done]
    assert dones == [cycle + 2 for cycle in lasts]
    assert len(dones) == len(wanted)
    for squares, start, end in zip(wanted, dones, [*dones[1:], len(events)], strict=True):
        for cycle in range(start, end):
            assert events[cycle][2] == squares, f"cycle {cycle - start} after done"


@pytest.mark.parametrize("name, p_add, by_blocks, reduction", alternating(WITH_VECTORS, WAYS))
async def test_vectors(name, p_add, by_blocks, reduction, rng):
    """Read from ``done`` on, in any order and with gaps, while the next tile is on its way into the
    other half, if there is one."""
    numerics, dut = make(name, reduction, by_blocks)
    classes = [cls for cls in range(3) if class_of(numerics, cls).grouping.kind == "vector"]
    lanes, halves = dut.sizes.lanes, dut.halves
    bus = dut.sizes.data_width
    order = [classes[n // 2 % len(classes)] for n in range(4)]
    tiles = [Tile(numerics, bus, cls, rng, dut.reduction) for cls in order]
    done, read = [0], [0]

    async def count_done(ctx):
        while True:
            now = (await ctx.tick().sample(dut.done))[-1]
            done[0] += now

    async def drive(ctx):
        for number, tile in enumerate(tiles):
            while number - read[0] >= halves or tile.cls != tiles[read[0]].cls:
                await ctx.tick()
            await add(ctx, dut, tile, number % halves, lambda: rng.random() < p_add)
            while done[0] <= number:
                await ctx.tick()

    ctx = await simulation(dut, drive, background=[count_done], limit=40_000)
    for number, tile in enumerate(tiles):
        while done[0] <= number:
            await ctx.tick()
        places = [(row, word) for row, word, *_ in tile.words(lanes)]
        for row, word in rng.sample(places, min(len(places), 60)):
            ctx.set(dut.read_en, 1)
            ctx.set(dut.read_row, row)
            ctx.set(dut.read_word, word)
            ctx.set(dut.read_half, number % halves)
            await ctx.tick()
            ctx.set(dut.read_en, 0)
            for port in (dut.read_row, dut.read_word, dut.read_half):
                ctx.set(port, 0)
            for _ in range(1 + rng.randrange(2)):
                where = f"tile {number} row {row} word {word}"
                assert ctx.get(dut.row_value) == tile.along(row, word * lanes), where
                columns = ctx.get(dut.column_values)
                for n in range(lanes):
                    if word * lanes + n < tile.cols:
                        wanted = tile.down(row, word * lanes + n)
                        assert columns[n] == wanted, f"{where} lane {n}"
                if rng.random() < 0.7:
                    break
                await ctx.tick()
        read[0] += 1


async def test_vectors_can_be_read_at_once(rng):
    """In the cycle of ``done`` itself, the last word's vectors too."""
    numerics, dut = make("vectors", "bytes")
    tile = Tile(numerics, dut.sizes.data_width, 0, rng, dut.reduction)
    ctx = await simulation(dut)
    await add(ctx, dut, tile, 1, lambda: True)
    await ctx.tick()
    assert ctx.get(dut.done)
    row, word = tile.rows - 1, (tile.cols - 1) // dut.sizes.lanes
    ctx.set(dut.read_en, 1)
    ctx.set(dut.read_row, row)
    ctx.set(dut.read_word, word)
    ctx.set(dut.read_half, 1)
    await ctx.tick()
    first = word * dut.sizes.lanes
    assert ctx.get(dut.row_value) == tile.along(row, first)
    assert ctx.get(dut.column_values)[0] == tile.down(row, first)
