# amaranth: UnusedElaboratable=no
"""The reorder memory: the image's order, for every geometry."""

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


async def hold(ctx, dut, groups, free):
    """Write groups, rows of elements as they lie in the tensor."""
    lanes, bits = dut.geometry.lanes, dut.element_bits
    for rows in groups:
        while not free[0]:
            await ctx.tick()
        free[0] -= 1
        words = list(product(range(len(rows)), range(0, len(rows[0]), lanes)))
        for row, col in words:
            ctx.set(dut.write_en, 1)
            ctx.set(dut.write_at, {"row": row, "word": col // lanes})
            ctx.set(dut.write_data, joined(rows[row][col : col + lanes], bits))
            ctx.set(dut.filled, (row, col) == words[-1])
            await ctx.tick()
            ctx.set(dut.write_en, 0)
            ctx.set(dut.filled, 0)


def check_reorder(dut, groups, rng):
    """Groups come out block by block."""
    block, lanes = dut.geometry.block, dut.geometry.lanes
    free = [2]

    async def write(ctx):
        await hold(ctx, dut, groups, free)

    async def count_freed(ctx):
        while True:
            freed = (await ctx.tick().sample(dut.freed))[-1]
            free[0] += freed

    async def check(ctx):
        for number, rows in enumerate(groups):
            blocks = range(len(rows[0]) // block)
            order = [
                rows[row][j * block + col]
                for j, row, col in product(blocks, range(block), range(block))
            ]
            for start in range(0, len(order), lanes):
                got = await get(ctx, dut.o, lambda: rng.random() < 0.8)
                want = joined(order[start : start + lanes], dut.element_bits)
                assert got.elements == want, f"group {number} element {start}"
                assert got.last == (start + lanes == len(order))
        assert not ctx.get(dut.o.valid), "extra output"
        assert free[0] == 2

    run(dut, write, check, background=[count_freed])


def random_rows(rows, cols, bits, rng):
    return [[rng.getrandbits(bits) for _ in range(cols)] for _ in range(rows)]


@pytest.mark.parametrize(
    "block, data_width, formats",
    [(*sizes, SQUARES) for sizes in product(BLOCKS, WIDTHS)]
    + [(*sizes, VECTORS) for sizes in product(BLOCKS, (32, 128, 512))],
)
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


@pytest.mark.parametrize("words", [16, 4])
def test_reorder_timing(words):
    dut = design(Reorder, numerics=numerics_of(2), data_width=64)
    assert dut.geometry.group_words == 16
    given = []

    async def main(ctx):
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.write_en, 1)
        for word in range(words):
            ctx.set(dut.filled, word == words - 1)
            assert not ctx.get(dut.o.valid)
            if word < words - 1:
                await ctx.tick()
        for cycle in range(24):
            given.extend([cycle] * (await ctx.tick().sample(dut.o.valid))[-1])
            ctx.set(dut.filled, 0)
            ctx.set(dut.write_en, 0)

    run(dut, main)
    assert given == list(range(2, 2 + words))
