# amaranth: UnusedElaboratable=no
"""Words of what a chain gives, against loops over blocks, rows and columns."""

import pytest

from diastole_hw.convert.intake.word_assembler import WordAssembler, block_row_layout
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from support.bench import design
from support.converter_bench import patches_of
from support.sweep import alternating
from support.tiles import MACHINES, machine
from support.unit_bench import Unit, until

SHAPES = [(1, 1), (1, 37), (3, 5), (9, 34), (17, 3), (8, 16)]
NAMES = list(MACHINES)


def make(name):
    numerics, data_width = machine(name)
    return design(WordAssembler, ConverterSizes(numerics=numerics, data_width=data_width))


class Tensor:
    """Random floats with noise beside them; as rows of blocks, and as the words of these."""

    def __init__(self, dut, shape, rng):
        self.block, self.lanes, self.rng = dut.sizes.block, dut.sizes.lanes, rng
        self.height, self.width = shape
        self.values = [[rng.getrandbits(32) for _ in range(shape[1])] for _ in range(shape[0])]

    def float(self, row, col):
        inside = row < self.height and col < self.width
        return self.values[row][col] if inside else self.rng.getrandbits(32)

    def patches(self, cut):
        """The places of its blocks, patch by patch."""
        high, wide = (-(-size // self.block) for size in (self.height, self.width))
        return patches_of(high, wide, cut)

    def rows(self, cut=True):
        """The rows of its blocks, patch by patch."""
        for top, left, bottom, right in self.patches(cut):
            for i in range(top, bottom):
                for j in range(left, right):
                    for row in range(i * self.block, (i + 1) * self.block):
                        yield [self.float(row, j * self.block + n) for n in range(self.block)]

    def words(self, cut=True):
        """Each word, as far as its floats are inside the tensor: of a block, or of all that a word
        covers."""
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
                            floats = self.values[row][first : min(first + self.lanes, end)]
                            yield floats + [None] * (self.lanes - len(floats))


STALLS = {"free": (1.0, 1.0), "rows": (0.4, 1.0), "words": (1.0, 0.4), "both": (0.6, 0.6)}


async def begin(ctx, unit, tensor):
    await unit.pulse(ctx, "start", rows=tensor.height, cols=tensor.width)


@pytest.mark.parametrize("name, p_row, p_ready", alternating(NAMES, STALLS))
def test_words(name, p_row, p_ready, rng):
    """Tensors one after the other; the rows of the next wait until it begins."""
    dut = make(name)
    tensors = [Tensor(dut, shape, rng) for shape in rng.sample(SHAPES, len(SHAPES))]
    unit = Unit(dut, rng)
    given = unit.give(dut.i, (row for tensor in tensors for row in tensor.rows()), p_row)
    taken = unit.take(dut.o, pace=p_ready)
    given.needed = False

    async def script(ctx):
        due = 0
        for tensor in tensors:
            taken.add(tensor.words())
            due += len(list(tensor.rows()))
            await begin(ctx, unit, tensor)
            await unit.settled(ctx)
            await until(ctx, ~dut.busy)
            for _ in range(3):
                await ctx.tick()
            assert len(given.items) == due, f"{tensor.height}x{tensor.width}"

    unit.run(script)


@pytest.mark.parametrize("name", NAMES)
def test_timing(name, rng):
    """A row per cycle, or as many cycles as it has words; those below the tensor one each."""
    dut = make(name)
    block, lanes = dut.sizes.block, dut.sizes.lanes
    tensor = Tensor(dut, (2 * block + 1, 16 * block), rng)
    blocks = 16 * 3
    asked = 16 * (2 * block + 1) * max(1, block // lanes) + 16 * (block - 1)
    assert asked <= blocks * block * max(1, block // lanes)

    unit = Unit(dut)
    unit.give(dut.i, tensor.rows())
    unit.collect(dut.o)

    async def script(ctx):
        await begin(ctx, unit, tensor)
        assert await until(ctx, ~dut.busy) == asked

    unit.run(script)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled(4)
def test_patches(name, rng):
    """Of as many columns as words, and groups, need; one after the other, in both orders."""
    dut = make(name)
    block = dut.sizes.block
    tensors = [Tensor(dut, (3 * block + 1, 20 * block - 1), rng) for _ in range(3)]
    cuts = [(2, 8, 0), (1, 16, 0), (3, 8, 1)]

    unit = Unit(dut, rng, pace=0.7)
    given, taken = unit.give(dut.i), unit.take(dut.o)

    async def script(ctx):
        for tensor, cut in zip(tensors, cuts, strict=True):
            high, wide, by_columns = cut
            unit.set(ctx, cut={"cut": 1, "high": high, "wide": wide, "by_columns": by_columns})
            given.add(tensor.rows(cut))
            taken.add(tensor.words(cut))
            await begin(ctx, unit, tensor)
            await unit.settled(ctx)
            await until(ctx, ~dut.busy)

    unit.run(script)


def test_nothing_is_taken_before_a_tensor_begins(rng):
    unit = Unit(make("squares"))
    tensor = Tensor(unit.dut, (2, 2), rng)
    given = unit.give(unit.dut.i, tensor.rows())
    unit.collect(unit.dut.o)

    async def script(ctx):
        for _ in range(4):
            await ctx.tick()
        await begin(ctx, unit, tensor)

    unit.run(script)
    assert given.cycles[0] == 5


@pytest.mark.parametrize("name", ["elements", "words of many blocks", "vectors of elements"])
def test_ready_does_not_wait_for_a_row(name, rng):
    """Where it has one word, or is part of one."""
    unit = Unit(make(name))
    unit.collect(unit.dut.o)
    ready = unit.record(unit.dut.i.ready)
    unit.run(lambda ctx: begin(ctx, unit, Tensor(unit.dut, (1, 40), rng)))
    assert ready.cycles == [*range(1, len(ready.values))]


@pytest.mark.parametrize("name", ["elements", "words of many blocks"])
def test_a_word_is_there_before_anybody_is_ready_for_it(name, rng):
    """Where it has rows of several blocks: the row that completes it is taken, and no other."""
    dut = make(name)
    sizes = dut.sizes
    tensor = Tensor(dut, (sizes.block, sizes.lanes), rng)
    unit = Unit(dut)
    given = unit.give(dut.i, tensor.rows())
    given.needed = False
    unit.collect(dut.o, pace=0)
    there = unit.record(dut.o.valid)
    unit.run(lambda ctx: begin(ctx, unit, tensor), cycles=200)
    rows = (sizes.word_chunks - 1) * sizes.block + 1
    assert len(given.items) == rows
    assert there.cycles[0] == given.cycles[-1] + 1


def test_layout():
    """The first float of a row is its lowest word."""
    assert block_row_layout(4).size == 128
    assert (
        block_row_layout(4).const([1, 2, 3, 4]).as_value().value == 4 << 96 | 3 << 64 | 2 << 32 | 1
    )
