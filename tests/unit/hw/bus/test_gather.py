# amaranth: UnusedElaboratable=no
"""Writes that wait for their beats: when they are asked for, and that nothing is lost or mixed."""

import pytest

from diastole_hw.bus.gather import DEPTH, GatheredWrites
from support.bench import design, get, put, run

WIDTH = 32


def drawn(rng, count, sizes):
    """(address, words, command) of requests."""
    return [
        (
            4 * n + 0x1000,
            [rng.getrandbits(WIDTH) for _ in range(rng.choice(sizes))],
            rng.randrange(2),
        )
        for n in range(count)
    ]


def source_of(dut, given, willing_to_ask, willing_to_give, slow=DEPTH):
    """Benches that ask and that give, each at its own pace."""

    async def ask(ctx):
        ctx.set(dut.slow, slow)
        for address, words, command in given:
            while not willing_to_ask():
                await ctx.tick()
            ctx.set(dut.command, command)
            item = {"addr": address, "beats": len(words)}
            await put(ctx, dut.source.requests, [item])
            ctx.set(dut.command, 1 - command)

    async def give(ctx):
        items = ({"data": word, "strb": word & 15} for _, words, _ in given for word in words)
        await put(ctx, dut.source.beats, items, willing_to_give)

    return ask, give


@pytest.mark.parametrize("sizes", [(1,), (1, 2, 5), (DEPTH - 1, DEPTH, DEPTH + 1), (3, 100)])
@pytest.mark.parametrize("p_ask, p_give", [(1.0, 1.0), (0.1, 1.0), (1.0, 0.3), (0.3, 0.3)])
@pytest.mark.parametrize("p_ready, slow", [(1.0, DEPTH), (0.3, DEPTH), (1.0, 1), (0.3, 4)])
@pytest.mark.sampled(8)
def test_a_request_comes_when_its_beats_are_there(sizes, p_ask, p_give, p_ready, slow, rng):
    """Whatever the paces: as many as are slow are in the queue, beside those of requests before
    it; once it is asked for, they come without a wait for the source."""
    dut = design(GatheredWrites, data_width=WIDTH)
    given = drawn(rng, 14, sizes)
    inside, taken = 0, 0  # beats, requests

    async def watch(ctx):
        """Beats that are inside, and of which requests they are."""
        nonlocal inside, taken
        owed, before = 0, None
        watched = (
            dut.source.beats.valid & dut.source.beats.ready, dut.beats.valid & dut.beats.ready,
            dut.requests.valid, dut.requests.ready, dut.requests.payload,
        )  # fmt: skip
        async for _, _, comes, leaves, offered, ready, payload in ctx.tick().sample(*watched):
            seen = payload.addr, payload.beats, payload.whose.command, payload.whose.owner
            assert before in (None, seen) or not offered, "an offer changed"
            assert offered or before is None, "an offer fell"
            before = seen if offered and not ready else None
            if offered:
                assert inside - owed >= min(payload.beats, slow), "its beats are not there"
                address, words, command = given[taken]
                assert seen == (address, len(words), command, 0)
            if offered and ready:
                owed += payload.beats
                taken += 1
            inside += comes - leaves
            owed -= leaves

    async def take_requests(ctx):
        for _ in given:
            await get(ctx, dut.requests, lambda: rng.random() < p_ready)

    async def take_beats(ctx):
        """Of requests that were taken, while others are."""
        for number, (_, words, _) in enumerate(given):
            for word in words:
                while taken <= number:
                    await ctx.tick()
                beat = await get(ctx, dut.beats, lambda: rng.random() < p_ready)
                assert (beat.data, beat.strb) == (word, word & 15), f"of request {number}"
        for _ in range(5):
            _, _, *valid = await ctx.tick().sample(dut.requests.valid, dut.beats.valid)
            assert valid == [0, 0], "extra output"

    paces = (lambda: rng.random() < p_ask), (lambda: rng.random() < p_give)
    ask, give = source_of(dut, given, *paces, slow)
    run(dut, ask, give, take_requests, take_beats, background=[watch])
    assert (taken, inside) == (len(given), 0)


