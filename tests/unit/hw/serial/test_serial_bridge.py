# amaranth: UnusedElaboratable=no
"""The link from wire to wire."""

import pytest

from diastole_hw.serial.serial_bridge import SerialBridge
from diastole_sim.spec.serial import (
    IDENTITY,
    LINK_MAGIC,
    Frame,
    FrameReader,
    LinkOperation,
    on_line,
)
from support.bench import design, simulation
from support.serial_wires import decoded_levels, drive_octets, watch_levels

DIVISOR = 4


async def test_an_identification():
    sizes = {"memory_base": 4096, "memory_bytes": 8192, "clock_hz": 25_000_000}
    dut = design(SerialBridge, divisor=DIVISOR, **sizes)
    asked = Frame(operation=LinkOperation.IDENTIFY, sequence=0x7E7D, address=0, words=len(IDENTITY))
    levels = []

    async def watch(ctx):
        await watch_levels(ctx, dut.tx, levels)

    ctx = await simulation(dut, background=[watch])
    await drive_octets(ctx, dut.rx, b"noise" + on_line(asked.encode()), DIVISOR)
    await ctx.tick().repeat(45 * 10 * DIVISOR)
    (frame,) = FrameReader().feed(bytes(decoded_levels(levels, DIVISOR)))
    words = (LINK_MAGIC, 0x10000, *sizes.values())
    assert Frame.decode(frame) == asked.reply(data=words)


@pytest.mark.parametrize(
    "asks, word", [(LinkOperation.READ_MEMORY, 7), (LinkOperation.READ_REGISTERS, 9)]
)
async def test_a_word_that_is_read(asks, word):
    """Of the memory that ``memory`` leads to, or of registers behind ``axil``."""
    dut = design(SerialBridge, divisor=DIVISOR, memory_base=0, memory_bytes=4096, clock_hz=1)
    asked, levels, where = Frame(operation=asks, sequence=1, address=8, words=1), [], set()

    async def watch(ctx):
        await watch_levels(ctx, dut.tx, levels)

    async def addresses(ctx):
        memory, axil = dut.memory, dut.axil
        ports = memory.valid, memory.address, axil.arvalid, axil.araddr
        async for _, _, reads, at, asks_for, register in ctx.tick().sample(*ports):
            where.update({(7, at)} if reads else (), {(9, register)} if asks_for else ())

    ctx = await simulation(dut, background=[watch, addresses])
    ctx.set(dut.memory.answer, 7)
    ctx.set(dut.axil.rdata, 9)
    for ready in (dut.memory.done, dut.axil.arready, dut.axil.rvalid):
        ctx.set(ready, 1)
    await drive_octets(ctx, dut.rx, on_line(asked.encode()), DIVISOR)
    await ctx.tick().repeat(25 * 10 * DIVISOR)
    (frame,) = FrameReader().feed(bytes(decoded_levels(levels, DIVISOR)))
    assert Frame.decode(frame) == asked.reply(data=(word,))
    assert where == {(word, 8)}
