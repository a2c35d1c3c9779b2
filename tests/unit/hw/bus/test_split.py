# amaranth: UnusedElaboratable=no
"""The splitter against the beats of its requests."""

import pytest

from diastole_hw.bus.split import BurstSplitter
from support.bench import design
from support.unit_bench import Unit


def bench_of(requests, width=64, rng=None, **window):
    """A splitter of this window, and the requests that it is given."""
    unit = Unit(design(BurstSplitter, data_width=width), rng)
    unit.hold(**{"limit": 2**40 - 1} | window)
    return unit, unit.give(unit.dut.i, requests, pace=0.8 if rng else 1)


@pytest.mark.parametrize("data_width", [32, 64, 512])
@pytest.mark.parametrize("p_ready", [1.0, 0.4], ids=["free", "stalled"])
def test_bursts_are_the_beats_once_and_in_order(data_width, p_ready, rng):
    size = data_width // 8
    cases = [(0, 1), (63, 1), (63, 2), (64, 64), (1, 64), (5, 200), (2**40 // size - 3, 2)]
    cases += [(rng.randrange(2**20), rng.randrange(1, 300)) for _ in range(30)]
    requests, bursts = [], []
    for beat, left in cases:
        owner_tag = {"owner": rng.randrange(4), "command": rng.randrange(2)}
        requests.append({"addr": beat * size, "beats": left, "owner_tag": owner_tag})
        while left:
            count = min(left, 64 - beat % 64)
            burst = {"addr": beat * size, "len": count - 1, "last": count == left}
            bursts.append(burst | {"owner_tag": owner_tag})
            beat, left = beat + count, left - count
    unit, _ = bench_of(requests, data_width, rng)
    unit.take(unit.dut.o, bursts, p_ready)
    unit.run()


def test_one_burst_per_cycle_also_between_requests():
    unit, _ = bench_of([{"addr": 0x1000, "beats": beats} for beats in (64, 128, 1, 1, 65)])
    given = unit.collect(unit.dut.o).cycles
    unit.run()
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
async def test_the_window_is_exact(base, limit, addr, beats, inside):
    unit, _ = bench_of([{"addr": addr, "beats": beats}], base=base, limit=limit)
    dut, burst = unit.dut, unit.collect(unit.dut.o, 0)
    burst.stable = False  # it is cleared
    ctx = await unit.simulation()
    await unit.settled(ctx)
    assert (ctx.get(dut.o.valid), ctx.get(dut.outside)) == (inside, not inside)
    await unit.pulse(ctx, "clear")
    assert (ctx.get(dut.o.valid), ctx.get(dut.outside), ctx.get(dut.busy)) == (0, 0, 0)


def test_a_request_that_leaves_the_window_gives_what_is_inside_first():
    request = {"addr": 0x1000, "beats": 65}
    unit, given = bench_of([request] * 2, base=0x1000, limit=0x1200)
    given.needed = False
    unit.take(unit.dut.o, [{"addr": 0x1000}], pace=lambda: unit.cycle == 3)
    outside = unit.record(unit.dut.outside)
    unit.run()
    assert given.cycles == [0]
    assert outside.cycles == [*range(4, len(outside.values))]


@pytest.mark.parametrize("owner", range(4))
@pytest.mark.parametrize("command", [0, 1])
def test_whose_a_request_is_that_is_outside(owner, command):
    """Also of one that waits behind it."""
    owner_tag = {"owner": owner, "command": command}
    other = {"owner": owner ^ 3, "command": 1 - command}
    requests = [
        {"addr": 0x2000, "beats": 1, "owner_tag": owner_tag},
        {"addr": 0, "beats": 1, "owner_tag": other},
    ]
    unit, given = bench_of(requests, limit=0x1000)
    given.needed = False
    outside, told = unit.record(unit.dut.outside), unit.record(unit.dut.o.p.owner_tag)
    unit.run()
    assert outside.cycles == [*range(1, len(outside.values))]
    assert all(each == owner_tag for each in told.values[1:])


async def test_stop_gives_and_takes_nothing():
    """Neither before a request nor with one that is held."""
    unit, given = bench_of([{"addr": 0, "beats": 1}] * 2, limit=0x1000, stop=1)
    given.needed = False
    unit.collect(unit.dut.o).stable = False
    valid, held = unit.record(unit.dut.o.valid), unit.record(unit.dut.busy)
    ctx = await unit.simulation()
    await ctx.tick()
    unit.set(ctx, stop=0)
    await ctx.tick()
    unit.set(ctx, stop=1)
    await unit.end()
    assert (given.cycles, valid.cycles) == ([1], [])
    assert held.cycles == [*range(2, len(held.values))]
