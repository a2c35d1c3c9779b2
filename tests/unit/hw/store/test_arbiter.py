"""Two sources of rows, one writer: nothing lost or mixed, and the first goes before the second."""

import pytest

from diastole_hw.store.arbiter import StoreArbiter
from support.bench import design, get, put, run

WIDTH = 32


def bursts(rng, source, count):
    """(address, data of its beats); the source can be read off both."""
    sizes = [rng.choice([1, 1, 2, 7]) for _ in range(count)]
    return [
        (4 * (1000 * source + n), [source << 28 | n << 8 | k for k in range(size)])
        for n, size in enumerate(sizes)
    ]


def whose_of(address):
    """Anything that is not the same for all requests of a source."""
    return {"owner": address // 4 % 4, "command": address // 8 % 2}


def drivers(dut, rng, source, given, p_valid):
    """Benches that give requests and beats of one source, each at its own pace."""
    requests = getattr(dut, f"{('first', 'second')[source]}_requests")
    beats = getattr(dut, f"{('first', 'second')[source]}_beats")

    def willing():
        return p_valid == 1 or rng.random() < p_valid

    async def ask(ctx):
        items = (
            {"addr": addr, "beats": len(words), "whose": whose_of(addr)} for addr, words in given
        )
        await put(ctx, requests, items, willing)

    async def send(ctx):
        items = ({"data": word, "strb": word & 15} for _, words in given for word in words)
        await put(ctx, beats, items, willing)

    return ask, send


@pytest.mark.parametrize("p_valid", [1.0, 0.3], ids=["eager", "slow"])
@pytest.mark.parametrize("p_ready", [1.0, 0.3], ids=["free", "stalled"])
def test_rows_stay_whole_and_in_order(p_valid, p_ready, rng):
    dut = design(StoreArbiter, data_width=WIDTH)
    given = [bursts(rng, source, 20) for source in (0, 1)]
    due = [list(rows) for rows in given]

    asked = []  # words of the requests that have passed

    async def check_requests(ctx):
        while any(due):
            request = await get(ctx, dut.requests, lambda: rng.random() < p_ready)
            source = request.addr // 4 // 1000
            addr, words = due[source].pop(0)
            assert (request.addr, request.beats) == (addr, len(words))
            assert {name: request.whose[name] for name in whose_of(addr)} == whose_of(addr)
            asked.extend((addr, word) for word in words)

    async def check_beats(ctx):
        for _ in range(sum(len(words) for rows in given for _, words in rows)):
            beat = await get(ctx, dut.beats, lambda: rng.random() < p_ready)
            assert asked, "a beat before its request"
            addr, word = asked.pop(0)
            assert (beat.data, beat.strb) == (word, word & 15), f"row at {addr:#x}"
        for _ in range(5):
            _, _, *valid = await ctx.tick().sample(dut.requests.valid, dut.beats.valid)
            assert valid == [0, 0], "extra output"

    benches = (b for s in (0, 1) for b in drivers(dut, rng, s, given[s], p_valid))
    run(dut, check_requests, check_beats, *benches)


def test_the_first_goes_first(rng):
    """With both waiting all the time, the second has its turn after the last of the first; it may
    have one when the first begins to ask."""
    dut = design(StoreArbiter, data_width=WIDTH)
    given = [bursts(rng, source, 5) for source in (0, 1)]
    order = []

    async def check(ctx):
        await ctx.tick()  # both stand in line
        for _ in range(10):
            request = await get(ctx, dut.requests)
            order.append(request.addr // 4 // 1000)
            for _ in range(request.beats):
                await get(ctx, dut.beats)

    run(dut, check, *(b for s in (0, 1) for b in drivers(dut, rng, s, given[s], 1.0)))
    assert order == [1] + [0] * 5 + [1] * 4


def test_an_offer_stays_although_the_first_comes():
    dut = design(StoreArbiter, data_width=WIDTH)

    async def bench(ctx):
        mine = {"owner": 2, "command": 1}
        ctx.set(dut.second_requests.payload, {"addr": 8, "beats": 1, "whose": mine})
        ctx.set(dut.second_requests.valid, 1)
        await ctx.tick()
        ctx.set(dut.first_requests.payload, {"addr": 4, "beats": 1})
        ctx.set(dut.first_requests.valid, 1)
        for _ in range(3):
            assert ctx.get(dut.requests.valid)
            assert ctx.get(dut.requests.p.addr) == 8
            whose = ctx.get(dut.requests.p.whose)
            assert (whose.owner, whose.command) == (2, 1)
            await ctx.tick()
        ctx.set(dut.requests.ready, 1)
        assert ctx.get(dut.second_requests.ready)
        assert not ctx.get(dut.first_requests.ready)

    run(dut, bench)


def test_one_beat_per_cycle(rng):
    """The next request has passed by the last beat of the one before."""
    dut = design(StoreArbiter, data_width=WIDTH)
    given = bursts(rng, 1, 10)
    moved = []

    async def check(ctx):
        ctx.set(dut.requests.ready, 1)
        ctx.set(dut.beats.ready, 1)
        for cycle in range(80):
            _, _, beat = await ctx.tick().sample(dut.beats.valid)
            moved.extend([cycle] * beat)

    run(dut, check, *drivers(dut, rng, 1, given, 1.0))
    count = sum(len(words) for _, words in given)
    assert moved == list(range(1, 1 + count))


def test_one_request_ahead_of_beats():
    """Whatever becomes of the beats."""
    dut = design(StoreArbiter, data_width=WIDTH)
    passed = []

    async def check(ctx):
        ctx.set(dut.requests.ready, 1)
        for _ in range(10):
            _, _, asks = await ctx.tick().sample(dut.requests.valid)
            passed.append(asks)
        assert passed == [1, 1] + [0] * 8
        for _ in range(2):
            await get(ctx, dut.beats)
        _, _, asks = await ctx.tick().sample(dut.requests.valid)
        assert asks, "room for another one behind the second"

    given = [(4000 + 4 * n, [n, 5]) for n in range(4)]
    run(dut, check, background=drivers(dut, None, 1, given, 1.0))
