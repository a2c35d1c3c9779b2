# amaranth: UnusedElaboratable=no
"""Bytes in beats against Python's own bytes."""

import pytest

from diastole_hw.convert.pack_bytes import PackBytes
from support.bench import design, get, put, run


@pytest.mark.parametrize("data_width", [32, 64, 512])
@pytest.mark.parametrize("p_in, p_out", [(1, 1), (1, 0.3), (0.5, 1), (0.5, 0.5)])
def test_groups(data_width, p_in, p_out, rng):
    dut = design(PackBytes, data_width=data_width)
    size = data_width // 8
    lengths = [1, size - 1, size, size + 1, 3 * size, *(rng.randrange(1, 4 * size) for _ in "123")]
    groups = [rng.randbytes(length) for length in lengths]

    async def drive(ctx):
        for group in groups:
            bytes_ = [{"byte": b, "last": n == len(group) - 1} for n, b in enumerate(group)]
            await put(ctx, dut.i, bytes_, lambda: rng.random() < p_in)

    async def check(ctx):
        for group in groups:
            for start in range(0, len(group), size):
                got = await get(ctx, dut.o, lambda: rng.random() < p_out)
                part = group[start : start + size]
                assert got.beat == int.from_bytes(part, "little"), f"{len(group)} from {start}"
                assert got.last == (start + size >= len(group))
        for _ in range(5):
            assert not (await ctx.tick().sample(dut.o.valid))[-1], "extra output"

    run(dut, drive, check)


@pytest.mark.parametrize("data_width, most", [(128, 1), (128, 8), (64, 6), (32, 9)])
def test_short_groups(data_width, most, rng):
    """What no group has is zeros."""
    dut = design(PackBytes, data_width=data_width, most=most)
    size = data_width // 8
    groups = [rng.randbytes(rng.randrange(1, most + 1)) for _ in range(12)]

    async def drive(ctx):
        for group in groups:
            bytes_ = [{"byte": b, "last": n == len(group) - 1} for n, b in enumerate(group)]
            await put(ctx, dut.i, bytes_)

    async def check(ctx):
        for group in groups:
            for start in range(0, len(group), size):
                got = await get(ctx, dut.o, lambda: rng.random() < 0.5)
                assert got.beat == int.from_bytes(group[start : start + size], "little")
                assert got.last == (start + size >= len(group))

    run(dut, drive, check)


def test_a_byte_per_cycle(rng):
    """A beat leaves in the cycle after its last byte, and the next group's first comes with it."""
    dut = design(PackBytes, data_width=32)
    taken, given = [], []

    async def drive(ctx):
        for length in (4, 5, 1, 8):
            await put(ctx, dut.i, [{"byte": 7, "last": n == length - 1} for n in range(length)])

    async def watch(ctx):
        ctx.set(dut.o.ready, 1)
        streams = (dut.i.valid, dut.i.ready, dut.o.valid)
        for cycle in range(30):
            _, _, valid, ready, gives = await ctx.tick().sample(*streams)
            taken.extend([cycle] * (valid and ready))
            given.extend([cycle] * gives)

    run(dut, drive, watch)
    assert taken == list(range(taken[0], taken[0] + 18))
    assert given == [taken[n] + 1 for n in (3, 7, 8, 9, 13, 17)]
