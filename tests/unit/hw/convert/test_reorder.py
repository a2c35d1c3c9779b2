# amaranth: UnusedElaboratable=no
"""Words into the image's order, for every geometry."""

from itertools import product

import pytest

from diastole_hw.convert.reorder import Reorder
from support.bench import design, get, run
from support.classes import make_numerics
from support.tiles import joined

BLOCKS = (1, 2, 4, 8, 16, 32)
WIDTHS = (32, 64, 128, 256, 512)


SQUARES = ("bfp4", "bfp6", "bfp2")
VECTORS = ("mxfp4_e2m1", "mxint8", "bfp6")
"""Words are no longer than blocks."""


def numerics_of(block, formats=SQUARES):
    return make_numerics(*formats, block=block, fraction=0)


def words_of(rows, block, lanes):
    """(row, column) of the words of a group in the order of the passes."""
    side = max(block, lanes)
    return [
        (row, col)
        for begin in range(0, len(rows[0]), side)
        for row in range(block)
        for col in range(begin, begin + side, lanes)
    ]


async def hold(ctx, dut, groups, rng):
    """Write groups, rows of elements as they lie in the tensor, with gaps now and then."""
    lanes, bits = dut.geometry.lanes, dut.element_bits
    for rows in groups:
        words = words_of(rows, dut.geometry.block, lanes)
        for row, col in words:
            while rng.random() < 0.1:
                await ctx.tick()
            ctx.set(dut.write_en, 1)
            ctx.set(dut.write_data, joined(rows[row][col : col + lanes], bits))
            ctx.set(dut.filled, (row, col) == words[-1])
            await ctx.tick()
            ctx.set(dut.write_en, 0)
            ctx.set(dut.filled, 0)


def image_words(dut, rows):
    """Words of a group as its image has them."""
    block, lanes = dut.geometry.block, dut.geometry.lanes
    blocks = range(len(rows[0]) // block)
    places = product(blocks, range(block), range(block))
    order = [rows[row][j * block + col] for j, row, col in places]
    return [
        joined(order[start : start + lanes], dut.element_bits)
        for start in range(0, len(order), lanes)
    ]


def check_reorder(dut, groups, rng):
    """Groups come out block by block; where words wait for others, what takes them does so for a
    cycle after some."""
    stacks = dut.geometry.word_chunks > 1

    async def write(ctx):
        await hold(ctx, dut, groups, rng)

    async def check(ctx):
        for number, rows in enumerate(groups):
            words = image_words(dut, rows)
            for n, word in enumerate(words):
                got = await get(ctx, dut.o)
                assert got.elements == word, f"group {number} word {n}"
                assert got.last == (n + 1 == len(words))
            ctx.set(dut.o.ready, not stacks)
            for _ in range(number % 2 * stacks):
                await ctx.tick()
        assert not ctx.get(dut.o.valid), "extra output"

    run(dut, write, check)


def random_rows(rows, cols, bits, rng):
    return [[rng.getrandbits(bits) for _ in range(cols)] for _ in range(rows)]


@pytest.mark.parametrize(
    "block, data_width, formats",
    [(*sizes, SQUARES) for sizes in product(BLOCKS, WIDTHS)]
    + [(*sizes, VECTORS) for sizes in product(BLOCKS, (32, 128, 512))],
)
@pytest.mark.sampled(6)
def test_reorder(block, data_width, formats, rng):
    dut = design(Reorder, numerics=numerics_of(block, formats), data_width=data_width)
    count = 3 if dut.geometry.group_words <= 256 else 1
    bits = dut.element_bits
    groups = [random_rows(block, 8 * block, bits, rng) for _ in range(count)]
    check_reorder(dut, groups, rng)


@pytest.mark.parametrize("block, data_width", [(8, 64), (4, 512), (2, 128), (1, 64), (1, 32)])
@pytest.mark.parametrize("formats", [SQUARES, VECTORS])
def test_groups_that_the_tensor_ends_in(block, data_width, formats, rng):
    """Their first blocks come, and go, alone; after and before groups that are whole."""
    dut = design(Reorder, numerics=numerics_of(block, formats), data_width=data_width)
    bits, step = dut.element_bits, max(1, dut.geometry.lanes // block)
    groups = []
    for blocks in (step, 8, 8 - step or 8, step, 8):
        groups.append(random_rows(block, blocks * block, bits, rng))
    check_reorder(dut, groups, rng)


@pytest.mark.parametrize(
    "block, data_width, wait", [(8, 64, 1), (8, 256, 1), (4, 512, 5), (2, 512, 3), (1, 64, 2)]
)
def test_reorder_timing(block, data_width, wait):
    """A word per cycle: the next cycle, or a stack of ``block`` words later and one more."""
    dut = design(Reorder, numerics=numerics_of(block), data_width=data_width)
    words = dut.geometry.group_words
    given = []

    async def main(ctx):
        ctx.set(dut.o.ready, 1)
        for cycle in range(words + wait + 4):
            ctx.set(dut.write_en, cycle < words)
            ctx.set(dut.filled, cycle == words - 1)
            given.extend([cycle] * (await ctx.tick().sample(dut.o.valid))[-1])

    run(dut, main)
    assert given == list(range(wait, wait + words))


@pytest.mark.parametrize("block, data_width, held", [(4, 512, 16), (1, 64, 4)])
def test_room(block, data_width, held, rng):
    """So many words are kept while nobody takes them, where several make a stack."""
    dut = design(Reorder, numerics=numerics_of(block), data_width=data_width)
    bits = dut.element_bits
    groups = [random_rows(block, 8 * block, bits, rng) for _ in range(2)]
    lanes = dut.geometry.lanes
    written = [
        joined(rows[row][col : col + lanes], bits)
        for rows in groups
        for row, col in words_of(rows, block, lanes)
    ]

    async def main(ctx):
        for word in written[:held]:
            ctx.set(dut.write_en, 1)
            ctx.set(dut.write_data, word)
            await ctx.tick()
        ctx.set(dut.write_en, 0)
        await ctx.tick().repeat(2)
        got = [(await get(ctx, dut.o)).elements for _ in range(held)]
        assert got == [word for rows in groups for word in image_words(dut, rows)][:held]

    run(dut, main)
