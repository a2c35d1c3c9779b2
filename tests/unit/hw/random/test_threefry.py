# amaranth: UnusedElaboratable=no
"""The hash unit: published answers, the golden model, timing."""

import pytest

from diastole_hw.random.threefry import Threefry
from oracle.threefry import threefry2x32
from support.bench import design, get, put, run
from support.texts import exactly

ONES = 0xFFFFFFFF
CYCLES = (1, 2, 3, 4, 5)
# Random123's kat_vectors, threefry2x32 20: counter, key, result.
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((ONES, ONES), (ONES, ONES), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


async def set_key(ctx, dut, key):
    ctx.set(dut.key_low, key[0])
    ctx.set(dut.key_high, key[1])


@pytest.mark.parametrize("counter, key, result", KNOWN)
def test_known_answers(counter, key, result):
    dut = design(Threefry, cycles=5)

    async def main(ctx):
        await set_key(ctx, dut, key)
        await put(ctx, dut.i, [{"low": counter[0], "high": counter[1]}])
        assert await get(ctx, dut.o) == result[0] | result[1] << 32

    run(dut, main)


@pytest.mark.parametrize("cycles", CYCLES)
@pytest.mark.parametrize("p_ready", [1.0, 0.3], ids=["free", "stalled"])
def test_matches_model(cycles, p_ready, rng):
    dut = design(Threefry, cycles=cycles)
    key = (rng.getrandbits(32), rng.getrandbits(32))
    counters = [(rng.getrandbits(32), rng.getrandbits(32)) for _ in range(60)]

    async def drive(ctx):
        await set_key(ctx, dut, key)
        values = ({"low": low, "high": high} for low, high in counters)
        await put(ctx, dut.i, values, lambda: rng.random() < p_ready)

    async def check(ctx):
        for counter in counters:
            low, high = threefry2x32(key, counter)
            got = await get(ctx, dut.o, lambda: rng.random() < p_ready)
            assert got == low | high << 32, f"{counter=} {key=}"
        for _ in range(20):
            assert not (await ctx.tick().sample(dut.o.valid))[-1], "extra output"

    run(dut, drive, check)


@pytest.mark.parametrize("cycles", CYCLES)
def test_timing(cycles):
    dut = design(Threefry, cycles=cycles)
    taken, given = [], []

    async def main(ctx):
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.o.ready, 1)
        for cycle in range(30):
            _, _, ready, valid = await ctx.tick().sample(dut.i.ready, dut.o.valid)
            taken.extend([cycle] * ready)
            given.extend([cycle] * valid)

    run(dut, main)
    assert taken == list(range(0, 30, cycles))
    assert given == list(range(11, 30, cycles))


@pytest.mark.parametrize("cycles, held", [(1, 11), (2, 6), (3, 5), (4, 4), (5, 3)])
def test_results_wait(cycles, held):
    """One in each stage, and one that is done; nothing more is taken meanwhile."""
    dut = design(Threefry, cycles=cycles)

    async def main(ctx):
        ctx.set(dut.i.valid, 1)
        taken = 0
        for _ in range(40):
            taken += (await ctx.tick().sample(dut.i.ready))[-1]
        assert taken == held

    run(dut, main)


@pytest.mark.parametrize("cycles", [0, 6])
def test_errors(cycles):
    message = f"cycles must be an integer in 1..5, not {cycles}"
    with pytest.raises(ValueError, match=exactly(message)):
        Threefry(cycles=cycles)
