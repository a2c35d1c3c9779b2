"""Entries between memory and tables: every table, width of bus and side, against plain bytes."""

from functools import partial

import pytest
from amaranth.hdl import Value

from diastole_hw.vector.stream_layouts import VectorShape
from diastole_hw.vector.vector_tables import entries, entry_bits
from diastole_sim.spec.limits import COUNTED_BITS, STORABLE_TABLES, VectorTable, vector_tables
from diastole_sim.spec.micro import INVERSE, SCALE
from support.bench import design, simulation
from support.bus import ServiceMemory
from support.tables_unit import TablesWithTransfer

SIZE = 1 << 14
PORTS = {
    VectorTable.INSTRUCTIONS: "instruction",
    VectorTable.CONSTANTS: "constant",
    VectorTable.AMAX: "amax",
    VectorTable.PANEL: "panel",
    VectorTable.DESCRIPTORS: "slot",
    VectorTable.EPS: "eps",
    VectorTable.WIDTHS: "widths",
}
READS = {VectorTable.EPS: "amax", VectorTable.WIDTHS: "amax"}
"""Those that are read with another one."""
SHAPES = [(32, 1), (32, 16), (64, 2), (64, 8), (128, 4), (128, 8), (256, 16), (512, 1), (512, 8)]


def shape_of(data_width: int, block: int, *, decides: bool = False) -> VectorShape:
    return VectorShape(
        block=block,
        data_width=data_width,
        specials=1,
        panel_vectors=64,
        choices=(decides, False, False),
    )


async def transfer(ctx, dut, step=0, **fields):
    """Cycles from ``start`` to ``done``."""
    ctx.set(dut.transfer, fields)
    ctx.set(dut.step, step)
    ctx.set(dut.start, 1)
    await ctx.tick()
    ctx.set(dut.start, 0)
    ctx.set(dut.step, 0x5A5A5A5A)  # looked at with start only
    cycles = 1
    while not (await ctx.tick().sample(dut.done))[2]:
        cycles += 1
    return cycles


async def read_entry(ctx, dut, table, at):
    """Through the port of who uses the table."""
    name = READS.get(table, PORTS[table])
    ctx.set(getattr(dut, f"{name}_at"), at)
    ctx.set(getattr(dut, f"{name}_en"), 1)
    await ctx.tick()
    ctx.set(getattr(dut, f"{name}_en"), 0)
    return ctx.get(Value.cast(getattr(dut, PORTS[table])))


def counted(table, data):
    """An entry as the table has it."""
    if table not in COUNTED_BITS:
        return data
    word = int.from_bytes(data, "little") & (1 << COUNTED_BITS[table]) - 1
    return word.to_bytes(4, "little")


async def simulation_of(dut, rng, stalled):
    """A simulation with a memory of random bytes, and that memory."""
    memory = ServiceMemory(SIZE, dut.shape.beat_bytes, lambda: stalled and rng.random() < 0.4)
    memory.bytes[:] = rng.randbytes(SIZE)
    return await simulation(dut, background=services(dut, memory), limit=200_000), memory


def services(dut, memory):
    return (
        partial(memory.read, requests=dut.read.requests, data=dut.read.beats),
        partial(memory.write, requests=dut.write.requests, beats=dut.write.beats),
    )


