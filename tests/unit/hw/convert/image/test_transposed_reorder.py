# amaranth: UnusedElaboratable=no
"""The reorder memory of second copies: strips come out as groups, turned, for every geometry."""

from itertools import product

import pytest

from diastole_hw.convert.image.transposed_reorder import TransposedReorder
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from support.bench import design
from support.classes import make_numerics
from support.tiles import joined
from support.unit_bench import Unit

BLOCKS = (1, 2, 4, 8, 16)
WIDTHS = (32, 64, 128, 256, 512)
FORMATS = ("mxfp4_e2m1", "mxint8", "bfp6")


def make(block, data_width, formats=FORMATS, **keys):
    numerics = make_numerics(*formats, block=block, fraction=0, **keys)
    return design(TransposedReorder, ConverterSizes(numerics=numerics, data_width=data_width))


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
    """A strip is written when a half is free."""
    block, lanes, bits = dut.sizes.block, dut.sizes.lanes, dut.element_bits
    tops = [rng.randrange(dut.sizes.max_tile_rows // (8 * block)) for _ in strips]
    unit, wanted = Unit(dut, rng), []
    for order in (order for rows in strips for order in groups_of(rows, block)):
        for at in range(0, len(order), lanes):
            word = joined(order[at : at + lanes], bits)
            wanted.append({"elements": word, "last": at + lanes == len(order)})
    unit.take(dut.o, wanted, p_ready)
    freed = unit.record(dut.freed)

    async def write(ctx):
        for number, (top, rows) in enumerate(zip(tops, strips, strict=True)):
            while number - len(freed.cycles) == 2:
                await ctx.tick()
            words = list(words_of(rows, block, lanes))
            for row, col in words:
                at = {"row": 8 * block * top + row, "word": col // lanes}
                word = joined(rows[row][col : col + lanes], bits)
                unit.set(ctx, filled=(row, col) == words[-1])
                await unit.pulse(ctx, "write_en", write_at=at, write_data=word)
                unit.set(ctx, filled=0)
                if rng.random() < 0.1:
                    await ctx.tick()

    unit.run(write, limit=60_000)
    assert len(freed.cycles) == len(strips)


@pytest.mark.parametrize("block, data_width", list(product(BLOCKS, WIDTHS)))
@pytest.mark.sampled(4)
def test_strips(block, data_width, rng):
    """Whole, and ended by the tensor below, on the right, on both sides."""
    dut = make(block, data_width)
    bits, most = dut.element_bits, dut.sizes.strip_groups
    large = dut.sizes.strip_rows * dut.sizes.strip_cols > 2048
    shapes = [(8, rng.randrange(1, 4) if large else most), (rng.randrange(1, 8), 1), (1, most)]
    shapes += [(rng.randrange(1, 4), rng.randrange(1, 4)) for _ in range(2)]
    rng.shuffle(shapes)
    strips = [strip(rows * block, min(cols, most) * block, bits, rng) for rows, cols in shapes]
    check(dut, strips, rng)


def test_squares_may_be_wider(rng):
    """What a class without vectors has for tiles says nothing of strips."""
    dut = make(2, 64, grouping=("1x32", "1x32", "128x128"))
    assert (dut.sizes.strip_cols, dut.sizes.max_tile_cols) == (32, 128)
    check(dut, [strip(16, 32, dut.element_bits, rng) for _ in range(3)], rng)


def test_timing():
    """The first word 2 cycles after ``filled``, a word per cycle; freed with the last one read."""
    dut = make(2, 64, ("bfp4",) * 3, grouping=("1x16",) * 3)
    words = dut.sizes.strip_rows * dut.sizes.strip_cols // dut.sizes.lanes
    assert words == 128
    unit = Unit(dut)
    unit.hold(write_at={"row": 15, "word": 7})
    given, freed = unit.collect(dut.o), unit.record(dut.freed)

    async def fill(ctx):
        for _ in range(2):
            await unit.pulse(ctx, "filled")

    unit.run(fill)
    assert given.cycles == list(range(2, 2 + 2 * words))
    assert freed.cycles == [words, 2 * words]
