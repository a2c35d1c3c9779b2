# amaranth: UnusedElaboratable=no
"""Octets on a line: bit by bit, by a bench that counts cycles."""

import pytest

from diastole_hw.serial.uart import UartReceiver, UartTransmitter, divisor_of
from support.bench import design, put, simulation
from support.serial_wires import bits_of, decoded_levels, drive_bits, watch_levels


async def collect(ctx, dut, found):
    async for _, _, came, octet in ctx.tick().sample(dut.came, dut.octet):
        if came:
            found.append(octet)


@pytest.mark.parametrize("divisor", [4, 5, 16])
async def test_received(divisor, rng):
    dut = design(UartReceiver, divisor=divisor)
    octets = [0, 255, 0x55, 0xAA, *(rng.randrange(256) for _ in range(20))]
    found = []

    async def watch(ctx):
        await collect(ctx, dut, found)

    ctx = await simulation(dut, background=[watch])
    for octet in octets:
        gap = rng.choice([0, 0, rng.randrange(30)])
        await drive_bits(ctx, dut.rx, [*bits_of(octet), 1], [*[divisor] * 10, gap])
    await ctx.tick().repeat(2 * divisor)
    assert found == octets


async def test_received_from_a_clock_that_differs(rng):
    """By 2 %: the last bit is still sampled within itself."""
    dut = design(UartReceiver, divisor=50)
    octets = [rng.randrange(256) for _ in range(12)]
    found = []

    async def watch(ctx):
        await collect(ctx, dut, found)

    ctx = await simulation(dut, background=[watch])
    for number, octet in enumerate(octets):
        await drive_bits(ctx, dut.rx, bits_of(octet), [49 if number % 2 else 51] * 10)
    await ctx.tick().repeat(100)
    assert found == octets


async def test_no_stop_bit_and_no_start_bit():
    dut = design(UartReceiver, divisor=16)
    found = []

    async def watch(ctx):
        await collect(ctx, dut, found)

    ctx = await simulation(dut, background=[watch])
    await drive_bits(ctx, dut.rx, [0, 1], [5, 40])  # a start bit that is over too early
    await drive_bits(ctx, dut.rx, [*bits_of(0x31)[:9], 0, 1], [*[16] * 10, 16])
    await drive_bits(ctx, dut.rx, [1], [300])
    assert found == []
    await drive_bits(ctx, dut.rx, [*bits_of(0x32), 1], [16] * 11)
    assert found == [0x32]


@pytest.mark.parametrize("divisor", [4, 7])
@pytest.mark.parametrize("p_ready", [1.0, 0.02], ids=["free", "stalled"])
async def test_transmitted(divisor, p_ready, rng):
    dut = design(UartTransmitter, divisor=divisor)
    octets = [0, 255, 0x7E, *(rng.randrange(256) for _ in range(12))]
    levels = []

    async def watch(ctx):
        await watch_levels(ctx, dut.tx, levels)

    ctx = await simulation(dut, background=[watch])
    await put(ctx, dut.i, octets, willing=lambda: rng.random() < p_ready)
    await ctx.tick().repeat(11 * divisor)
    assert decoded_levels(levels, divisor) == octets
    if p_ready == 1.0:  # without a gap
        assert levels.index(0) + 10 * divisor * len(octets) >= len(levels) - 12 * divisor


def test_a_line_says_nothing_at_first():
    for unit, line in ((UartTransmitter(divisor=4), "tx"), (UartReceiver(divisor=4), "rx")):
        assert getattr(unit, line).init == 1


def test_divisors():
    assert divisor_of(25_000_000, 115_200) == 217
    assert divisor_of(25_000_000, 1_000_000) == 25
    assert divisor_of(50_000_000, 3_000_000) == 17
