# amaranth: UnusedElaboratable=no
"""Words into the image's order, for every geometry."""

from itertools import product

import pytest

from diastole_hw.convert.image.reorder import Reorder
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from support.bench import design
from support.classes import make_numerics
from support.tiles import joined
from support.unit_bench import Unit

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


def given_words(dut, groups):
    """The writes of groups, rows of elements as they lie in the tensor."""
    lanes, bits = dut.sizes.lanes, dut.element_bits
    for rows in groups:
        words = words_of(rows, dut.sizes.block, lanes)
        for row, col in words:
            word = joined(rows[row][col : col + lanes], bits)
            yield {"write_en": 1, "write_data": word, "filled": (row, col) == words[-1]}


async def hold(ctx, unit, words, rng=None):
    """Write words, with gaps now and then."""
    for word in words:
        while rng and rng.random() < 0.1:
            await ctx.tick()
        unit.set(ctx, **word)
        await ctx.tick()
        unit.set(ctx, write_en=0, filled=0)


def image_words(dut, rows):
    """Words of a group as its image has them."""
    block, lanes = dut.sizes.block, dut.sizes.lanes
    blocks = range(len(rows[0]) // block)
    places = product(blocks, range(block), range(block))
    order = [rows[row][j * block + col] for j, row, col in places]
    for start in range(0, len(order), lanes):
        word = joined(order[start : start + lanes], dut.element_bits)
        yield {"elements": word, "last": start + lanes >= len(order)}


def check_reorder(dut, groups, rng):
    """Groups come out block by block; where words wait for others, what takes them does so for a
    cycle after some."""
    stacks = dut.sizes.word_chunks > 1
    wanted = [word for rows in groups for word in image_words(dut, rows)]
    ends = [n + 1 for n, word in enumerate(wanted) if word["last"]]
    pauses = ends[1::2] if stacks else []
    unit = Unit(dut, rng)

    def willing():
        if paused := bool(pauses) and len(words.items) == pauses[0]:
            pauses.pop(0)
        return not paused

    words = unit.take(dut.o, wanted, pace=willing)
    unit.run(lambda ctx: hold(ctx, unit, given_words(dut, groups), rng))


def random_rows(rows, cols, bits, rng):
    return [[rng.getrandbits(bits) for _ in range(cols)] for _ in range(rows)]


@pytest.mark.parametrize(
    "block, data_width, formats",
    [(*sizes, SQUARES) for sizes in product(BLOCKS, WIDTHS)]
    + [(*sizes, VECTORS) for sizes in product(BLOCKS, (32, 128, 512))],
)
@pytest.mark.sampled(6)
def test_reorder(block, data_width, formats, rng):
    dut = design(
        Reorder, ConverterSizes(numerics=numerics_of(block, formats), data_width=data_width)
    )
    count = 3 if dut.sizes.group_words <= 256 else 1
    bits = dut.element_bits
    groups = [random_rows(block, 8 * block, bits, rng) for _ in range(count)]
    check_reorder(dut, groups, rng)


@pytest.mark.parametrize("block, data_width", [(8, 64), (4, 512), (2, 128), (1, 64), (1, 32)])
@pytest.mark.parametrize("formats", [SQUARES, VECTORS])
def test_groups_that_the_tensor_ends_in(block, data_width, formats, rng):
    """Their first blocks come, and go, alone; after and before groups that are whole."""
    dut = design(
        Reorder, ConverterSizes(numerics=numerics_of(block, formats), data_width=data_width)
    )
    bits, step = dut.element_bits, max(1, dut.sizes.lanes // block)
    groups = []
    for blocks in (step, 8, 8 - step or 8, step, 8):
        groups.append(random_rows(block, blocks * block, bits, rng))
    check_reorder(dut, groups, rng)


@pytest.mark.parametrize(
    "block, data_width, wait", [(8, 64, 1), (8, 256, 1), (4, 512, 5), (2, 512, 3), (1, 64, 2)]
)
def test_reorder_timing(block, data_width, wait):
    """A word per cycle: the next cycle, or a stack of ``block`` words later and one more."""
    dut = design(Reorder, ConverterSizes(numerics=numerics_of(block), data_width=data_width))
    words = dut.sizes.group_words
    unit = Unit(dut)
    given = unit.collect(dut.o)
    writes = [{"write_en": 1, "filled": n == words - 1} for n in range(words)]
    unit.run(lambda ctx: hold(ctx, unit, writes))
    assert given.cycles == list(range(wait, wait + words))


@pytest.mark.parametrize("block, data_width, held", [(4, 512, 16), (1, 64, 4)])
def test_room(block, data_width, held, rng):
    """So many words are kept while nobody takes them, where several make a stack."""
    dut = design(Reorder, ConverterSizes(numerics=numerics_of(block), data_width=data_width))
    bits = dut.element_bits
    groups = [random_rows(block, 8 * block, bits, rng) for _ in range(2)]
    words = list(given_words(dut, groups))[:held]
    unit = Unit(dut)
    wanted = [word for rows in groups for word in image_words(dut, rows)][:held]
    wanted = [{"elements": word["elements"]} for word in wanted]  # no group is whole
    taken = unit.take(dut.o, wanted, pace=lambda: unit.cycle >= held + 2)

    async def script(ctx):
        await hold(ctx, unit, ({"write_en": 1, "write_data": word["write_data"]} for word in words))
        await unit.settled(ctx)

    unit.run(script)
    assert taken.cycles[0] >= held + 2
