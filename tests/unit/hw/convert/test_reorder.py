# amaranth: UnusedElaboratable=no
"""The reorder memory and the packer: the image's order and its bits, for every geometry."""

from itertools import product

import pytest

from diastole.convert.geometry import Geometry
from diastole.convert.pack import Packer
from diastole.convert.reorder import Reorder
from support.bench import get, put, run

BLOCKS = (1, 2, 4, 8, 16, 32)
WIDTHS = (32, 64, 128, 256, 512)


def words_of(values, bits):
    return sum(value << n * bits for n, value in enumerate(values))


@pytest.mark.parametrize("block, data_width", list(product(BLOCKS, WIDTHS)))
def test_reorder(block, data_width, rng):
    sizes = Geometry(block=block, data_width=data_width)
    groups = 3 if sizes.group_words <= 256 else 1
    bits = 7
    dut = Reorder(block=block, data_width=data_width, element_bits=bits)
    tensors = [
        [[rng.getrandbits(bits) for _ in range(sizes.group_cols)] for _ in range(block)]
        for _ in range(groups)
    ]
    free = [2]

    async def write(ctx):
        for number, tensor in enumerate(tensors):
            while not free[0]:
                await ctx.tick()
            free[0] -= 1
            for row, word in product(range(block), range(sizes.row_words)):
                part = tensor[row][word * sizes.lanes : (word + 1) * sizes.lanes]
                address = (number % 2 * block + row) * sizes.row_words + word
                ctx.set(dut.write_en, 1)
                ctx.set(dut.write_addr, address)
                ctx.set(dut.write_data, words_of(part, bits))
                ctx.set(dut.filled, (row, word) == (block - 1, sizes.row_words - 1))
                await ctx.tick()
                ctx.set(dut.write_en, 0)
                ctx.set(dut.filled, 0)

    async def count_freed(ctx):
        while True:
            freed = (await ctx.tick().sample(dut.freed))[-1]
            free[0] += freed

    async def check(ctx):
        for number, tensor in enumerate(tensors):
            order = [
                tensor[row][j * block + col]
                for j, row, col in product(range(8), range(block), range(block))
            ]
            for start in range(0, len(order), sizes.lanes):
                got = await get(ctx, dut.o, lambda: rng.random() < 0.8)
                want = words_of(order[start : start + sizes.lanes], bits)
                assert got.elements == want, f"group {number} element {start}"
                assert got.last == (start + sizes.lanes == len(order))
        assert not ctx.get(dut.o.valid), "extra output"
        assert free[0] == 2

    run(dut, write, check, background=[count_freed])


def test_reorder_timing():
    dut = Reorder(block=2, data_width=64, element_bits=4)
    given = []

    async def main(ctx):
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.filled, 1)
        for cycle in range(24):
            given.extend([cycle] * (await ctx.tick().sample(dut.o.valid))[-1])
            ctx.set(dut.filled, 0)

    run(dut, main)
    assert given == list(range(2, 2 + Geometry(block=2, data_width=64).group_words))


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


@pytest.mark.parametrize(
    "make, parameters, message",
    [
        (
            Geometry,
            {"block": 3, "data_width": 64},
            "block must be one of 1, 2, 4, 8, 16, 32, not 3",
        ),
        (
            Geometry,
            {"block": 8, "data_width": 96},
            "data_width must be one of 32, 64, 128, 256, 512, not 96",
        ),
        (
            Packer,
            {"lanes": 1, "element_bits": (33,), "data_width": 32},
            "element_bits must be an integer in 1..32, not 33",
        ),
    ],
)
def test_errors(make, parameters, message):
    with pytest.raises(ValueError) as caught:
        make(**parameters)
    assert str(caught.value) == message
