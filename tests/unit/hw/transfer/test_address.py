# amaranth: UnusedElaboratable=no
"""A base and a number of pitches, then beat after beat: against the product itself."""

import pytest

from diastole_hw.transfer.address import AddressGenerator
from support.bench import design, pulse, simulation

BITS = 40
EDGES = [
    (0, 0, 0),
    (64, 0, 2**40 - 8),
    (0, 2**32 - 1, 1),
    (2**40 - 8, 1, 8),  # beyond the last address: from 0 again
    (8, 2**31, 2**9),
    (1024, 2**24 - 1, 328),
]


async def locate(ctx, dut, base, count, pitch):
    """Start, and wait for the address: the cycles that took."""
    ctx.set(dut.start, 1)
    ctx.set(dut.base, base)
    ctx.set(dut.count, count)
    ctx.set(dut.pitch, pitch)
    await ctx.tick()
    ctx.set(dut.start, 0)
    for port in (dut.base, dut.count, dut.pitch):
        ctx.set(port, 1)  # only looked at with `start`
    cycles = 0
    while not ctx.get(dut.ready):
        await ctx.tick()
        cycles += 1
    return cycles


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("beat", [4, 8, 64])
async def test_address(beat, quick, rng):
    dut = design(AddressGenerator, count_bits=32, step_bits=8, quick=quick)
    cases = EDGES + [
        (rng.randrange(2**37) * 8, rng.getrandbits(rng.randrange(1, 33)), rng.randrange(2**20) * 8)
        for _ in range(60)
    ]
    ctx = await simulation(dut)
    ctx.set(dut.step, beat)
    for base, count, pitch in cases:
        cycles = await locate(ctx, dut, base, count, pitch)
        assert cycles == count.bit_length(), "a cycle per bit of the count"
        wanted = base + count * pitch
        assert ctx.get(dut.address) == wanted % 2**BITS, f"{base} + {count} * {pitch}"
        for _ in range(rng.randrange(6)):
            move = rng.random() < 0.6
            ctx.set(dut.next, move)
            await ctx.tick()
            wanted += beat * move
            assert ctx.get(dut.ready)
            assert ctx.get(dut.address) == wanted % 2**BITS, f"{base} + {count} * {pitch}"
        ctx.set(dut.next, 0)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("beat", [4, 64])
async def test_of_whole_beats(beat, quick, rng):
    """Multiples of a beat have the same sums where nothing is kept of the bits within one."""
    dut = design(AddressGenerator, count_bits=24, step_bits=12, beat_bytes=beat, quick=quick)
    cases = [
        (rng.getrandbits(BITS) & -beat, rng.getrandbits(rng.randrange(25)), rng.getrandbits(32))
        for _ in range(40)
    ]
    ctx = await simulation(dut)
    for base, count, pitch in cases:
        pitch &= -beat
        step = rng.randrange(4096 // beat) * beat
        ctx.set(dut.step, step)
        await locate(ctx, dut, base, count, pitch)
        assert ctx.get(dut.address) == (base + count * pitch) % 2**BITS
        await pulse(ctx, dut.next)
        assert ctx.get(dut.address) == (base + count * pitch + step) % 2**BITS
        assert ctx.get(dut.ready)


async def test_without_steps(rng):
    dut = design(AddressGenerator, count_bits=22, beat_bytes=16)
    assert not {"next", "step"} & set(dut.signature.members)
    ctx = await simulation(dut)
    for bits in (0, 1, 5, 22):
        base, count, pitch = rng.getrandbits(30) << 4, rng.getrandbits(bits), 48
        assert await locate(ctx, dut, base, count, pitch) == count.bit_length()
        for _ in range(3):  # it stays
            assert ctx.get(dut.address) == base + count * pitch
            await ctx.tick()


@pytest.mark.parametrize("quick", [False, True])
async def test_start_again_before_the_end(quick):
    """The first address is forgotten, whatever has been added to it."""
    dut = design(AddressGenerator, count_bits=32, step_bits=8, quick=quick)
    ctx = await simulation(dut)
    ctx.set(dut.step, 8)
    ctx.set(dut.start, 1)
    ctx.set(dut.base, 5000)
    ctx.set(dut.count, 2**32 - 1)
    ctx.set(dut.pitch, 24)
    await ctx.tick()
    ctx.set(dut.start, 0)
    for _ in range(3):
        await ctx.tick()
        assert not ctx.get(dut.ready)
    assert await locate(ctx, dut, 800, 5, 16) == 3
    assert ctx.get(dut.address) == 880
