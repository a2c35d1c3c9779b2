# amaranth: UnusedElaboratable=no
"""Tiles from beats into the buffer: words, their places and their exponents, in every cycle."""

from fractions import Fraction

import pytest

from diastole_hw.convert.intake.intake import Intake
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from oracle.formats import deficit, element, round_to_code
from oracle.threefry import draw
from support.bench import design, put, run, simulation
from support.sweep import sweep
from support.tiles import (
    MACHINES,
    class_of,
    draws_early,
    finds,
    joined,
    machine,
    piece_cols,
    tile_shape,
    tiles_of,
)

NAMES = list(MACHINES)
SCANNED = ("squares", "words of many blocks", "vectors", "tensor scales", "folding tensors")
SCALES = element("fp8_e4m3").values
SCALE = 131  # of a tensor: e + 127, or T + 138
DRAWN = {"seed": 0x1234_5678, "tag": 0x9ABC_DEF0, "step": 77}
NONE = 0x7F80_0000  # bits of Inf, and above them of NaN


def random_float(rng):
    """Bits of a number of some binades around 1, sometimes of a special one."""
    if rng.random() < 0.2:
        return rng.choice([0, 1 << 31, 1, 0x807F_FFFF, NONE, 0xFF80_0000, 0x7FC0_0000, 0xFF80_0001])
    fraction = rng.getrandbits(23)
    if rng.random() < 0.5:  # to be rounded to the next binade, or not
        fraction |= 0x70_0000
    return rng.getrandbits(1) << 31 | rng.randrange(118, 136) << 23 | fraction


def is_number(bits):
    return 0 < bits >> 23 & 0xFF < 0xFF


def stored(numerics, cls, bits, random=0):
    """What is measured of a group of this element alone; rules are ``floor`` where there are any.
    Where any class has two scales to choose from, that for 6 is above that for 4."""
    if any(finds(numerics, each) for each in range(3)):
        four = alone(numerics, cls, bits, random, 4 if finds(numerics, cls) else 6)
        return alone(numerics, cls, bits, random) << 8 | four
    return alone(numerics, cls, bits, random)


def alone(numerics, cls, bits, random, becomes=6):
    """The exponent of the element's group."""
    chosen = class_of(numerics, cls)
    if numerics.folds(CLASS_NAMES[cls]):
        return top(numerics, chosen, bits, random)
    if bits & NONE == NONE:
        if numerics.special == "poison":
            byte = 0x7F if chosen.format.name == "nvfp4" else 255
            return byte if element(chosen.format.name).nan is None else 0
        infinite = bits & 0x7FFF_FFFF == NONE
        return SCALE if infinite and chosen.grouping.kind == "tensor" else 0
    if not is_number(bits):
        return 0
    if chosen.format.name == "nvfp4":
        value = Fraction((bits & 0x7F_FFFF) | 1 << 23) * Fraction(2) ** ((bits >> 23 & 0xFF) - 150)
        wanted = value / (becomes * Fraction(2) ** (SCALE - 138))
        return min(range(len(SCALES)), key=lambda code: (abs(SCALES[code] - wanted), code % 2))
    return SCALE if chosen.grouping.kind == "tensor" else bits >> 23 & 0xFF


def top(numerics, chosen, bits, random):
    """What a block of this element alone is folded by: D + 1 - d of its code."""
    kind, poison = element(chosen.format.name), numerics.special == "poison"
    code = 0
    if bits & NONE == NONE:
        if poison and kind.nan is None:
            return 255
        if bits & 0x7FFF_FFFF == NONE and not poison:
            code = kind.top
    elif is_number(bits):
        value = Fraction((bits & 0x7F_FFFF) | 1 << 23) * Fraction(2) ** ((bits >> 23 & 0xFF) - 150)
        unit = Fraction(2) ** (SCALE - 127 - kind.largest_exponent)
        code = round_to_code(kind, value / unit, chosen.rounding, random, numerics.random_bits)
        code = min(code, kind.top)
    if code == 0:
        return 0
    by = deficit(kind, code)
    too_large = kind.values[code] * 2**by not in kind.values
    return chosen.format.depth + 1 - by + too_large


