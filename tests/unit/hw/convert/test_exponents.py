# amaranth: UnusedElaboratable=no
"""Exponent fields of two groups, or strips: bytes written in any order come out in the image's."""

import pytest

from diastole_hw.convert.exponents import (
    ExponentField,
    field_banks,
    field_groups,
    field_rows,
)
from support.bench import design, get, run
from support.tiles import MACHINES, class_of, machine

NAMES = list(MACHINES)


def has_vectors(name, cls):
    return class_of(machine(name)[0], cls).grouping.kind == "vector"


COPIES = [(name, cls, 0) for name in NAMES for cls in range(3)]
COPIES += [(name, cls, 1) for name, cls, _ in COPIES if has_vectors(name, cls)]


def field_bytes(numerics, cls):
    """How many bytes a field of a class has: of its 8 blocks, or of its rows in each vector."""
    grouping = class_of(numerics, cls).grouping
    if grouping.kind != "vector":
        return 8
    return numerics.block * len({j * numerics.block // grouping.size for j in range(8)})


def writes_of(fields, banks, rng):
    """Neighbouring bytes of the groups' fields in any order, but the last group's last, some of
    them alone, with noise where nothing is written."""
    rows = range(-(-len(fields[0]) // banks))
    places = [(row, group) for row in rows for group in range(len(fields))]
    for row, group in [*rng.sample(places[:-1], len(places) - 1), places[-1]]:
        here = fields[group][row * banks : (row + 1) * banks]
        parts = [{rng.randrange(4)} for _ in here]  # in which of four writes a byte goes
        for part in range(4):
            enable = sum((part in mine) << n for n, mine in enumerate(parts))
            if enable:
                noise = rng.randbytes(banks)
                values = [here[n] if enable >> n & 1 else noise[n] for n in range(banks)]
                yield {"row": row, "group": group, "enable": enable, "values": values}


@pytest.mark.parametrize("name, cls, copy", COPIES)
@pytest.mark.sampled(2)
def test_fields(name, cls, copy, rng):
    numerics, data_width = machine(name)
    dut = design(ExponentField, numerics=numerics, data_width=data_width, copy=copy)
    banks, most = field_banks(dut.geometry, copy), field_groups(dut.geometry, copy)
    count = field_bytes(numerics, cls)
    halves = [
        [[rng.randrange(256) for _ in range(count)] for _ in range(rng.choice([1, most]))]
        for _ in range(6)
    ]
    given = [rng.choice([count, rng.randrange(1, count + 1)]) for _ in halves]  # the rest: zeros
    free = [2]

    async def write(ctx):
        ctx.set(dut.cls, cls)
        for number, fields in enumerate(halves):
            while not free[0]:
                await ctx.tick()
            free[0] -= 1
            ctx.set(dut.write_half, number % 2)
            for item in writes_of([field[: given[number]] for field in fields], banks, rng):
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
        for number, fields in enumerate(halves):
            for group, field in enumerate(fields):
                for n, byte in enumerate(field):
                    got = await get(ctx, dut.o, lambda: rng.random() < 0.6)
                    wanted = (byte if n < given[number] else 0, n == count - 1, field is fields[-1])
                    where = f"half {number} group {group} byte {n}"
                    assert (got.byte, got.last, got.end) == wanted, where
        for _ in range(3):
            assert not (await ctx.tick().sample(dut.o.valid))[-1], "extra output"
        assert free[0] == 2

    run(dut, write, check, background=[count_freed], limit=60_000)


@pytest.mark.parametrize(
    "name, copy", [("squares", 0), ("vectors", 0), ("elements", 0), ("vectors", 1)]
)
def test_timing(name, copy):
    """The first byte 2 cycles after ``filled``, a byte per cycle, the halves without a gap; a half
    is free with the last byte read, the cycle before it is valid."""
    numerics, data_width = machine(name)
    dut = design(ExponentField, numerics=numerics, data_width=data_width, copy=copy)
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
    dut = design(ExponentField, numerics=numerics, data_width=data_width, copy=0)

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
        ("squares", 0): (1, 8, 1),
        ("elements", 0): (2, 4, 1),
        ("words of many blocks", 0): (8, 1, 1),
        ("vectors", 0): (1, 32, 1),
        ("vectors", 1): (2, 16, 8),
        ("long vectors", 1): (2, 8, 32),
        ("vectors of elements", 1): (1, 4, 8),
        ("folding what overflows", 1): (4, 1, 8),
    }
    for (name, copy), sizes in wanted.items():
        numerics, data_width = machine(name)
        dut = ExponentField(numerics=numerics, data_width=data_width, copy=copy)
        functions = (field_banks, field_rows, field_groups)
        assert tuple(each(dut.geometry, copy) for each in functions) == sizes, (name, copy)
