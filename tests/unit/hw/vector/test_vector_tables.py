"""Memories of the vector unit: every port against a dictionary, and who waits for whom."""

import pytest
from amaranth.hdl import Value

from diastole_hw.vector.stream_layouts import VectorShape
from diastole_hw.vector.vector_tables import (
    VectorTables,
    chunk_bits,
    chunks,
    entries,
    entry_bits,
)
from diastole_sim.spec.limits import (
    COUNTED_BITS,
    STORABLE_TABLES,
    WIDTH_TABLES,
    VectorTable,
    vector_tables,
)
from support.bench import design, run, simulation

READERS = {
    VectorTable.INSTRUCTIONS: [
        ("scan_en", "scan_at", "instruction"),
        ("instruction_en", "instruction_at", "instruction"),
    ],
    VectorTable.CONSTANTS: [("constant_en", "constant_at", "constant")],
    VectorTable.AMAX: [("amax_en", "amax_at", "amax")],
    VectorTable.PANEL: [("panel_en", "panel_at", "panel")],
    VectorTable.DESCRIPTORS: [("slot_en", "slot_at", "slot")],
    VectorTable.EPS: [("amax_en", "amax_at", "eps")],
    VectorTable.WIDTHS: [("amax_en", "amax_at", "widths")],
}
OTHERS = [table for table in VectorTable if table not in WIDTH_TABLES]
WORDS = {table: readers[0][2] for table, readers in READERS.items()}


def shape_of(data_width, block, *, decides=False):
    return VectorShape(
        block=block,
        data_width=data_width,
        specials=1,
        panel_vectors=32,
        choices=(False, decides, False),
    )


class Bench:
    """What should be in the tables."""

    def __init__(self, ctx, dut, rng):
        self.ctx, self.dut, self.rng = ctx, dut, rng
        self.held = {table: {} for table in vector_tables(choices=dut.shape.has_choices)}

    async def put_chunks(self, table, at, word):
        """An entry, its chunks in any order, with rubbish above each."""
        shape, bits = self.dut.shape, chunk_bits(self.dut.shape, table)
        banks = list(range(chunks(shape, table)))
        self.rng.shuffle(banks)
        for bank in banks:
            rubbish = self.rng.getrandbits(shape.data_width) >> bits << bits
            chunk = word >> bits * bank & (1 << bits) - 1 | rubbish
            fields = {"table": table, "at": at, "bank": bank, "chunk": chunk}
            self.ctx.set(self.dut.put, fields | {"valid": 1})
            await self.ctx.tick()
            self.ctx.set(self.dut.put, fields | {"valid": 0, "at": 0})
        self.held[table][at] = word & (1 << COUNTED_BITS.get(table, bits * len(banks))) - 1

    async def put_outside(self, table, at, word):
        """By the unit that uses the table."""
        ctx, dut = self.ctx, self.dut
        if table == VectorTable.CONSTANTS:
            port = dut.constant_put[self.rng.randrange(2)]
            ctx.set(port, {"valid": 1, "index": at, "value": word})
            await ctx.tick()
            ctx.set(port, {"valid": 0, "index": self.rng.randrange(256), "value": 5})
        else:
            name = "width_put" if table == VectorTable.WIDTHS else f"{table.name.lower()}_put"
            place = "amax_put" if table == VectorTable.WIDTHS else name
            ctx.set(getattr(dut, f"{place}_at"), at)
            ctx.set(Value.cast(getattr(dut, name)), word)
            ctx.set(getattr(dut, f"{name}_en"), 1)
            await ctx.tick()
            ctx.set(getattr(dut, f"{name}_en"), 0)
            ctx.set(Value.cast(getattr(dut, name)), 0)
        self.held[table][at] = word

    async def read(self, table, at):
        """The same through every port, and held."""
        ctx, dut = self.ctx, self.dut
        for en, place, word in READERS[table]:
            ctx.set(getattr(dut, place), at)
            ctx.set(getattr(dut, en), 1)
            await ctx.tick()
            ctx.set(getattr(dut, en), 0)
            ctx.set(getattr(dut, place), self.rng.randrange(entries(dut.shape, table)))
            for _ in range(2):
                assert ctx.get(Value.cast(getattr(dut, word))) == self.held[table][at], table.name
                await ctx.tick()
        if table in STORABLE_TABLES:
            ctx.set(dut.take, {"valid": 1, "table": table, "at": at})
            await ctx.tick()
            ctx.set(dut.take, {"valid": 0, "table": table, "at": 0})
            found = ctx.get(Value.cast(getattr(dut, WORDS[table])))
            assert found == self.held[table][at], table.name


