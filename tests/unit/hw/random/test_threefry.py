# amaranth: UnusedElaboratable=no
"""The hash unit: published answers, the golden model, timing."""

import pytest

from diastole_hw.random.threefry import Threefry
from oracle.threefry import threefry2x32
from support.bench import design, put, run

ONES = 0xFFFFFFFF
CYCLES = (1, 2, 4, 5)
# Random123's kat_vectors, threefry2x32 20: counter, key, result.
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((ONES, ONES), (ONES, ONES), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


async def set_key(ctx, dut, key, high):
    ctx.set(dut.key_low, key[0])
    ctx.set(dut.key_high, key[1])
    ctx.set(dut.high, high)
    await ctx.tick()


@pytest.mark.parametrize("counter, key, result", KNOWN)
@pytest.mark.parametrize("cycles", CYCLES)
def test_known_answers(cycles, counter, key, result):
    dut = design(Threefry, cycles=cycles)

    async def main(ctx):
        await set_key(ctx, dut, key, counter[1])
        await put(ctx, dut.i, [counter[0]])
        while not ctx.get(dut.done):
            await ctx.tick()
        assert ctx.get(dut.hash) == result[0] | result[1] << 32

    run(dut, main)


@pytest.mark.parametrize("cycles", CYCLES)
@pytest.mark.parametrize("p_valid", [1.0, 0.3], ids=["free", "pauses"])
@pytest.mark.sampled(2)
def test_matches_model(cycles, p_valid, rng):
    dut = design(Threefry, cycles=cycles)
    key, high = (rng.getrandbits(32), rng.getrandbits(32)), rng.getrandbits(32)
    counters = [rng.getrandbits(32) for _ in range(60)]

    async def drive(ctx):
        await set_key(ctx, dut, key, high)
        await put(ctx, dut.i, counters, lambda: rng.random() < p_valid)

    async def check(ctx):
        results = []
        while len(results) < len(counters):
            _, _, done, hashed = await ctx.tick().sample(dut.done, dut.hash)
            results += [hashed] * done
        for counter, got in zip(counters, results, strict=True):
            first, second = threefry2x32(key, (counter, high))
            assert got == first | second << 32, f"{counter=} {key=} {high=}"
        for _ in range(20):
            assert not (await ctx.tick().sample(dut.done))[-1], "extra output"

    run(dut, drive, check)


@pytest.mark.parametrize(
    "cycles, latency, together", [(1, 12, 50), (2, 12, 5), (4, 14, 3), (5, 15, 3)]
)
def test_timing(cycles, latency, together):
    """As many together as a ring has stages, then a pause."""
    dut = design(Threefry, cycles=cycles)
    taken, given = [], []

    async def main(ctx):
        ctx.set(dut.i.valid, 1)
        for cycle in range(50):
            _, _, ready, done = await ctx.tick().sample(dut.i.ready, dut.done)
            taken.extend([cycle] * ready)
            given.extend([cycle] * done)

    run(dut, main)
    assert dut.latency == latency
    assert taken == [cycle for cycle in range(50) if cycle // together % cycles == 0]
    assert given == [cycle + latency for cycle in taken if cycle + latency < 50]
