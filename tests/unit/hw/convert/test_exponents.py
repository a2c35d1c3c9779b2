# amaranth: UnusedElaboratable=no
"""Exponent fields of two groups: bytes written in any order come out in the image's."""

import pytest

from diastole_hw.convert.exponents import ExponentField, field_banks, field_rows
from support.bench import design, get, run
from support.tiles import MACHINES, class_of, machine

NAMES = list(MACHINES)


def field_bytes(numerics, cls):
    """How many bytes a field of a class has: of its 8 blocks, or of its rows in each vector."""
    grouping = class_of(numerics, cls).grouping
    if grouping.kind != "vector":
        return 8
    return numerics.block * len({j * numerics.block // grouping.size for j in range(8)})


def writes_of(field, banks, rng):
    """Neighbouring bytes in any order, some of them alone, with noise where nothing is written."""
    for row in rng.sample(range(-(-len(field) // banks)), -(-len(field) // banks)):
        here = field[row * banks : (row + 1) * banks]
        parts = [{rng.randrange(4)} for _ in here]  # in which of four writes a byte goes
        for part in range(4):
            enable = sum((part in mine) << n for n, mine in enumerate(parts))
            if enable:
                noise = rng.randbytes(banks)
                values = [here[n] if enable >> n & 1 else noise[n] for n in range(banks)]
                yield {"row": row, "enable": enable, "values": values}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cls", range(3))
def test_fields(name, cls, rng):
    numerics, data_width = machine(name)
    dut = design(ExponentField, numerics=numerics, data_width=data_width)
    banks = field_banks(dut.geometry)
    count = field_bytes(numerics, cls)
    fields = [[rng.randrange(256) for _ in range(count)] for _ in range(6)]
    given = [rng.choice([count, rng.randrange(1, count + 1)]) for _ in fields]  # the rest: zeros
    free = [2]

    async def write(ctx):
        ctx.set(dut.cls, cls)
        for number, field in enumerate(fields):
            while not free[0]:
                await ctx.tick()
            free[0] -= 1
            ctx.set(dut.write_half, number % 2)
            for item in writes_of(field[: given[number]], banks, rng):
                while rng.random() < 0.2:
                    await ctx.tick()
                ctx.set(dut.write, item)
                ctx.set(dut.write_en, 1)
                await ctx.tick()
                ctx.set(dut.write_en, 0)
            ctx.set(dut.filled, 1)
            await ctx.tick()
            ctx.set(dut.filled, 0)

    async def count_freed(ctx):
        while True:
            freed = (await ctx.tick().sample(dut.freed))[-1]
            free[0] += freed

    async def check(ctx):
        for number, field in enumerate(fields):
            for n, byte in enumerate(field):
                got = await get(ctx, dut.o, lambda: rng.random() < 0.6)
                wanted = (byte if n < given[number] else 0, n == count - 1)
                assert (got.byte, got.last) == wanted, f"field {number} byte {n}"
        for _ in range(3):
            assert not (await ctx.tick().sample(dut.o.valid))[-1], "extra output"
        assert free[0] == 2

    run(dut, write, check, background=[count_freed])


@pytest.mark.parametrize("name", ["squares", "vectors", "elements"])
def test_timing(name):
    """The first byte 2 cycles after ``filled``, a byte per cycle, the halves without a gap; a half
    is free with the last byte read, the cycle before it is valid."""
    numerics, data_width = machine(name)
    dut = design(ExponentField, numerics=numerics, data_width=data_width)
    count = field_bytes(numerics, 0)
    given, freed = [], []

    async def main(ctx):
        ctx.set(dut.o.ready, 1)
        for cycle in range(2 * count + 6):
            ctx.set(dut.filled, cycle < 2)
            _, _, valid, free = await ctx.tick().sample(dut.o.valid, dut.freed)
            given.extend([cycle] * valid)
            freed.extend([cycle] * free)

    run(dut, main)
    assert given == list(range(2, 2 + 2 * count))
    assert freed == [count, 2 * count]


def test_a_byte_waits_for_nobody():
    """It is valid 2 cycles after ``filled`` whether or not it is asked for, and stays."""
    numerics, data_width = machine("squares")
    dut = design(ExponentField, numerics=numerics, data_width=data_width)

    async def main(ctx):
        ctx.set(dut.write, {"row": 0, "enable": 1, "values": [77]})
        ctx.set(dut.write_en, 1)
        ctx.set(dut.filled, 1)
        for cycle in range(6):
            _, _, valid, byte = await ctx.tick().sample(dut.o.valid, dut.o.p.byte)
            ctx.set(dut.write_en, 0)
            ctx.set(dut.filled, 0)
            assert valid == (cycle >= 2)
            assert not valid or byte == 77

    run(dut, main)


def test_bytes_that_a_word_brings():
    """Where a word covers several blocks, or columns of a second copy, all of them."""
    wanted = {
        "squares": (1, 8),
        "elements": (2, 4),
        "words of many blocks": (8, 1),
        "vectors": (2, 16),
        "vectors of elements": (1, 8),
        "folding vectors": (4, 4),
    }
    for name, (banks, rows) in wanted.items():
        numerics, data_width = machine(name)
        sizes = ExponentField(numerics=numerics, data_width=data_width).geometry
        assert (field_banks(sizes), field_rows(sizes)) == (banks, rows), name
