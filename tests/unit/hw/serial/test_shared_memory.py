# amaranth: UnusedElaboratable=no
"""Memory on the chip: bursts and words at once, each in its own half, and what is outside."""

import pytest

from diastole_hw.serial.shared_memory import SharedMemory
from support.bench import design, run, simulation

BASE, SIZE = 0x4000, 8192
OKAY, DECERR = 0, 3


async def write_burst(ctx, axi, address, beats, stalled):
    """``beats``: (value, strobes); gives the response."""
    ctx.set(axi.awaddr, address)
    ctx.set(axi.awlen, len(beats) - 1)
    ctx.set(axi.awvalid, 1)
    while not (await ctx.tick().sample(axi.awready))[2]:
        pass
    ctx.set(axi.awvalid, 0)
    for number, (value, strobes) in enumerate(beats):
        while stalled():
            await ctx.tick()
        for name, each in (("wdata", value), ("wstrb", strobes), ("wvalid", 1)):
            ctx.set(getattr(axi, name), each)
        ctx.set(axi.wlast, number == len(beats) - 1)
        while not (await ctx.tick().sample(axi.wready))[2]:
            pass
        ctx.set(axi.wvalid, 0)
    while True:
        ready = not stalled()
        ctx.set(axi.bready, ready)
        _, _, valid, response = await ctx.tick().sample(axi.bvalid, axi.bresp)
        if valid and ready:
            ctx.set(axi.bready, 0)
            return response


async def read_burst(ctx, axi, address, count, stalled):
    """(value, response) of every beat."""
    ctx.set(axi.araddr, address)
    ctx.set(axi.arlen, count - 1)
    ctx.set(axi.arvalid, 1)
    while not (await ctx.tick().sample(axi.arready))[2]:
        pass
    ctx.set(axi.arvalid, 0)
    found = []
    while len(found) < count:
        ready = not stalled()
        ctx.set(axi.rready, ready)
        watched = (axi.rvalid, axi.rdata, axi.rresp, axi.rlast)
        _, _, valid, value, response, last = await ctx.tick().sample(*watched)
        if valid and ready:
            found.append((value, response))
            assert last == (len(found) == count)
    ctx.set(axi.rready, 0)
    return found


async def word(ctx, port, address, value=None):
    """Reads a word, or writes it; gives (what was read, response)."""
    for name, each in (("address", address), ("write", value is not None), ("word", value or 0)):
        ctx.set(getattr(port, name), each)
    ctx.set(port.valid, 1)
    while True:
        _, _, done, *found = await ctx.tick().sample(port.done, port.answer, port.response)
        if done:
            ctx.set(port.valid, 0)
            return tuple(found)


@pytest.mark.parametrize("data_width", [32, 64, 256])
@pytest.mark.parametrize("p_stall", [0.0, 0.4], ids=["free", "stalled"])
@pytest.mark.sampled(2)
def test_bursts_and_words_at_once(data_width, p_stall, rng):
    dut = design(SharedMemory, data_width=data_width, base=BASE, size=SIZE)
    size, half = data_width // 8, SIZE // 2
    stalled = lambda: rng.random() < p_stall  # noqa: E731
    shared = {}

    async def machine(ctx):
        memory = {}
        for _ in range(14):
            count = rng.choice([1, 2, 7, 16])
            address = BASE + size * rng.randrange(half // size - count)
            beats = [
                (rng.getrandbits(data_width), rng.choice([rng.getrandbits(size), 2**size - 1]))
                for _ in range(count)
            ]
            assert await write_burst(ctx, dut.axi, address, beats, stalled) == OKAY
            for number, (value, strobes) in enumerate(beats):
                for k, byte in enumerate(value.to_bytes(size, "little")):
                    if strobes >> k & 1:
                        memory[address + number * size + k] = byte
            found = await read_burst(ctx, dut.axi, address, count, stalled)
            for number, (value, response) in enumerate(found):
                assert response == OKAY
                for k, byte in enumerate(value.to_bytes(size, "little")):
                    at = address + number * size + k
                    assert byte == memory.get(at, byte), f"beat {number}, byte {k}"
        shared.update(memory)

    async def bridge(ctx):
        memory = {}
        for _ in range(60):
            address = BASE + half + 4 * rng.randrange(half // 4)
            memory[address] = rng.getrandbits(32)
            assert (await word(ctx, dut.port, address, memory[address]))[1] == OKAY
            known = rng.choice(list(memory))
            assert await word(ctx, dut.port, known) == (memory[known], OKAY)
            while stalled():
                await ctx.tick()
        while not shared:
            await ctx.tick()
        for address in sorted({each // 4 * 4 for each in shared})[:40]:  # of the machine
            value, _ = await word(ctx, dut.port, address)
            for k, byte in enumerate(value.to_bytes(4, "little")):
                assert byte == shared.get(address + k, byte)

    run(dut, machine, bridge)


@pytest.mark.parametrize("address", [0, BASE - 64, BASE + SIZE, 2**32 + BASE, 2**40 - 64])
async def test_bursts_outside(address, rng):
    """They are answered so, and write nothing."""
    dut = design(SharedMemory, data_width=64, base=BASE, size=SIZE)
    never = lambda: False  # noqa: E731
    ctx = await simulation(dut)
    kept = [rng.getrandbits(32) for _ in range(4)]
    places = [BASE, BASE + 60, BASE + SIZE - 64, BASE + SIZE - 4]
    for at, value in zip(places, kept, strict=True):
        await word(ctx, dut.port, at, value)
    beats = [(0xDEAD, 255)] * 8
    assert await write_burst(ctx, dut.axi, address, beats, never) == DECERR
    found = await read_burst(ctx, dut.axi, address, 3, never)
    assert [response for _, response in found] == [DECERR] * 3
    for at, value in zip(places, kept, strict=True):
        assert await word(ctx, dut.port, at) == (value, OKAY)
    beats = [(n, 255) for n in range(8)]
    assert await write_burst(ctx, dut.axi, BASE + SIZE - 64, beats, never) == OKAY
    found = await read_burst(ctx, dut.axi, BASE + SIZE - 64, 8, never)
    assert found == [(n, OKAY) for n in range(8)]


async def test_words_outside():
    dut = design(SharedMemory, data_width=64, base=BASE, size=SIZE)
    ctx = await simulation(dut)
    await word(ctx, dut.port, BASE, 5)
    for address in (0, BASE - 4, BASE + SIZE, 2**31 + BASE):
        assert (await word(ctx, dut.port, address, 9))[1] == DECERR
        assert (await word(ctx, dut.port, address))[1] == DECERR
    assert await word(ctx, dut.port, BASE) == (5, OKAY)


async def test_a_beat_in_every_cycle():
    """Sixteen in a row, the first two cycles after its address."""
    dut = design(SharedMemory, data_width=32, base=BASE, size=SIZE)
    moved = []

    async def watch(ctx):
        cycle = 0
        async for _, _, valid, ready in ctx.tick().sample(dut.axi.rvalid, dut.axi.rready):
            cycle += 1
            if valid and ready:
                moved.append(cycle)

    ctx = await simulation(dut, background=[watch])
    await read_burst(ctx, dut.axi, BASE, 16, lambda: False)
    await ctx.tick()
    assert moved == list(range(moved[0], moved[0] + 16))
