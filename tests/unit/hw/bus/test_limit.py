# amaranth: UnusedElaboratable=no
"""A reader that is limited: what may be on its way, against a count of beats."""

from collections import deque

import pytest

from diastole_hw.bus.limit import MAX_BEATS, ReadLimit
from support.bench import design, simulation
from support.sweep import alternating

WIDTH = 32


@pytest.mark.parametrize(
    "sizes, p_ready",
    alternating(
        [(sizes,) for sizes in ((1,), (1, 7, 16), (32, 33), (1, 40, 65535))],
        {"free": (1.0,), "stalled": (0.4,)},
    ),
)
async def test_every_cycle_against_a_count(sizes, p_ready, rng):
    """Both streams and the limit at random; an offer stays, and all is combinational."""
    dut = design(ReadLimit, data_width=WIDTH)
    source, service = dut.source, dut.service
    coming = deque()  # beats of requests that were let through
    seen = {"held back": 0, "stays": 0}
    ctx = await simulation(dut)
    request, offered = None, False
    for _ in range(1500):
        if request is None and rng.random() < 0.6:
            request = {"addr": 4 * rng.getrandbits(30), "beats": rng.choice(sizes)}
        limited = rng.random() < 0.7
        ready = rng.random() < p_ready
        beat = bool(coming) and rng.random() < 0.8
        takes = rng.random() < 0.8
        left = sum(coming)
        ctx.set(source.requests.valid, request is not None)
        if request is not None:
            ctx.set(source.requests.payload, request)
        ctx.set(dut.limited, limited)
        ctx.set(service.requests.ready, ready)
        ctx.set(service.beats.valid, beat)
        data = rng.getrandbits(WIDTH)
        ctx.set(service.beats.payload, data)
        ctx.set(source.beats.ready, takes)
        _, _, asks, payload, taken, given, got, room = await ctx.tick().sample(
            service.requests.valid, service.requests.payload, source.requests.ready,
            source.beats.valid, source.beats.payload, service.beats.ready,
        )  # fmt: skip
        through = offered or not limited or left <= MAX_BEATS
        if request is not None:
            assert asks == through, f"{left} beats to come, {limited=}"
            assert taken == (through and ready)
            assert not asks or (payload.addr, payload.beats) == (*request.values(),)
            seen["held back"] += not through
            seen["stays"] += offered and limited and left > MAX_BEATS
        else:
            assert not asks
        assert (given, got, room) == (beat, data, takes)
        offered = bool(request is not None and through and not ready)
        if request is not None and through and ready:
            coming.append(request["beats"])
            request = None
        if beat and takes:
            coming[0] -= 1
            if not coming[0]:
                coming.popleft()
    assert seen["held back"] or max(sizes) == 1
    assert seen["stays"] or max(sizes) == 1 or p_ready == 1.0


@pytest.mark.parametrize("first", [*range(MAX_BEATS - 2, MAX_BEATS + 3), 64, 96])
async def test_as_many_beats_as_it_says(first):
    """The next request passes with so many to come, and from the cycle after a beat too many."""
    dut = design(ReadLimit, data_width=WIDTH)
    source, service = dut.source, dut.service
    ctx = await simulation(dut)
    ctx.set(dut.limited, 1)
    ctx.set(service.requests.ready, 1)
    ctx.set(source.beats.ready, 1)
    ctx.set(source.requests.payload, {"addr": 0, "beats": first})
    ctx.set(source.requests.valid, 1)
    _, _, ready = await ctx.tick().sample(source.requests.ready)
    assert ready
    for left in range(first, 0, -1):
        ctx.set(service.beats.valid, 1)
        ctx.set(source.requests.valid, left > MAX_BEATS)
        assert ctx.get(source.requests.ready) == (left <= MAX_BEATS), f"{left} to come"
        await ctx.tick()


async def test_what_was_asked_for_without_a_limit_counts():
    dut = design(ReadLimit, data_width=WIDTH)
    source, service = dut.source, dut.service
    ctx = await simulation(dut)
    ctx.set(service.requests.ready, 1)
    ctx.set(source.requests.valid, 1)
    for beats in (65535, 65535, 20):  # more than the bits of one length hold
        ctx.set(source.requests.payload, {"addr": 0, "beats": beats})
        await ctx.tick()
    ctx.set(dut.limited, 1)
    ctx.set(service.beats.valid, 1)
    ctx.set(source.beats.ready, 1)
    for _ in range(100):
        assert not ctx.get(service.requests.valid)
        assert not ctx.get(source.requests.ready)
        await ctx.tick()
    ctx.set(dut.limited, 0)
    assert ctx.get(service.requests.valid)
