# amaranth: UnusedElaboratable=no
"""The reorder memory of second copies: strips come out as groups, turned, for every geometry."""

from itertools import product

import pytest

from diastole_hw.convert.turned import TurnedReorder
from support.bench import design, get, run
from support.classes import make_numerics
from support.tiles import joined

BLOCKS = (1, 2, 4, 8, 16)
WIDTHS = (32, 64, 128, 256, 512)
FORMATS = ("mxfp4_e2m1", "mxint8", "bfp6")


def make(block, data_width, formats=FORMATS, **keys):
    numerics = make_numerics(*formats, block=block, fraction=0, **keys)
    return design(TurnedReorder, numerics=numerics, data_width=data_width)


def strip(rows, cols, bits, rng):
    return [[rng.getrandbits(bits) for _ in range(cols)] for _ in range(rows)]


def words_of(rows, block, lanes):
    """(row, column) of words as the tiles' groups come: 8 blocks wide, block rows high."""
    cols = len(rows[0])
    for top, left in product(range(0, len(rows), block), range(0, cols, 8 * block)):
        yield from product(range(top, top + block), range(left, min(left + 8 * block, cols), lanes))


def groups_of(rows, block):
    """The elements of each column of blocks, block by block, turned."""
    for left in range(0, len(rows[0]), block):
        places = product(range(0, len(rows), block), range(left, left + block), range(block))
        yield [rows[top + row][col] for top, col, row in places]


def check(dut, strips, rng, p_ready=0.8):
    block, lanes, bits = dut.geometry.block, dut.geometry.lanes, dut.element_bits
    free, tops = [2], [rng.randrange(dut.geometry.max_tile_rows // (8 * block)) for _ in strips]

    async def write(ctx):
        for top, rows in zip(tops, strips, strict=True):
            while not free[0]:
                await ctx.tick()
            free[0] -= 1
            words = list(words_of(rows, block, lanes))
            for row, col in words:
                ctx.set(dut.write_en, 1)
                ctx.set(dut.write_at, {"row": 8 * block * top + row, "word": col // lanes})
                ctx.set(dut.write_data, joined(rows[row][col : col + lanes], bits))
                ctx.set(dut.filled, (row, col) == words[-1])
                await ctx.tick()
                ctx.set(dut.write_en, 0)
                ctx.set(dut.filled, 0)
                if rng.random() < 0.1:
                    await ctx.tick()

    async def count_freed(ctx):
        while True:
            freed = (await ctx.tick().sample(dut.freed))[-1]
            free[0] += freed

    async def read(ctx):
        for number, rows in enumerate(strips):
            for group, order in enumerate(groups_of(rows, block)):
                for start in range(0, len(order), lanes):
                    got = await get(ctx, dut.o, lambda: rng.random() < p_ready)
                    want = joined(order[start : start + lanes], bits)
                    assert got.elements == want, f"strip {number} group {group} element {start}"
                    assert got.last == (start + lanes == len(order))
        assert not ctx.get(dut.o.valid), "extra output"
        assert free[0] == 2

    run(dut, write, read, background=[count_freed], limit=60_000)


@pytest.mark.parametrize("block, data_width", list(product(BLOCKS, WIDTHS)))
@pytest.mark.sampled(4)
def test_strips(block, data_width, rng):
    """Whole, and ended by the tensor below, on the right, on both sides."""
    dut = make(block, data_width)
    bits, most = dut.element_bits, dut.geometry.strip_groups
    large = dut.geometry.strip_rows * dut.geometry.strip_cols > 2048
    shapes = [(8, rng.randrange(1, 4) if large else most), (rng.randrange(1, 8), 1), (1, most)]
    shapes += [(rng.randrange(1, 4), rng.randrange(1, 4)) for _ in range(2)]
    rng.shuffle(shapes)
    strips = [strip(rows * block, min(cols, most) * block, bits, rng) for rows, cols in shapes]
    check(dut, strips, rng)


def test_squares_may_be_wider(rng):
    """What a class without vectors has for tiles says nothing of strips."""
    dut = make(2, 64, grouping=("1x32", "1x32", "128x128"))
    assert (dut.geometry.strip_cols, dut.geometry.max_tile_cols) == (32, 128)
    check(dut, [strip(16, 32, dut.element_bits, rng) for _ in range(3)], rng)


def test_timing():
    """The first word 2 cycles after ``filled``, a word per cycle; freed with the last one read."""
    dut = make(2, 64, ("bfp4",) * 3, grouping=("1x16",) * 3)
    words = dut.geometry.strip_rows * dut.geometry.strip_cols // dut.geometry.lanes
    assert words == 128
    given, freed = [], []

    async def main(ctx):
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.write_at, {"row": 15, "word": 7})
        for cycle in range(2 * words + 6):
            ctx.set(dut.filled, cycle < 2)
            _, _, valid, free = await ctx.tick().sample(dut.o.valid, dut.freed)
            given.extend([cycle] * valid)
            freed.extend([cycle] * free)

    run(dut, main)
    assert given == list(range(2, 2 + 2 * words))
    assert freed == [words, 2 * words]
