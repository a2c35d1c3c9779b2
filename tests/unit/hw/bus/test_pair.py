# amaranth: UnusedElaboratable=no
"""Two readers that are one to the service: each gets its own beats, and the first goes first."""

import pytest

from diastole_hw.bus.pair import OPEN, ReadPair
from support.bench import design, simulation
from support.unit_bench import Unit

WIDTH = 32
NAMES = ("first", "second")


def word(address, beat):
    """What memory holds."""
    return address * 0x1234567 + beat & 2**WIDTH - 1


def requests(rng, unit, count):
    return [(unit << 32 | rng.getrandbits(30) << 2, rng.choice([1, 1, 2, 5])) for _ in range(count)]


@pytest.mark.parametrize("p_stall", [0.0, 0.5], ids=["free", "stalled"])
@pytest.mark.parametrize("p_ask", [1.0, 0.2], ids=["eager", "slow"])
def test_each_gets_its_beats(p_stall, p_ask, rng):
    dut = design(ReadPair, data_width=WIDTH)
    given = [requests(rng, unit, 40) for unit in range(2)]
    unit = Unit(dut, rng, pace=1 - p_stall)
    unit.hold(second_command=1)
    asked, beats = unit.collect(dut.service.requests), unit.give(dut.service.beats)
    taken = []
    for mine, name in zip(given, NAMES, strict=True):
        reader = getattr(dut, name)
        unit.give(reader.requests, [{"addr": at, "beats": n} for at, n in mine], p_ask)
        unit.take(reader.beats, [word(at, beat) for at, n in mine for beat in range(n)])

    def answer(cycle, valid, address, command):
        assert not valid or command == address >> 32
        for request in asked.items[len(taken) :]:
            taken.append((request["addr"], request["beats"]))
            beats.add(word(request["addr"], beat) for beat in range(request["beats"]))

    service = dut.service.requests
    unit.each_cycle(answer, service.valid, service.p.addr, dut.command)
    unit.run()
    for number in range(2):
        assert [each for each in taken if each[0] >> 32 == number] == given[number]


async def test_the_first_goes_first_but_an_offer_stays():
    dut = design(ReadPair, data_width=WIDTH)
    ctx = await simulation(dut)
    out = dut.service.requests
    ctx.set(dut.first.requests.payload, {"addr": 4, "beats": 1})
    ctx.set(dut.second.requests.payload, {"addr": 8, "beats": 1})
    ctx.set(dut.second.requests.valid, 1)
    await ctx.tick()  # the second one's is offered, and not taken
    ctx.set(dut.first.requests.valid, 1)
    assert ctx.get(out.p.addr) == 8
    ctx.set(out.ready, 1)
    assert (ctx.get(dut.first.requests.ready), ctx.get(dut.second.requests.ready)) == (0, 1)
    await ctx.tick()
    assert ctx.get(out.p.addr) == 4
    assert (ctx.get(dut.first.requests.ready), ctx.get(dut.second.requests.ready)) == (1, 0)


async def test_no_more_are_open_than_are_remembered():
    dut = design(ReadPair, data_width=WIDTH)
    ctx = await simulation(dut)
    ctx.set(dut.first.requests.payload, {"addr": 4, "beats": 1})
    ctx.set(dut.first.requests.valid, 1)
    ctx.set(dut.service.requests.ready, 1)
    for _ in range(OPEN):
        assert ctx.get(dut.service.requests.valid)
        await ctx.tick()
    assert not ctx.get(dut.service.requests.valid)
    ctx.set(dut.service.beats.valid, 1)
    ctx.set(dut.first.beats.ready, 1)
    await ctx.tick()
    assert ctx.get(dut.service.requests.valid)
