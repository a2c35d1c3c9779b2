# amaranth: UnusedElaboratable=no
"""Words of what a chain gives, against loops over blocks, rows and columns."""

import pytest

from diastole_hw.convert.feed import Feed, fed_row_layout
from support.bench import design, get, put, run
from support.converter_bench import patches_of
from support.sweep import alternating
from support.tiles import MACHINES, machine

SHAPES = [(1, 1), (1, 37), (3, 5), (9, 34), (17, 3), (8, 16)]
NAMES = list(MACHINES)


def make(name):
    numerics, data_width = machine(name)
    return design(Feed, numerics=numerics, data_width=data_width)


class Tensor:
    """Random floats with noise beside them; as rows of blocks, and as the words of these."""

    def __init__(self, dut, shape, rng):
        self.block, self.lanes, self.rng = dut.geometry.block, dut.geometry.lanes, rng
        self.height, self.width = shape
        self.values = [[rng.getrandbits(32) for _ in range(shape[1])] for _ in range(shape[0])]

    def float(self, row, col):
        inside = row < self.height and col < self.width
        return self.values[row][col] if inside else self.rng.getrandbits(32)

    def rows(self):
        for top in range(0, self.height, self.block):
            for left in range(0, self.width, self.block):
                for row in range(top, top + self.block):
                    yield [self.float(row, left + n) for n in range(self.block)]

    def words(self):
        """(floats inside the tensor) of each word: of a block, or of all that a word covers."""
        step = max(self.block, self.lanes)
        for top in range(0, self.height, self.block):
            for left in range(0, self.width, step):
                for row in range(top, min(top + self.block, self.height)):
                    for first in range(left, min(left + step, self.width), self.lanes):
                        yield self.values[row][first : min(first + self.lanes, self.width)]

    def patches(self, cut):
        """The places of its blocks, patch by patch."""
        high, wide = (-(-size // self.block) for size in (self.height, self.width))
        return patches_of(high, wide, cut)

    def rows_in(self, cut):
        """As :meth:`rows`."""
        for top, left, bottom, right in self.patches(cut):
            for i in range(top, bottom):
                for j in range(left, right):
                    for row in range(i * self.block, (i + 1) * self.block):
                        yield [self.float(row, j * self.block + n) for n in range(self.block)]

    def words_in(self, cut):
        """As :meth:`words`."""
        step = max(self.block, self.lanes)
        for top, left, bottom, right in self.patches(cut):
            last_row, end = (
                min(bottom * self.block, self.height),
                min(right * self.block, self.width),
            )
            for i in range(top * self.block, last_row, self.block):
                for j in range(left * self.block, end, step):
                    for row in range(i, min(i + self.block, last_row)):
                        for first in range(j, min(j + step, end), self.lanes):
                            yield self.values[row][first : min(first + self.lanes, end)]


STALLS = {"free": (1.0, 1.0), "rows": (0.4, 1.0), "words": (1.0, 0.4), "both": (0.6, 0.6)}


async def begin(ctx, dut, tensor):
    ctx.set(dut.rows, tensor.height)
    ctx.set(dut.cols, tensor.width)
    ctx.set(dut.start, 1)
    await ctx.tick()
    ctx.set(dut.start, 0)


@pytest.mark.parametrize("name, p_row, p_ready", alternating(NAMES, STALLS))
def test_words(name, p_row, p_ready, rng):
    """Tensors one after the other; the rows of the next wait until it begins."""
    dut = make(name)
    tensors = [Tensor(dut, shape, rng) for shape in rng.sample(SHAPES, len(SHAPES))]
    taken = [0]

    async def give(ctx):
        for tensor in tensors:
            await put(ctx, dut.i, tensor.rows(), lambda: rng.random() < p_row)

    async def count(ctx):
        while True:
            _, _, *both = await ctx.tick().sample(dut.i.valid, dut.i.ready)
            taken[0] += all(both)

    async def main(ctx):
        due = 0
        for tensor in tensors:
            await begin(ctx, dut, tensor)
            for number, wanted in enumerate(tensor.words()):
                word = await get(ctx, dut.o, lambda: rng.random() < p_ready)
                got = [word >> 32 * n & 0xFFFF_FFFF for n in range(len(wanted))]
                where = f"word {number} of {tensor.height}x{tensor.width}"
                assert got == wanted, where
            ctx.set(dut.o.ready, 1)  # nothing more may come
            while True:
                busy, more = (await ctx.tick().sample(dut.busy, dut.o.valid))[2:]
                assert not more, f"a word too many of {tensor.height}x{tensor.width}"
                if not busy:
                    break
            ctx.set(dut.o.ready, 0)
            for _ in range(3):
                await ctx.tick()
            due += len(list(tensor.rows()))
            assert taken[0] == due, f"{tensor.height}x{tensor.width}"

    run(dut, give, main, background=[count])


@pytest.mark.parametrize("name", NAMES)
def test_timing(name, rng):
    """A row per cycle, or as many cycles as it has words; those below the tensor one each."""
    dut = make(name)
    block, lanes = dut.geometry.block, dut.geometry.lanes
    tensor = Tensor(dut, (2 * block + 1, 16 * block), rng)
    blocks = 16 * 3
    asked = 16 * (2 * block + 1) * max(1, block // lanes) + 16 * (block - 1)
    assert asked <= blocks * block * max(1, block // lanes)

    async def give(ctx):
        await put(ctx, dut.i, tensor.rows())

    async def main(ctx):
        ctx.set(dut.o.ready, 1)
        await begin(ctx, dut, tensor)
        cycles = 0
        while (await ctx.tick().sample(dut.busy))[-1]:
            cycles += 1
        assert cycles == asked

    run(dut, give, main)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled(4)
def test_patches(name, rng):
    """Of as many columns as words, and groups, need; one after the other, in both orders."""
    dut = make(name)
    block = dut.geometry.block
    tensors = [Tensor(dut, (3 * block + 1, 20 * block - 1), rng) for _ in range(3)]
    cuts = [(2, 8, 0), (1, 16, 0), (3, 8, 1)]

    async def give(ctx):
        for tensor, cut in zip(tensors, cuts, strict=True):
            await put(ctx, dut.i, tensor.rows_in(cut), lambda: rng.random() < 0.7)

    async def main(ctx):
        for tensor, cut in zip(tensors, cuts, strict=True):
            lengths = dict(zip(("high", "wide", "by_columns"), cut, strict=True))
            ctx.set(dut.cut, {"cut": 1} | lengths)
            await begin(ctx, dut, tensor)
            for number, wanted in enumerate(tensor.words_in(cut)):
                word = await get(ctx, dut.o, lambda: rng.random() < 0.7)
                got = [word >> 32 * n & 0xFFFF_FFFF for n in range(len(wanted))]
                assert got == wanted, f"word {number}, {cut}"
            while ctx.get(dut.busy):
                await ctx.tick()

    run(dut, give, main)


def test_nothing_is_taken_before_a_tensor_begins(rng):
    dut = make("squares")
    tensor = Tensor(dut, (2, 2), rng)

    async def main(ctx):
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.i.valid, 1)
        for _ in range(4):
            ready, valid = (await ctx.tick().sample(dut.i.ready, dut.o.valid))[2:]
            assert (ready, valid) == (0, 0)
        await begin(ctx, dut, tensor)
        assert (await ctx.tick().sample(dut.i.ready))[-1]

    run(dut, main)


@pytest.mark.parametrize("name", ["elements", "words of many blocks", "vectors of elements"])
def test_ready_does_not_wait_for_a_row(name, rng):
    """Where it has one word, or is part of one."""
    dut = make(name)

    async def main(ctx):
        ctx.set(dut.o.ready, 1)
        await begin(ctx, dut, Tensor(dut, (1, 40), rng))
        for _ in range(3):
            assert (await ctx.tick().sample(dut.i.ready))[-1]

    run(dut, main)


def test_layout():
    """The first float of a row is its lowest word."""
    assert fed_row_layout(4).size == 128
    assert fed_row_layout(4).const([1, 2, 3, 4]).as_value().value == 4 << 96 | 3 << 64 | 2 << 32 | 1
