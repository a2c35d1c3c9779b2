"""The hash unit: published answers, the golden model, timing."""

import pytest

from diastole_hw.random.threefry import Threefry
from oracle.threefry import threefry2x32
from support.bench import design, get, put, run

ONES = 0xFFFFFFFF
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
    dut = design(Threefry)

    async def main(ctx):
        await set_key(ctx, dut, key)
        await put(ctx, dut.i, [{"low": counter[0], "high": counter[1]}])
        assert await get(ctx, dut.o) == result[0] | result[1] << 32

    run(dut, main)


@pytest.mark.parametrize("p_ready", [1.0, 0.3], ids=["free", "stalled"])
def test_matches_model(p_ready, rng):
    dut = design(Threefry)
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


def test_timing():
    dut = design(Threefry)
    taken, given = [], []

    async def main(ctx):
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.o.ready, 1)
        for cycle in range(30):
            _, _, ready, valid = await ctx.tick().sample(dut.i.ready, dut.o.valid)
            taken.extend([cycle] * ready)
            given.extend([cycle] * valid)

    run(dut, main)
    assert taken == [0, 5, 10, 15, 20, 25]
    assert given == [6, 11, 16, 21, 26]
