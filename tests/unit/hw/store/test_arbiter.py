"""Two sources of rows, one writer: nothing lost or mixed, and the first goes before the second."""

import pytest

from diastole_hw.store.arbiter import StoreArbiter
from support.bench import design, simulation
from support.unit_bench import Unit

WIDTH = 32


def bursts(rng, source, count):
    """(address, data of its beats); the source can be read off both."""
    sizes = [rng.choice([1, 1, 2, 7]) for _ in range(count)]
    return [
        (4 * (1000 * source + n), [source << 28 | n << 8 | k for k in range(size)])
        for n, size in enumerate(sizes)
    ]


def owner_tag_of(address):
    """Anything that is not the same for all requests of a source."""
    return {"owner": address // 4 % 4, "command": address // 8 % 2}


def bench_of(rng, given, p_valid=1.0):
    """A bench that gives requests and beats of each source, each at its own pace."""
    unit = Unit(design(StoreArbiter, data_width=WIDTH), rng)
    for source, rows in given.items():
        name = ("first", "second")[source]
        asks = [
            {"addr": at, "beats": len(words), "owner_tag": owner_tag_of(at)} for at, words in rows
        ]
        unit.give(getattr(unit.dut, f"{name}_requests"), asks, p_valid)
        beats = [{"data": word, "strb": word & 15} for _, words in rows for word in words]
        unit.give(getattr(unit.dut, f"{name}_beats"), beats, p_valid)
    return unit


@pytest.mark.parametrize("p_valid", [1.0, 0.3], ids=["eager", "slow"])
@pytest.mark.parametrize("p_ready", [1.0, 0.3], ids=["free", "stalled"])
def test_rows_stay_whole_and_in_order(p_valid, p_ready, rng):
    given = {source: bursts(rng, source, 20) for source in (0, 1)}
    unit = bench_of(rng, given, p_valid)
    requests = unit.collect(unit.dut.requests, p_ready)
    beats = unit.collect(unit.dut.beats, p_ready)
    unit.run()
    due = {source: list(rows) for source, rows in given.items()}
    words = []  # of the requests in the order in which they have passed
    for cycle, request in zip(requests.cycles, requests.items, strict=True):
        addr, of_row = due[request["addr"] // 4 // 1000].pop(0)
        owner_tag = request["owner_tag"]
        assert (request["addr"], request["beats"]) == (addr, len(of_row))
        assert {name: owner_tag[name] for name in owner_tag_of(addr)} == owner_tag_of(addr)
        words += [(cycle, word) for word in of_row]
    assert not any(due.values())
    assert [(beat["data"], beat["strb"]) for beat in beats.items] == [
        (word, word & 15) for _, word in words
    ]
    passed = zip(words, beats.cycles, strict=True)
    assert all(asked < came for (asked, _), came in passed), "a beat before its request"


def test_the_first_goes_first(rng):
    """With both waiting all the time, the second has its turn after the last of the first; it may
    have one when the first begins to ask."""
    unit = bench_of(rng, {source: bursts(rng, source, 5) for source in (0, 1)})
    requests = unit.collect(unit.dut.requests, lambda: unit.cycle > 0)  # both wait by then
    unit.collect(unit.dut.beats)
    unit.run()
    order = [request["addr"] // 4 // 1000 for request in requests.items]
    assert order == [1] + [0] * 5 + [1] * 4


async def test_an_offer_stays_although_the_first_comes():
    dut = design(StoreArbiter, data_width=WIDTH)
    ctx = await simulation(dut)
    mine = {"owner": 2, "command": 1}
    ctx.set(dut.second_requests.payload, {"addr": 8, "beats": 1, "owner_tag": mine})
    ctx.set(dut.second_requests.valid, 1)
    await ctx.tick()
    ctx.set(dut.first_requests.payload, {"addr": 4, "beats": 1})
    ctx.set(dut.first_requests.valid, 1)
    for _ in range(3):
        assert ctx.get(dut.requests.valid)
        assert ctx.get(dut.requests.p.addr) == 8
        owner_tag = ctx.get(dut.requests.p.owner_tag)
        assert (owner_tag.owner, owner_tag.command) == (2, 1)
        await ctx.tick()
    ctx.set(dut.requests.ready, 1)
    assert ctx.get(dut.second_requests.ready)
    assert not ctx.get(dut.first_requests.ready)


def test_one_beat_per_cycle(rng):
    """The next request has passed by the last beat of the one before."""
    given = bursts(rng, 1, 10)
    unit = bench_of(rng, {1: given})
    unit.collect(unit.dut.requests)
    beats = unit.collect(unit.dut.beats)
    unit.run()
    count = sum(len(words) for _, words in given)
    assert beats.cycles == list(range(1, 1 + count))


def test_one_request_ahead_of_beats():
    """Whatever becomes of the beats; with the second beat there is room for another one."""
    unit = bench_of(None, {1: [(4000 + 4 * n, [n, 5]) for n in range(4)]})
    requests = unit.collect(unit.dut.requests)
    beats = unit.collect(unit.dut.beats, lambda: unit.cycle in (10, 12) or unit.cycle > 20)
    unit.run()
    assert beats.cycles[:2] == [10, 12]
    assert requests.cycles[:3] == [0, 1, 13]
