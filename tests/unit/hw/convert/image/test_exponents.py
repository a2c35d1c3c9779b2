# amaranth: UnusedElaboratable=no
"""Exponent fields of two groups, or strips: bytes written in any order come out in the image's."""

import pytest

from diastole_hw.convert.image.exponents import (
    ExponentField,
    field_banks,
    field_groups,
    field_rows,
)
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from support.bench import design
from support.tiles import MACHINES, class_of, machine
from support.unit_bench import Unit

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
    """A half is written when one is free; bytes that are not are zeros."""
    numerics, data_width = machine(name)
    dut = design(ExponentField, ConverterSizes(numerics=numerics, data_width=data_width), copy=copy)
    banks, most = field_banks(dut.sizes, copy), field_groups(dut.sizes, copy)
    count = field_bytes(numerics, cls)
    halves = [
        [[rng.randrange(256) for _ in range(count)] for _ in range(rng.choice([1, most]))]
        for _ in range(6)
    ]
    given = [rng.choice([count, rng.randrange(1, count + 1)]) for _ in halves]
    unit = Unit(dut, rng, pace=0.6)
    unit.hold(cls=cls)
    unit.take(
        dut.o,
        [
            {"byte": byte if n < known else 0, "last": n == count - 1, "end": field is fields[-1]}
            for fields, known in zip(halves, given, strict=True)
            for field in fields
            for n, byte in enumerate(field)
        ],
    )
    freed = unit.record(dut.freed)

    async def write(ctx):
        for number, fields in enumerate(halves):
            while number - len(freed.cycles) == 2:
                await ctx.tick()
            unit.set(ctx, write_half=number % 2)
            for item in writes_of([field[: given[number]] for field in fields], banks, rng):
                while rng.random() < 0.2:
                    await ctx.tick()
                await unit.pulse(ctx, "write_en", write=item)
            await unit.pulse(ctx, "filled")

    unit.run(write, limit=60_000)
    assert len(freed.cycles) == len(halves)


@pytest.mark.parametrize(
    "name, copy", [("squares", 0), ("vectors", 0), ("elements", 0), ("vectors", 1)]
)
def test_timing(name, copy):
    """The first byte 2 cycles after ``filled``, a byte per cycle, the halves without a gap; a half
    is free with the last byte read, the cycle before it is valid."""
    numerics, data_width = machine(name)
    unit = Unit(
        design(ExponentField, ConverterSizes(numerics=numerics, data_width=data_width), copy=copy)
    )
    count = field_bytes(numerics, 0)
    given, freed = unit.collect(unit.dut.o), unit.record(unit.dut.freed)

    async def fill(ctx):
        for _ in range(2):
            await unit.pulse(ctx, "filled")

    unit.run(fill)
    assert given.cycles == list(range(2, 2 + 2 * count))
    assert freed.cycles == [count, 2 * count]


def test_a_byte_waits_for_nobody():
    """It is valid 2 cycles after ``filled`` whether or not it is asked for, and stays."""
    numerics, data_width = machine("squares")
    unit = Unit(
        design(ExponentField, ConverterSizes(numerics=numerics, data_width=data_width), copy=0)
    )
    byte, shown = unit.collect(unit.dut.o, 0), unit.record(unit.dut.o.p.byte)
    valid = unit.record(unit.dut.o.valid)
    written = {"row": 0, "enable": 1, "values": [77]}

    async def fill(ctx):
        await unit.pulse(ctx, "filled", write_en=1, write=written)
        unit.set(ctx, write_en=0)

    unit.run(fill, cycles=6)
    assert valid.cycles == [*range(2, len(valid.values))]
    assert set(shown.values[2:]) == {77}
    assert not byte.items


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
        dut = ExponentField(ConverterSizes(numerics=numerics, data_width=data_width), copy=copy)
        functions = (field_banks, field_rows, field_groups)
        assert tuple(each(dut.sizes, copy) for each in functions) == sizes, (name, copy)