@pytest.mark.parametrize("decides", [False, True])
@pytest.mark.parametrize(
    "data_width, block", [(32, 1), (32, 4), (64, 1), (64, 8), (128, 8), (512, 2), (512, 32)]
)
@pytest.mark.sampled(2)
async def test_every_port(data_width, block, decides, rng):
    dut = design(VectorTables, shape_of(data_width, block, decides=decides))
    tables = vector_tables(choices=dut.shape.has_choices)
    assert tables == tuple(VectorTable if decides else OTHERS)
    given = (VectorTable.CONSTANTS, VectorTable.AMAX, VectorTable.PANEL, VectorTable.WIDTHS)
    ctx = await simulation(dut)
    it = Bench(ctx, dut, rng)
    for _ in range(120):
        table = rng.choice(tables)
        at = rng.choice([0, entries(dut.shape, table) - 1, rng.randrange(24)])
        word = rng.getrandbits(entry_bits(dut.shape, table))
        if table in given and rng.random() < 0.5:
            word &= (1 << COUNTED_BITS.get(table, 1024)) - 1
            await it.put_outside(table, at, word)
        else:
            await it.put_chunks(table, at, word)
        some = rng.choice([each for each in tables if it.held[each]])
        await it.read(some, rng.choice(list(it.held[some])))
        if decides:
            last = [it.held[VectorTable.WIDTHS].get(slot, 0) & 1 for slot in range(255)]
            assert ctx.get(dut.last) == sum(bit << slot for slot, bit in enumerate(last))
    for table, those in it.held.items():
        for at in those:
            await it.read(table, at)


@pytest.mark.parametrize("data_width", [32, 64])
async def test_the_scale_of_the_loss_is_not_loaded(data_width, rng):
    dut = design(VectorTables, shape_of(data_width, 4))
    ctx = await simulation(dut)
    it = Bench(ctx, dut, rng)
    for at in (251, 252, 253, 254):
        await it.put_outside(VectorTable.CONSTANTS, at, at)
    for at in (251, 252, 253, 254):
        await it.put_chunks(VectorTable.CONSTANTS, at, 5)
    await it.put_chunks(VectorTable.AMAX, 252, 5)
    it.held[VectorTable.CONSTANTS] |= {252: 252, 253: 253}
    for table, held in it.held.items():
        for at in held:
            await it.read(table, at)