def a_transfer(rng, shape, table, *, most=None):
    """A place in the table and in memory: (first, count, step, fields of addresses, address)."""
    total = entries(shape, table)
    count = rng.choice([1, 2, 3, rng.randrange(1, min(total, most or total) + 1)])
    first = rng.choice([0, total - count, rng.randrange(total - count + 1)])
    beat = shape.beat_bytes
    bytes_ = -(-count * entry_bits(shape, table) // 8 // beat) * beat
    at = rng.randrange((SIZE - bytes_) // beat + 1)
    step = rng.choice([0, 1, rng.randrange(at + 1)])
    advance = rng.randrange(at // max(step, 1) + 1) if rng.random() < 0.8 else 0
    fields = {"address": (at - step * advance) * beat, "advance": advance * beat}
    if step * advance > at:
        step, fields = 0, {"address": at * beat, "advance": advance * beat}
    return first, count, step, fields, at * beat


@pytest.mark.parametrize("stalled", [False, True], ids=["free", "stalled"])
@pytest.mark.parametrize(
    "data_width, block, decides",
    [*((*each, False) for each in SHAPES), (32, 4, True), (64, 8, True), (128, 2, True)],
)
@pytest.mark.sampled(6)
async def test_tables_come_from_memory_and_go_there(data_width, block, decides, stalled, rng):
    shape = shape_of(data_width, block, decides=decides)
    dut = design(TablesWithTransfer, shape)
    held = {table: {} for table in vector_tables(choices=shape.has_choices)}
    ctx, memory = await simulation_of(dut, rng, stalled)
    for _ in range(30):
        table = rng.choice(vector_tables(choices=shape.has_choices))
        size = entry_bits(shape, table) // 8
        first, count, step, places, at = a_transfer(rng, shape, table, most=70)
        store = bool(table in STORABLE_TABLES and held[table] and rng.random() < 0.5)
        expected = bytearray(memory.bytes)
        if store:
            first = rng.choice(list(held[table]))
            count = 1
            while first + count in held[table] and count < 40:
                count += 1
            data = b"".join(held[table][first + n] for n in range(count))
            end = at + len(data)
            if end > SIZE:
                continue
            expected[at:end] = data
        about = f"{table.name} store={store} {first} {count} {step} {places}"
        fields = {"store": store, "table": table, "first": first, "count": count}
        memory.reads.clear()
        memory.writes.clear()
        await transfer(ctx, dut, step, **fields, **places)
        for _ in range(3):
            await ctx.tick()
        assert memory.bytes == expected, about
        asked = memory.writes if store else memory.reads
        assert asked == pieces(at, count * size, shape.beat_bytes), about
        assert not (memory.reads if store else memory.writes), about
        if not store:
            for n in range(count):
                if table != VectorTable.CONSTANTS or first + n not in (SCALE, INVERSE):
                    entry = bytes(memory.bytes[at + n * size :][:size])
                    held[table][first + n] = counted(table, entry)
        for table, those in held.items():
            for number in rng.sample(list(those), min(4, len(those))):
                found = await read_entry(ctx, dut, table, number)
                assert found == int.from_bytes(those[number], "little"), about


def pieces(at, length, beat):
    """Requests of at most 256 beats."""
    beats = -(-length // beat)
    return [(at + n * beat, min(256, beats - n)) for n in range(0, beats, 256)]


async def test_beats_of_vectors_move_one_a_cycle(rng):
    shape = shape_of(128, 8)
    dut = design(TablesWithTransfer, shape)
    ctx, _ = await simulation_of(dut, rng, stalled=False)
    places = {"table": VectorTable.PANEL, "first": 0, "count": 64, "address": 0}
    # 128 beats; the bench's memory answers in the third cycle after the first of the request.
    assert await transfer(ctx, dut, store=0, **places) == 128 + 2
    assert await transfer(ctx, dut, store=1, **places) == 128 + 3


async def test_requests_in_pieces(rng):
    shape = VectorShape(block=16, data_width=32, specials=1, panel_vectors=64)
    dut = design(TablesWithTransfer, shape)
    ctx, memory = await simulation_of(dut, rng, stalled=True)
    places = {"table": VectorTable.PANEL, "first": 1, "count": 49, "address": 64}
    await transfer(ctx, dut, store=0, **places)
    assert memory.reads == pieces(64, 49 * 64, 4)
    assert [beats for _, beats in memory.reads] == [256, 256, 256, 16]
    expected = bytes(memory.bytes[64 : 64 + 49 * 64])
    await transfer(ctx, dut, store=1, **(places | {"address": 8192}))
    await ctx.tick()
    assert memory.writes == pieces(8192, 49 * 64, 4)
    assert memory.bytes[8192 : 8192 + len(expected)] == expected


@pytest.mark.parametrize("store", [0, 1])
async def test_nothing_to_move(store, rng):
    dut = design(TablesWithTransfer, shape_of(64, 2))
    ctx, memory = await simulation_of(dut, rng, stalled=False)
    fields = {"store": store, "table": VectorTable.AMAX, "count": 0, "first": 3, "advance": 8}
    assert await transfer(ctx, dut, 2**32 - 1, **fields) == 1
    for _ in range(40):
        await ctx.tick()
    assert not memory.reads
    assert not memory.writes


async def test_addresses_wrap_at_forty_bits(rng):
    dut = design(TablesWithTransfer, shape_of(64, 2))
    step, advance = 0xFFFFFFFF, 0xFFFFFFF8
    address = (256 - step * advance) % 2**40
    ctx, memory = await simulation_of(dut, rng, stalled=False)
    fields = {"store": 0, "table": VectorTable.CONSTANTS, "count": 5, "first": 0}
    await transfer(ctx, dut, step, **fields, address=address, advance=advance)
    assert memory.reads == [(256, 3)]


@pytest.mark.parametrize("table", [VectorTable.AMAX, VectorTable.WIDTHS])
async def test_scales_are_used_from_outside_meanwhile(table, rng):
    """Each user gets its own entries, whenever it asks."""
    shape = shape_of(64, 2, decides=table == VectorTable.WIDTHS)
    dut = design(TablesWithTransfer, shape)
    put = {VectorTable.AMAX: "amax_put", VectorTable.WIDTHS: "width_put"}[table]
    words = {}

    async def outside(ctx):
        for _ in range(900):
            chance = rng.random()
            if chance < 0.5:
                await ctx.tick()
            elif chance < 0.75:
                at, word = rng.randrange(200, 255), rng.getrandbits(COUNTED_BITS.get(table, 32))
                ctx.set(getattr(dut, f"{put}_en"), 1)
                ctx.set(dut.amax_put_at, at)
                ctx.set(getattr(dut, put), word)
                await ctx.tick()
                ctx.set(getattr(dut, f"{put}_en"), 0)
                words[at] = word
            elif words:
                at = rng.choice(list(words))
                assert await read_entry(ctx, dut, table, at) == words[at]

    memory = ServiceMemory(SIZE, 8, lambda: rng.random() < 0.3)
    ctx = await simulation(dut, outside, background=services(dut, memory), limit=50_000)
    for _ in range(6):
        fields = {"table": table, "first": 17, "count": 31}
        await transfer(ctx, dut, store=0, address=0, **fields)
        await transfer(ctx, dut, store=1, address=4096, **fields)
        for _ in range(3):
            await ctx.tick()
        entries_ = (memory.bytes[n : n + 4] for n in range(0, 124, 4))
        expected = b"".join(counted(table, each) for each in entries_)
        assert memory.bytes[4096 : 4096 + 124] == expected
        memory.bytes[:124] = rng.randbytes(124)


async def test_a_store_is_not_done_before_it_has_asked(rng):
    """Its beats may all be taken before its request is."""
    dut = design(TablesWithTransfer, shape_of(64, 2))
    ctx = await simulation(dut)
    ctx.set(dut.write.beats.ready, 1)
    ctx.set(dut.transfer, {"store": 1, "table": VectorTable.PANEL, "first": 0, "count": 3})
    ctx.set(dut.start, 1)
    await ctx.tick()
    ctx.set(dut.start, 0)
    beats = 0
    for _ in range(30):
        _, _, valid, done = await ctx.tick().sample(dut.write.beats.valid, dut.done)
        beats += valid
        assert not done
    assert beats == 3
    ctx.set(dut.write.requests.ready, 1)
    _, _, asked, request = await ctx.tick().sample(
        dut.write.requests.valid, dut.write.requests.payload
    )
    assert (asked, request.addr, request.beats) == (1, 0, 3)
    assert (await ctx.tick().sample(dut.done))[2]
    assert not (await ctx.tick().sample(dut.done))[2]
