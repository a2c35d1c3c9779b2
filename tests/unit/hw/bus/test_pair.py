# amaranth: UnusedElaboratable=no
"""Two readers that are one to the service: each gets its own beats, and the first goes first."""

from collections import deque

import pytest

from diastole_hw.bus.pair import OPEN, ReadPair
from support.bench import design, get, put, run

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
    waiting, taken = deque(), []

    async def ask(ctx):
        while True:
            request = await get(ctx, dut.service.requests, lambda: rng.random() >= p_stall)
            taken.append((request.addr, request.beats))
            waiting.extend(word(request.addr, beat) for beat in range(request.beats))

    async def give(ctx):
        while True:
            if waiting:
                willing = lambda: rng.random() >= p_stall  # noqa: E731
                await put(ctx, dut.service.beats, [waiting.popleft()], willing)
            else:
                await ctx.tick()

    async def commands(ctx):
        ctx.set(dut.second_command, 1)
        watched = (dut.service.requests.valid, dut.service.requests.p.addr, dut.command)
        async for _, _, valid, address, command in ctx.tick().sample(*watched):
            assert not valid or command == address >> 32

    def asks(unit):
        async def bench(ctx):
            for address, beats in given[unit]:
                while rng.random() >= p_ask:
                    await ctx.tick()
                reader = getattr(dut, NAMES[unit])
                await put(ctx, reader.requests, [{"addr": address, "beats": beats}])

        return bench

    def takes(unit):
        async def bench(ctx):
            for number, (address, beats) in enumerate(given[unit]):
                for beat in range(beats):
                    reader = getattr(dut, NAMES[unit])
                    got = await get(ctx, reader.beats, lambda: rng.random() >= p_stall)
                    assert got == word(address, beat), f"beat {beat} of {number} of {unit}"

        return bench

    benches = [bench(unit) for unit in range(2) for bench in (asks, takes)]
    run(dut, *benches, background=[ask, give, commands])
    for unit in range(2):
        assert [each for each in taken if each[0] >> 32 == unit] == given[unit]


def test_the_first_goes_first_but_an_offer_stays():
    dut = design(ReadPair, data_width=WIDTH)

    async def bench(ctx):
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

    run(dut, bench)


def test_no_more_are_open_than_are_remembered():
    dut = design(ReadPair, data_width=WIDTH)

    async def bench(ctx):
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

    run(dut, bench)
