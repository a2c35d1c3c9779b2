# amaranth: UnusedElaboratable=no
"""Writes that wait for their beats: when they are asked for, and that nothing is lost or mixed."""

import pytest

from diastole_hw.bus.gathered_writes import DEPTH, GatheredWrites
from support.bench import design, simulation
from support.unit_bench import Unit

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


def bench_of(given, rng=None, p_ask=1.0, p_give=1.0, slow=DEPTH):
    """A unit that is asked and given, each at its own pace; a command counts with its request."""
    unit = Unit(design(GatheredWrites, data_width=WIDTH), rng)
    source = unit.dut.source
    unit.hold(slow=slow)
    items = ({"addr": address, "beats": len(words)} for address, words, _ in given)
    asked = unit.give(source.requests, items, p_ask)
    beats = ({"data": word, "strb": word & 15} for _, words, _ in given for word in words)
    unit.give(source.beats, beats, p_give)

    async def commands(ctx):
        await ctx.delay(0)  # behind the first offer
        while not asked.done:
            command = given[len(asked.items)][2]
            ctx.set(unit.dut.command, command if asked.offered is not None else 1 - command)
            await ctx.tick()

    return unit, commands


@pytest.mark.parametrize("sizes", [(1,), (1, 2, 5), (DEPTH - 1, DEPTH, DEPTH + 1), (3, 100)])
@pytest.mark.parametrize("p_ask, p_give", [(1.0, 1.0), (0.1, 1.0), (1.0, 0.3), (0.3, 0.3)])
@pytest.mark.parametrize("p_ready, slow", [(1.0, DEPTH), (0.3, DEPTH), (1.0, 1), (0.3, 4)])
@pytest.mark.sampled(8)
def test_a_request_comes_when_its_beats_are_there(sizes, p_ask, p_give, p_ready, slow, rng):
    """Whatever the paces: as many as are slow are in the queue, beside those of requests before
    it; once it is asked for, they come without a wait for the source."""
    given = drawn(rng, 14, sizes)
    unit, commands = bench_of(given, rng, p_ask, p_give, slow)
    dut = unit.dut
    owner_tag = ({"owner": 0, "command": command} for *_, command in given)
    requests = [
        {"addr": address, "beats": len(words), "owner_tag": each}
        for (address, words, _), each in zip(given, owner_tag, strict=True)
    ]
    taken = unit.take(dut.requests, requests, p_ready)
    words = [(number, word) for number, (_, words, _) in enumerate(given) for word in words]
    beats = unit.take(dut.beats, [{"data": word, "strb": word & 15} for _, word in words])

    def willing():
        """Beats of requests that were taken."""
        at = len(beats.items)
        return at < len(words) and words[at][0] < len(taken.items) and rng.random() < p_ready

    beats.pace = willing
    inside = owed = 0  # beats, and those of requests that were taken

    def watch(cycle, comes, leaves, offered, ready, size):
        nonlocal inside, owed
        assert not offered or inside - owed >= min(size, slow), "its beats are not there"
        owed += size * (offered and ready) - leaves
        inside += comes - leaves

    unit.each_cycle(
        watch, dut.source.beats.valid & dut.source.beats.ready, dut.beats.valid & dut.beats.ready,
        dut.requests.valid, dut.requests.ready, dut.requests.p.beats,
    )  # fmt: skip
    unit.run(commands)
    assert inside == 0


@pytest.mark.parametrize("beats", [1, 2, DEPTH - 1, DEPTH, DEPTH + 1, 100])
@pytest.mark.parametrize("slow", [1, 5, DEPTH])
@pytest.mark.sampled(3)
async def test_a_request_waits_for_its_slow_beats(beats, slow):
    """All of it, or the last that there is room for, if all are; while it waits, requests and beats
    are taken."""
    needed = min(beats, slow)
    unit, _ = bench_of([])
    dut, (asked, given) = unit.dut, unit.sources
    unit.hold(slow=slow)
    unit.collect(dut.requests, 0)
    unit.collect(dut.beats, 0)
    asked.add([{"addr": 0, "beats": beats}])
    given.add({"data": n} for n in range(needed - 1))
    ctx = await unit.simulation()
    await unit.settled(ctx)
    for _ in range(5):
        assert not ctx.get(dut.requests.valid)
        assert ctx.get(dut.source.beats.ready)
        assert ctx.get(dut.source.requests.ready)
        await ctx.tick()
    given.add([{"data": needed}])
    await unit.settled(ctx)
    await ctx.tick()
    assert ctx.get(dut.requests.valid)


@pytest.mark.parametrize("gap", [0, 1, 5])
@pytest.mark.parametrize("first", ["request", "beat"])
def test_the_earliest_cycles(first, gap):
    """Of a request of one beat, whichever of the two comes first, and of both together."""
    came = {"request": 0, "beat": 0, "beat" if first == "request" else "request": gap}
    unit, _ = bench_of([(0, [0], 0)])
    requests, beats = unit.sources
    requests.pace = lambda: unit.cycle >= came["request"]
    beats.pace = lambda: unit.cycle >= came["beat"]
    unit.collect(unit.dut.requests)
    unit.collect(unit.dut.beats, pace=lambda: unit.cycle > gap + 8)
    shown = {"request": unit.dut.requests.valid, "beat": unit.dut.beats.valid}
    shown = {name: unit.record(signal) for name, signal in shown.items()}
    unit.run(cycles=gap + 8)
    left = {name: record.cycles[0] for name, record in shown.items()}
    assert left["request"] == max(came.values()) + 1, "as soon as its beats have come"
    assert left["beat"] == max(came["beat"] + 2, left["request"] + 1)


def test_a_beat_every_cycle(rng):
    """Where a request is taken at once, and a beat in every cycle from then on."""
    given = drawn(rng, 12, (8, 16))
    count = sum(len(words) for _, words, _ in given)
    unit, commands = bench_of(given)
    requests = unit.collect(unit.dut.requests)
    beats = unit.collect(unit.dut.beats, lambda: len(requests.items) > 0)
    unit.run(commands)
    assert beats.cycles == [*range(beats.cycles[0], beats.cycles[0] + count)]
    assert beats.cycles[0] == requests.cycles[0] + 1


async def test_neither_valid_nor_ready_depends_on_the_other_side(rng):
    """In any state: all of them are functions of registers."""
    dut = design(GatheredWrites, data_width=WIDTH)
    inputs = (
        dut.source.requests.valid, dut.source.beats.valid, dut.requests.ready, dut.beats.ready,
    )  # fmt: skip
    outputs = (
        dut.source.requests.ready, dut.source.beats.ready, dut.requests.valid, dut.beats.valid,
    )  # fmt: skip
    ctx = await simulation(dut)
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