@pytest.mark.parametrize("beats", [1, 2, DEPTH - 1, DEPTH, DEPTH + 1, 100])
@pytest.mark.parametrize("slow", [1, 5, DEPTH])
@pytest.mark.sampled(3)
def test_a_request_waits_for_its_slow_beats(beats, slow):
    """All of it, or the last that there is room for, if all are; while it waits, requests and beats
    are taken."""
    dut = design(GatheredWrites, data_width=WIDTH)
    needed = min(beats, slow)

    async def bench(ctx):
        ctx.set(dut.slow, slow)
        await put(ctx, dut.source.requests, [{"addr": 0, "beats": beats}])
        await put(ctx, dut.source.beats, ({"data": n} for n in range(needed - 1)))
        for _ in range(5):
            assert not ctx.get(dut.requests.valid)
            assert ctx.get(dut.source.beats.ready)
            assert ctx.get(dut.source.requests.ready)
            await ctx.tick()
        await put(ctx, dut.source.beats, [{"data": needed}])
        await ctx.tick()
        assert ctx.get(dut.requests.valid)

    run(dut, bench)


@pytest.mark.parametrize("gap", [0, 1, 5])
@pytest.mark.parametrize("first", ["request", "beat"])
def test_the_earliest_cycles(first, gap):
    """Of a request of one beat, whichever of the two comes first, and of both together."""
    dut = design(GatheredWrites, data_width=WIDTH)
    came = {"request": 0, "beat": 0, "beat" if first == "request" else "request": gap}
    left = {}

    async def bench(ctx):
        ctx.set(dut.slow, DEPTH)
        streams = {"request": dut.source.requests, "beat": dut.source.beats}
        ctx.set(dut.requests.ready, 1)
        ctx.set(dut.source.requests.payload, {"addr": 0, "beats": 1})
        for cycle in range(gap + 8):
            for name, stream in streams.items():
                ctx.set(stream.valid, cycle == came[name])
            _, _, asks, gives = await ctx.tick().sample(dut.requests.valid, dut.beats.valid)
            for name, offered in (("request", asks), ("beat", gives)):
                if offered:
                    left.setdefault(name, cycle)
        ctx.set(dut.beats.ready, 1)
        await ctx.tick()

    run(dut, bench)
    assert left["request"] == max(came.values()) + 1, "as soon as its beats have come"
    assert left["beat"] == max(came["beat"] + 2, left["request"] + 1)


def test_a_beat_every_cycle(rng):
    """Where a request is taken at once, and a beat in every cycle from then on."""
    dut = design(GatheredWrites, data_width=WIDTH)
    given = drawn(rng, 12, (8, 16))
    count = sum(len(words) for _, words, _ in given)
    moved = []

    async def sink(ctx):
        ctx.set(dut.requests.ready, 1)
        while not ctx.get(dut.requests.valid):
            await ctx.tick()
        await ctx.tick()
        ctx.set(dut.beats.ready, 1)
        for cycle in range(count + 5):
            _, _, valid = await ctx.tick().sample(dut.beats.valid)
            moved.extend([cycle] * valid)

    ask, give = source_of(dut, given, lambda: True, lambda: True)
    run(dut, ask, give, sink)
    assert moved == list(range(count))


def test_neither_valid_nor_ready_depends_on_the_other_side(rng):
    """In any state: all of them are functions of registers."""
    dut = design(GatheredWrites, data_width=WIDTH)
    inputs = (
        dut.source.requests.valid, dut.source.beats.valid, dut.requests.ready, dut.beats.ready,
    )  # fmt: skip
    outputs = (
        dut.source.requests.ready, dut.source.beats.ready, dut.requests.valid, dut.beats.valid,
    )  # fmt: skip

    async def bench(ctx):
        ctx.set(dut.slow, DEPTH)
        ctx.set(dut.source.requests.payload, {"addr": 0, "beats": 3})
        owed = 0  # beats are taken once their request was
        for _ in range(200):
            found = set()
            for _ in range(4):
                for signal in inputs:
                    ctx.set(signal, rng.randrange(2))
                found.add(tuple(ctx.get(signal) for signal in outputs))
            assert len(found) == 1
            if not owed:
                ctx.set(dut.beats.ready, 0)
            asks = ctx.get(dut.requests.valid & dut.requests.ready)
            owed += 3 * asks - ctx.get(dut.beats.valid & dut.beats.ready)
            await ctx.tick()

    run(dut, bench)