class Bench:
    """Tiles of one tensor given to an :class:`Intake`, and all that it does, cycle by cycle; with
    ``by_blocks`` as a chain gives them."""

    def __init__(self, name, cls, shape, rng, *, streamed=False, by_blocks=False):
        self.numerics, self.data_width = machine(name)
        self.dut = design(
            Intake,
            ConverterSizes(numerics=self.numerics, data_width=self.data_width),
            streamed=streamed,
        )
        self.cls, self.rng, self.by_blocks = cls, rng, by_blocks
        self.lanes = self.dut.sizes.lanes
        height, width = (max(sides) for sides in zip(*self.shapes(), strict=True))
        self.halves = 1 if height * width > 4096 else 2
        self.tiles = tiles_of(self.numerics, cls, *shape)
        self.piece = piece_cols(self.numerics, self.data_width, cls)
        some = [random_float(rng) for _ in range(60)]
        self.values = [rng.choices(some, k=shape[1]) for _ in range(shape[0])]
        self.draws = draws_early(self.numerics, cls)
        words = [tile.rows * -(-tile.cols // self.lanes) for tile in self.tiles]
        self.ends = [sum(words[: n + 1]) - 1 for n in range(len(words))]  # the last of every tile
        self.cycle = 0
        self.writes, self.adds, self.taken, self.done = [], [], [], []
        self.begun = self.ended = self.freed = self.amax = 0

    def shapes(self):
        return [tile_shape(self.numerics, cls) for cls in range(3)]

    @property
    def source(self):
        return self.dut.words if self.by_blocks else self.dut.data

    @property
    def pitch(self):
        """Floats from one row to the next: whole beats."""
        floats = self.data_width // 32
        return -(-len(self.values[0]) // floats) * floats

    def fields(self):
        return [tile.fields(4 * (tile.row * self.pitch + tile.col)) for tile in self.tiles]

    def pieces(self):
        """(number of its tile, the tile, its columns in the tile) of every piece."""
        for number, tile in enumerate(self.tiles):
            for left in range(0, tile.cols, self.piece):
                yield number, tile, range(left, min(left + self.piece, tile.cols))

    def data(self):
        """The beats that have a float of a piece's row, row by row; noise beside the tensor. Of a
        chain its words."""
        if self.by_blocks:
            width = len(self.values[0])
            for _, _, _, inside, _, _, index in self.words():
                inside = inside[: width - index % width]
                noise = [self.rng.getrandbits(32) for _ in range(self.lanes - len(inside))]
                yield joined(inside + noise, 32)
            return
        floats = self.data_width // 32
        for _, tile, cols in self.pieces():
            for row in range(tile.row, tile.row + tile.rows):
                first = (tile.col + cols[0]) // floats * floats
                for start in range(first, tile.col + cols[-1] + 1, floats):
                    beat = 0
                    for n, col in enumerate(range(start, start + floats)):
                        inside = col < len(self.values[0])
                        bits = self.values[row][col] if inside else self.rng.getrandbits(32)
                        beat |= bits << 32 * n
                    yield beat

    def words(self):
        """(half, row, word, floats, ends its row in the piece, is in the last row, index of its
        first element) of all words."""
        for number, tile, piece in self.pieces():
            words = self.words_of_piece(number, tile, piece)
            if self.by_blocks:
                rows = self.numerics.block
                step = max(1, rows // self.lanes)
                words = sorted(words, key=lambda w: (w[1] // rows, w[2] // step, *w[1:3]))
            yield from words

    def words_of_piece(self, number, tile, piece):
        """Row by row."""
        for row in range(tile.rows):
            for first in piece[:: self.lanes]:
                cols = range(first, first + self.lanes)
                line = self.values[tile.row + row]
                floats = [line[tile.col + c] if c < tile.cols else 0 for c in cols]
                end = first + self.lanes > piece[-1]
                yield (
                    number % self.halves,
                    row,
                    first // self.lanes,
                    floats,
                    end,
                    row + 1 == tile.rows,
                    tile.index + row * len(self.values[0]) + first,
                )

    async def watch(self, ctx):
        dut = self.dut
        while True:
            _, _, write, at, word, add, added, row_end, last_row, values, taken, tile, done = (
                await ctx.tick().sample(
                    dut.write_en, dut.write_at, dut.write_data,
                    dut.add, dut.at, dut.row_end, dut.last_row, dut.values,
                    dut.loaded.valid, dut.loaded.payload, dut.done,
                )
            )  # fmt: skip
            if write:
                floats = [word >> 32 * n & 0xFFFF_FFFF for n in range(self.lanes)]
                self.writes.append((self.cycle, (at.half, at.row, at.word), floats))
                self.begun += (at.row, at.word) == (0, 0)
                assert self.begun <= self.freed + self.halves, "a word where there is no room"
            if add:
                place = (added.half, added.row, added.word)
                bytes_ = [values[n] for n in range(self.lanes)]
                self.adds.append((self.cycle, place, bytes_, row_end, last_row))
            if taken:
                self.taken.append((self.cycle, tile.index, tile.rows, tile.cols))
            if done:
                self.done.append(self.cycle)
            self.cycle += 1

    async def count_ends(self, ctx):
        """Of tiles in the buffer."""
        dut = self.dut
        while True:
            _, _, *end, scan = await ctx.tick().sample(dut.tile.valid, dut.tile.ready, dut.scan)
            self.ended += all(end) and not scan

    async def free(self, ctx, p_free):
        """Give tiles back, some time after they were taken."""
        while True:
            freed = self.ended > self.freed and self.rng.random() < p_free
            ctx.set(self.dut.freed, freed)
            self.freed += freed
            await ctx.tick()

    def run(self, p_tile=1.0, p_data=1.0, p_free=1.0, scan=False):
        dut, rng = self.dut, self.rng

        async def set_up(ctx):
            ctx.set(dut.cls, self.cls)
            ctx.set(dut.scale, SCALE)
            ctx.set(dut.scan, scan)
            if dut.streamed:
                ctx.set(dut.by_blocks, self.by_blocks)
                for other in (dut.words, dut.data):  # the one that does not count
                    ctx.set(other.valid, other is not self.source)
            if any(dut.sizes.folds_by_draws):
                ctx.set(dut.cols, len(self.values[0]))
                for member, value in DRAWN.items():
                    ctx.set(getattr(dut, member), value)
            ctx.set(dut.restart, 1)
            await ctx.tick()
            ctx.set(dut.restart, 0)

        async def tiles(ctx):
            await set_up(ctx)
            await put(ctx, dut.tile, self.fields(), lambda: rng.random() < p_tile)
            for _ in range(40):
                await ctx.tick()
            self.amax = ctx.get(dut.amax)

        async def data(ctx):
            await ctx.tick()
            await put(ctx, self.source, self.data(), lambda: rng.random() < p_data)

        async def free(ctx):
            await self.free(ctx, p_free)

        async def watch_other(ctx):
            other = dut.data if self.by_blocks else dut.words
            while True:
                assert not (await ctx.tick().sample(other.ready))[-1], "taken from the other side"

        background = [self.watch, self.count_ends, free, *([watch_other] if dut.streamed else [])]
        run(dut, tiles, data, background=background, limit=60_000)

    def check(self):
        """All words are written, and later measured."""
        wanted = list(self.words())
        later = 4 if any(map(self.numerics.folds, CLASS_NAMES)) else 1
        later += any(draws_early(self.numerics, cls) for cls in range(3))
        assert [write[1:] for write in self.writes] == [(word[:3], word[3]) for word in wanted]
        for (cycle, *add), write, (*place, floats, row_end, last_row, index) in zip(
            self.adds, self.writes, wanted, strict=True
        ):
            values = [self.value(bits, index + n) for n, bits in enumerate(floats)]
            assert add == [tuple(place), values, row_end, last_row]
            assert cycle >= write[0] + later if self.draws else cycle == write[0] + later
        seen = [tile[1:] for tile in self.taken]
        assert seen == [(tile.index, tile.rows, tile.cols) for tile in self.tiles]
        pieces = [n for n, word in enumerate(wanted) if word[4] and word[5]]
        begins = [0, *(end + 1 for end in self.ends[:-1])]
        firsts = [min(end for end in pieces if end >= begin) for begin in begins]
        assert [tile[0] + 1 for tile in self.taken] == [self.writes[n][0] for n in firsts]
        assert self.done == [self.writes[-1][0] - 1 + self.dut.scanning]
        self.check_amax()

    def value(self, bits, index):
        """Of an element."""
        random = draw(**DRAWN, index=index, bits=self.numerics.random_bits) if self.draws else 0
        return stored(self.numerics, self.cls, bits, random)

    def check_amax(self):
        numbers = [bits & 0x7FFF_FFFF for row in self.values for bits in row if is_number(bits)]
        assert self.amax == max(numbers, default=0)


def shape_of(name, cls, rng):
    """More than one tile in each direction, where that isn't too much."""
    height, width = tile_shape(machine(name)[0], cls)
    rows = height + 1 if height * width <= 1024 else rng.randrange(2, 6)
    return rows, width + rng.randrange(1, width)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cls", range(3))
@pytest.mark.sampled(5)
def test_tiles(name, cls, rng):
    """With stalls everywhere, and the buffer full most of the time."""
    bench = Bench(name, cls, shape_of(name, cls, rng), rng)
    bench.run(p_tile=0.5, p_data=0.6, p_free=0.05)
    bench.check()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cls", range(3))
@pytest.mark.sampled(15)
def test_tiles_by_blocks(name, cls, rng):
    """As a chain gives them; then others as before, in the same machine."""
    for by_blocks in (True, False):
        bench = Bench(name, cls, shape_of(name, cls, rng), rng, streamed=True, by_blocks=by_blocks)
        bench.run(p_tile=0.5, p_data=0.6, p_free=0.05)
        bench.check()


@pytest.mark.parametrize("by_blocks", [False, True], ids=["rows", "blocks"])
def test_every_row_draws_its_own(by_blocks, rng):
    """Rows that begin anywhere among the draws of a hash; every element hangs on its draw."""
    for cols in (33, 34, 39):
        bench = Bench("folding tensors", 2, (6, cols), rng, streamed=by_blocks, by_blocks=by_blocks)
        bench.values = [
            [rng.randrange(118, 136) << 23 | 0x70_0000 | rng.getrandbits(20) for _ in range(cols)]
            for _ in range(6)
        ]
        bench.run(p_data=0.9)
        bench.check()


@pytest.mark.parametrize("by_blocks", [False, True], ids=["rows", "blocks"])
def test_draws_take_no_time(by_blocks, rng):
    """Of rows that begin with a hash: each word is measured as soon as the first one."""
    bench = Bench("folding tensors", 2, (8, 64), rng, streamed=by_blocks, by_blocks=by_blocks)
    bench.run()
    bench.check()
    assert {add[0] - write[0] for add, write in zip(bench.adds, bench.writes, strict=True)} == {19}
    assert bench.writes[-1][0] - bench.writes[0][0] == len(bench.writes) - 1


@pytest.mark.parametrize("name", [name if name in SCANNED else sweep(name) for name in NAMES])
def test_scan(name, rng):
    """Only the largest magnitude is found; nothing waits for room."""
    bench = Bench(name, rng.randrange(3), shape_of(name, 0, rng), rng)
    bench.run(p_data=0.7, p_free=0, scan=True)
    assert (bench.writes, bench.adds, bench.taken) == ([], [], [])
    assert len(bench.done) == 1
    bench.check_amax()


async def test_scan_needs_no_room(rng):
    """Tiles of the tensor before may still be in the buffer."""
    bench = Bench("squares", 0, (4, 32 * 3), rng)
    dut, halves = bench.dut, bench.halves
    beats = list(bench.data())
    filling = len(beats) // len(bench.tiles) * halves
    ctx = await simulation(dut)

    async def send(count, start):
        ctx.set(dut.data.valid, 1)
        for beat in beats[start : start + count]:
            ctx.set(dut.data.payload, beat)
            assert (await ctx.tick().sample(dut.data.ready))[-1]
        ctx.set(dut.data.valid, 0)

    ctx.set(dut.tile.valid, 1)
    for number in range(halves):
        ctx.set(dut.tile.payload, bench.fields()[number])
        await send(filling // halves, number * filling // halves)
    ctx.set(dut.tile.payload, bench.fields()[halves])
    assert not (await ctx.tick().sample(dut.data.ready))[-1], "there is no room"
    ctx.set(dut.scan, 1)
    await send(len(beats) - filling, filling)
    ctx.set(dut.tile.valid, 0)
    await ctx.tick().repeat(dut.scanning - 1)
    assert ctx.get(dut.done)


def test_scan_of_nothing(rng):
    """Specials and subnormals alone, after a tensor that had numbers."""
    bench = Bench("tensor scales", 0, (3, 5), rng)
    bench.values = [[rng.choice([1, NONE, 0xFFC0_0000, 0x807F_FFFF]) for _ in range(5)]] * 3
    bench.run(scan=True)
    assert bench.amax == 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("by_blocks", [False, True], ids=["rows", "blocks"])
@pytest.mark.sampled(4)
def test_timing(name, by_blocks, rng):
    """A word per cycle, as long as beats come and there is room; draws have a test of their own."""
    cls = rng.choice([n for n in range(3) if not draws_early(machine(name)[0], n)])
    shape = shape_of(name, cls, rng)
    bench = Bench(name, cls, shape, rng, streamed=by_blocks, by_blocks=by_blocks)
    bench.run()
    bench.check()
    cycles = [cycle for cycle, *_ in bench.writes]
    gaps = 0 if bench.halves == 2 else 2 * (len(bench.tiles) - 1)  # until the one half is free
    assert cycles[-1] - cycles[0] <= len(cycles) - 1 + gaps
    assert cycles[0] == 2  # after the restart; a cycle after the word was taken


async def test_ready_does_not_wait_for_data(rng):
    bench = Bench("squares", 0, (4, 8), rng)
    dut = bench.dut
    ctx = await simulation(dut)
    for _ in range(3):
        assert not (await ctx.tick().sample(dut.data.ready))[-1]
    ctx.set(dut.tile.payload, bench.fields()[0])
    ctx.set(dut.tile.valid, 1)
    for _ in range(3):
        assert (await ctx.tick().sample(dut.data.ready))[-1]
    assert not ctx.get(dut.write_en)
