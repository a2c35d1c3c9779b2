# amaranth: UnusedElaboratable=no
"""The link from wire to wire."""

from diastole_hw.serial.serial_bridge import SerialBridge
from diastole_sim.spec.serial import IDENTITY, LINK_MAGIC, Ask, Frame, FrameReader, on_line
from support.bench import design, simulation
from support.serial_wires import decoded_levels, drive_octets, watch_levels

DIVISOR = 4


async def test_an_identification():
    sizes = {"memory_base": 4096, "memory_bytes": 8192, "clock_hz": 25_000_000}
    dut = design(SerialBridge, divisor=DIVISOR, **sizes)
    asked = Frame(ask=Ask.IDENTIFY, sequence=0x7E7D, address=0, words=len(IDENTITY))
    levels = []

    async def watch(ctx):
        await watch_levels(ctx, dut.tx, levels)

    ctx = await simulation(dut, background=[watch])
    await drive_octets(ctx, dut.rx, b"noise" + on_line(asked.encode()), DIVISOR)
    await ctx.tick().repeat(45 * 10 * DIVISOR)
    (frame,) = FrameReader().feed(bytes(decoded_levels(levels, DIVISOR)))
    words = (LINK_MAGIC, 0x10000, *sizes.values())
    assert Frame.decode(frame) == asked.answered(data=words)