@pytest.mark.parametrize("table", OTHERS)
async def test_scales_have_two_users(table, rng):
    dut = design(VectorTables, shape_of(64, 2))
    scales = table == VectorTable.AMAX
    ctx = await simulation(dut)
    it = Bench(ctx, dut, rng)
    await it.put_chunks(table, 7, 1)
    await it.put_chunks(table, 8, 3)
    await it.put_outside(VectorTable.AMAX, 9, 9)
    ctx.set(dut.amax_put_at, 9)
    ctx.set(dut.amax_put, 2)
    ctx.set(dut.amax_put_en, 1)
    ctx.set(dut.put, {"valid": 1, "table": table, "at": 7, "bank": 0, "chunk": 5})
    await ctx.tick()
    assert ctx.get(dut.blocked) == scales
    ctx.set(dut.put.valid, 0)
    ctx.set(dut.amax_put_en, 0)
    await ctx.delay(0)
    assert not ctx.get(dut.blocked)
    it.held[VectorTable.AMAX][9] = 2
    it.held[table][7] = 1 if scales else 5
    for at in (7, 8):
        await it.read(table, at)
    await it.read(VectorTable.AMAX, 9)
    if table in STORABLE_TABLES:
        ctx.set(dut.amax_at, 9)
        ctx.set(dut.amax_en, 1)
        ctx.set(dut.take, {"valid": 1, "table": table, "at": 8})
        await ctx.tick()
        assert ctx.get(dut.blocked) == scales
        assert ctx.get(dut.amax) == 2
        if not scales:
            assert ctx.get(Value.cast(getattr(dut, WORDS[table]))) == 3
        ctx.set(dut.amax_en, 0)


async def test_widths_have_two_users(rng):
    """A conversion reads both tables of a slot, and writes the widths apart."""
    dut = design(VectorTables, shape_of(64, 2, decides=True))
    table = VectorTable.WIDTHS
    ctx = await simulation(dut)
    it = Bench(ctx, dut, rng)
    await it.put_chunks(table, 7, 1)
    await it.put_chunks(table, 9, 3)
    ctx.set(dut.amax_put_at, 9)
    ctx.set(dut.width_put, 2)
    ctx.set(dut.put, {"valid": 1, "table": table, "at": 7, "bank": 0, "chunk": 2})
    ctx.set(dut.width_put_en, 1)
    await ctx.tick()
    assert ctx.get(dut.blocked)
    assert ctx.get(dut.last) == 1 << 7
    ctx.set(dut.width_put_en, 0)
    ctx.set(dut.amax_put_en, 1)
    await ctx.tick()
    assert not ctx.get(dut.blocked)
    ctx.set(dut.put.valid, 0)
    ctx.set(dut.amax_put_en, 0)
    it.held[table] |= {7: 2, 9: 2}
    for at in (7, 9):
        await it.read(table, at)
    ctx.set(dut.amax_at, 9)
    ctx.set(dut.amax_en, 1)
    ctx.set(dut.take, {"valid": 1, "table": table, "at": 7})
    await ctx.tick()
    assert ctx.get(dut.blocked)
    assert ctx.get(dut.widths) == 2
    ctx.set(dut.amax_en, 0)


CLASHES = {
    "constants writes": ("put", "constant_put"),
    "panel writes": ("put", "panel_put_en"),
    "instructions reads": ("scan_en", "instruction_en"),
    "panel reads": ("take", "panel_en"),
    "constants reads": ("take", "constant_en"),
}


@pytest.mark.parametrize("what", CLASHES)
def test_two_users_at_once_are_noticed(what):
    dut = VectorTables(shape_of(64, 2))
    table = VectorTable[what.split()[0].upper()]

    async def bench(ctx):
        for name in CLASHES[what]:
            if name in ("put", "take"):
                ctx.set(getattr(dut, name), {"valid": 1, "table": table, "at": 1})
            elif name == "constant_put":
                ctx.set(dut.constant_put[1].valid, 1)
            else:
                ctx.set(getattr(dut, name), 1)
        await ctx.tick()
        await ctx.tick()

    with pytest.raises(AssertionError, match=f"two users of {what}"):
        run(dut, bench)


def test_sizes():
    shape = shape_of(64, 8)
    assert [entry_bits(shape, table) for table in VectorTable] == [64, 32, 32, 256, 128, 32, 32]
    assert [chunk_bits(shape, table) for table in VectorTable] == [64, 32, 32, 64, 64, 32, 32]
    assert [chunks(shape, table) for table in VectorTable] == [1, 1, 1, 4, 2, 1, 1]
    assert [entries(shape, table) for table in VectorTable] == [256, 256, 255, 32, 128, 255, 255]
