# amaranth: UnusedElaboratable=no
"""The reorder memory and the packer: the image's order and its bits, for every geometry."""

from itertools import product

import pytest

from diastole.convert.pack import Packer
from diastole.convert.reorder import Reorder
from support.bench import get, put, run
from support.classes import make_numerics

BLOCKS = (1, 2, 4, 8, 16, 32)
WIDTHS = (32, 64, 128, 256, 512)


def words_of(values, bits):
    return sum(value << n * bits for n, value in enumerate(values))


SQUARES = ("bfp4", "bfp6", "bfp2")
VECTORS = ("mxfp4_e2m1", "mxint8", "bfp6")


def numerics_of(block, formats=SQUARES):
    return make_numerics(*formats, block=block, fraction=0)


async def hold(ctx, dut, groups, free):
    """Write groups (of which copy, rows of elements as they lie in the tensor)."""
    lanes, bits = dut.geometry.lanes, dut.element_bits
    for copy, rows in groups:
        while not free[0]:
            await ctx.tick()
        free[0] -= 1
        words = list(product(range(len(rows)), range(0, len(rows[0]), lanes)))
        for row, col in words:
            ctx.set(dut.write_en, 1)
            ctx.set(dut.write_copy, copy)
            ctx.set(dut.write_at, {"row": row, "word": col // lanes})
            ctx.set(dut.write_data, words_of(rows[row][col : col + lanes], bits))
            ctx.set(dut.filled, (row, col) == words[-1])
            await ctx.tick()
            ctx.set(dut.write_en, 0)
            ctx.set(dut.filled, 0)


def check_reorder(dut, groups, rng):
    """Groups come out block by block, those of the second copy turned."""
    block, lanes = dut.geometry.block, dut.geometry.lanes
    free = [2]

    async def write(ctx):
        await hold(ctx, dut, groups, free)

    async def count_freed(ctx):
        while True:
            freed = (await ctx.tick().sample(dut.freed))[-1]
            free[0] += freed

    async def check(ctx):
        for number, (copy, rows) in enumerate(groups):
            stored = list(zip(*rows, strict=True)) if copy else rows
            order = [
                stored[row][j * block + col]
                for j, row, col in product(range(8), range(block), range(block))
            ]
            for start in range(0, len(order), lanes):
                got = await get(ctx, dut.o, lambda: rng.random() < 0.8)
                want = words_of(order[start : start + lanes], dut.element_bits)
                assert got.elements == want, f"group {number} element {start}"
                assert got.last == (start + lanes == len(order))
        assert not ctx.get(dut.o.valid), "extra output"
        assert free[0] == 2

    run(dut, write, check, background=[count_freed])


def random_rows(rows, cols, bits, rng):
    return [[rng.getrandbits(bits) for _ in range(cols)] for _ in range(rows)]


@pytest.mark.parametrize("block, data_width", list(product(BLOCKS, WIDTHS)))
def test_reorder(block, data_width, rng):
    dut = Reorder(numerics=numerics_of(block), data_width=data_width)
    count = 3 if dut.geometry.group_words <= 256 else 1
    bits = dut.element_bits
    groups = [(0, random_rows(block, 8 * block, bits, rng)) for _ in range(count)]
    check_reorder(dut, groups, rng)


@pytest.mark.parametrize("block, data_width", list(product(BLOCKS, (32, 128, 512))))
def test_reorder_of_copies(block, data_width, rng):
    dut = Reorder(numerics=numerics_of(block, VECTORS), data_width=data_width)
    copies = (0, 1, 1, 0) if dut.geometry.group_words <= 256 else (1,)
    bits = dut.element_bits
    shapes = ((block, 8 * block), (8 * block, block))
    check_reorder(dut, [(copy, random_rows(*shapes[copy], bits, rng)) for copy in copies], rng)


def test_reorder_timing():
    dut = Reorder(numerics=numerics_of(2), data_width=64)
    given = []

    async def main(ctx):
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.filled, 1)
        for cycle in range(24):
            given.extend([cycle] * (await ctx.tick().sample(dut.o.valid))[-1])
            ctx.set(dut.filled, 0)

    run(dut, main)
    assert given == list(range(2, 2 + dut.geometry.group_words))


@pytest.mark.parametrize(
    "lanes, element_bits, data_width",
    [(1, (5, 9, 3), 32), (2, (5, 8, 3), 64), (16, (5, 9, 4), 512), (8, (9, 3, 4), 512)],
)
@pytest.mark.parametrize("cls", range(3))
@pytest.mark.parametrize("p_ready", [1.0, 0.4], ids=["free", "stalled"])
def test_packer(lanes, element_bits, data_width, cls, p_ready, rng):
    dut = Packer(lanes=lanes, element_bits=element_bits, data_width=data_width)
    pitch, bits = max(element_bits), element_bits[cls]
    groups = []
    for _ in range(12):
        words = rng.randrange(1, 4 * data_width // (lanes * bits))
        groups.append([rng.getrandbits(bits) for _ in range(words * lanes)])

    async def drive(ctx):
        ctx.set(dut.cls, cls)
        for group in groups:
            for start in range(0, len(group), lanes):
                noisy = (x | rng.getrandbits(9) << bits for x in group[start : start + lanes])
                elements = words_of([x % 2**pitch for x in noisy], pitch)
                word = {"elements": elements, "last": start + lanes == len(group)}
                await put(ctx, dut.i, [word], lambda: rng.random() < p_ready)

    async def check(ctx):
        for number, group in enumerate(groups):
            want = words_of(group, bits)
            for beat in range(-(-len(group) * bits // data_width)):
                got = await get(ctx, dut.o, lambda: rng.random() < p_ready)
                assert got == want % 2**data_width, f"group {number} beat {beat}"
                want >>= data_width
        for _ in range(5):
            assert not (await ctx.tick().sample(dut.o.valid))[-1], "extra output"

    run(dut, drive, check)


def test_errors():
    with pytest.raises(ValueError) as caught:
        Packer(lanes=1, element_bits=(33,), data_width=32)
    assert str(caught.value) == "element_bits must be an integer in 1..32, not 33"
