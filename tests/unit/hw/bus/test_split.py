# amaranth: UnusedElaboratable=no
"""The splitter against the beats of its requests."""

import pytest

from diastole_hw.bus.split import BurstSplitter
from support.bench import design, get, put, run


@pytest.mark.parametrize("data_width", [32, 64, 512])
@pytest.mark.parametrize("p_ready", [1.0, 0.4], ids=["free", "stalled"])
def test_bursts_are_the_beats_once_and_in_order(data_width, p_ready, rng):
    size = data_width // 8
    dut = design(BurstSplitter, data_width=data_width)
    cases = [(0, 1), (63, 1), (63, 2), (64, 64), (1, 64), (5, 200), (2**40 // size - 3, 2)]
    cases += [(rng.randrange(2**20), rng.randrange(1, 300)) for _ in range(30)]
    whose = [{"owner": rng.randrange(4), "command": rng.randrange(2)} for _ in cases]
    end = 2**40 - 1

    async def drive(ctx):
        ctx.set(dut.limit, end)
        requests = (
            {"addr": beat * size, "beats": beats, "whose": given}
            for (beat, beats), given in zip(cases, whose, strict=True)
        )
        await put(ctx, dut.i, requests, willing=lambda: rng.random() < 0.8)

    async def check(ctx):
        for (beat, beats), given in zip(cases, whose, strict=True):
            left = beats
            while left:
                burst = await get(ctx, dut.o, willing=lambda: rng.random() < p_ready)
                assert burst.addr == beat * size, f"{beats} beats from {beat}: {left} left"
                count = burst.len + 1
                assert count == min(left, 64 - beat % 64)
                beat, left = beat + count, left - count
                assert burst.last == (left == 0), f"{left} left"
                assert (burst.whose.owner, burst.whose.command) == (*given.values(),)
        assert not ctx.get(dut.o.valid), "extra output"

    run(dut, drive, check)


def test_one_burst_per_cycle_also_between_requests():
    dut = design(BurstSplitter, data_width=64)
    counts = [64, 128, 1, 1, 65]
    given = []

    async def drive(ctx):
        ctx.set(dut.limit, 2**40 - 1)
        await put(ctx, dut.i, ({"addr": 0x1000, "beats": beats} for beats in counts))

    async def check(ctx):
        ctx.set(dut.o.ready, 1)
        for cycle in range(20):
            _, _, valid = await ctx.tick().sample(dut.o.valid)
            if valid:
                given.append(cycle)

    run(dut, drive, check)
    assert given == list(range(given[0], given[0] + 7))


@pytest.mark.parametrize(
    "base, limit, addr, beats, inside",
    [
        (0x100, 0x200, 0x100, 32, True),
        (0x100, 0x200, 0x0F8, 1, False),
        (0x100, 0x200, 0x1F8, 1, True),
        (0x100, 0x1F8, 0x1F0, 2, False),
        (0x100, 0x200, 0x200, 1, False),
        (0x104, 0x200, 0x100, 1, False),
        (0x100, 0x204, 0x200, 1, False),
        (0, 0, 0, 1, False),
        (0, 0, 0x1F8, 65535, False),  # the most beats, far behind the window in the same 64
        (0, 2**40 - 1, 2**40 - 8, 1, False),
        (0, 2**40 - 1, 2**40 - 16, 1, True),
        (2**40 - 64, 8, 2**40 - 8, 1, False),
    ],
)
def test_the_window_is_exact(base, limit, addr, beats, inside):
    dut = design(BurstSplitter, data_width=64)

    async def bench(ctx):
        ctx.set(dut.base, base)
        ctx.set(dut.limit, limit)
        await put(ctx, dut.i, [{"addr": addr, "beats": beats}])
        assert (ctx.get(dut.o.valid), ctx.get(dut.outside)) == (inside, not inside)
        ctx.set(dut.clear, 1)
        await ctx.tick()
        assert (ctx.get(dut.o.valid), ctx.get(dut.outside), ctx.get(dut.held)) == (0, 0, 0)

    run(dut, bench)


def test_a_request_that_leaves_the_window_gives_what_is_inside_first():
    dut = design(BurstSplitter, data_width=64)

    async def bench(ctx):
        ctx.set(dut.base, 0x1000)
        ctx.set(dut.limit, 0x1200)
        await put(ctx, dut.i, [{"addr": 0x1000, "beats": 65}])
        assert ctx.get(dut.o.valid)
        assert not ctx.get(dut.outside)
        await get(ctx, dut.o)
        assert ctx.get(dut.outside)
        assert not ctx.get(dut.o.valid)
        assert not ctx.get(dut.i.ready)

    run(dut, bench)


@pytest.mark.parametrize("owner", range(4))
@pytest.mark.parametrize("command", [0, 1])
def test_whose_a_request_is_that_is_outside(owner, command):
    """Also of one that waits behind it."""
    dut = design(BurstSplitter, data_width=64)
    whose = {"owner": owner, "command": command}

    async def bench(ctx):
        ctx.set(dut.limit, 0x1000)
        await put(ctx, dut.i, [{"addr": 0x2000, "beats": 1, "whose": whose}])
        other = {"owner": owner ^ 3, "command": command ^ 1}
        ctx.set(dut.i.payload, {"addr": 0, "beats": 1, "whose": other})
        ctx.set(dut.i.valid, 1)
        for _ in range(5):
            assert ctx.get(dut.outside)
            assert ctx.get(dut.o.p.whose.owner) == owner
            assert ctx.get(dut.o.p.whose.command) == command
            await ctx.tick()

    run(dut, bench)


def test_stop_gives_and_takes_nothing():
    dut = design(BurstSplitter, data_width=64)

    async def bench(ctx):
        ctx.set(dut.limit, 0x1000)
        ctx.set(dut.stop, 1)
        assert not ctx.get(dut.i.ready)
        ctx.set(dut.stop, 0)
        await put(ctx, dut.i, [{"addr": 0, "beats": 1}])
        ctx.set(dut.stop, 1)
        ctx.set(dut.o.ready, 1)
        assert not ctx.get(dut.o.valid)
        assert not ctx.get(dut.i.ready)
        assert ctx.get(dut.held)

    run(dut, bench)
