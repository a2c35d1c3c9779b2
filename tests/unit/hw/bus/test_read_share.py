# amaranth: UnusedElaboratable=no
"""Units that read over one service: each gets its own beats, and the first goes first."""

import pytest

from diastole_hw.bus.read_share import ReadShare
from support.bench import design, simulation
from support.unit_bench import Unit

WIDTH = 32
UNITS = (2, 3, 4)


def drawn(rng, units, count):
    """By unit, (address, beats, command) of what it asks for; the address tells the unit."""
    return [
        [
            (unit << 32 | rng.getrandbits(30) << 2, rng.choice([1, 1, 2, 5]), rng.randrange(2))
            for _ in range(count)
        ]
        for unit in range(units)
    ]


def word(address, beat):
    """What memory holds."""
    return (address >> 32) * 0x1234567 + (address & 0xFFFFFF) + beat & 2**WIDTH - 1


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("p_stall", [0.0, 0.5], ids=["free", "stalled"])
@pytest.mark.parametrize("p_ask", [1.0, 0.2], ids=["eager", "slow"])
@pytest.mark.sampled(2)
def test_each_unit_gets_its_beats(units, p_stall, p_ask, rng):
    """A command counts in the cycle in which its request is taken."""
    dut = design(ReadShare, data_width=WIDTH, units=units)
    asked = drawn(rng, units, 12)
    unit = Unit(dut, rng, pace=1 - p_stall)
    requests, beats = unit.collect(dut.requests), unit.give(dut.beats)
    ports = []
    for number, reader in enumerate(dut.units_read):
        items = [{"addr": address, "beats": beats} for address, beats, _ in asked[number]]
        ports.append(unit.give(reader.requests, items, p_ask))
        words = [word(at, n) for at, count, _ in asked[number] for n in range(count)]
        unit.take(reader.beats, words)

    async def play(ctx):
        answered = 0
        await ctx.delay(0)  # behind the first offers
        while answered < 12 * units:
            for number, port in enumerate(ports):
                offers = port.offered is not None
                command = asked[number][len(port.items)][2] if offers else rng.randrange(2)
                ctx.set(dut.commands[number], command)
            for request in requests.items[answered:]:
                owner = 1 << request["owner_tag"]["owner"]
                words = (word(request["addr"], n) for n in range(request["beats"]))
                beats.add({"data": each, "units": owner} for each in words)
                answered += 1
            await ctx.tick()

    unit.run(play)
    taken = [(r["addr"], r["beats"], r["owner_tag"]["command"]) for r in requests.items]
    for number in range(units):
        owners = (request["owner_tag"]["owner"] for request in requests.items)
        mine = [each for each, owner in zip(taken, owners, strict=True) if owner == number]
        assert mine == asked[number], f"unit {number}"


@pytest.mark.parametrize("units", UNITS)
async def test_of_those_that_ask_the_first_goes(units):
    """Every set of units that ask together, one request each: in the order of the units, a request
    per cycle, and offered in the very cycle."""
    dut = design(ReadShare, data_width=WIDTH, units=units)
    ctx = await simulation(dut)
    ctx.set(dut.requests.ready, 1)
    for chosen in range(1, 2**units):
        asking = [unit for unit in range(units) if chosen >> unit & 1]
        for unit in range(units):
            ctx.set(dut.units_read[unit].requests.p.addr, 4 * unit + 64)
            ctx.set(dut.units_read[unit].requests.valid, unit in asking)
        while asking:
            watched = [reader.requests.ready for reader in dut.units_read]
            out = dut.requests
            _, _, *ready, valid, payload = await ctx.tick().sample(*watched, out.valid, out.payload)
            assert (valid, payload.addr, payload.owner_tag.owner) == (
                1,
                4 * asking[0] + 64,
                asking[0],
            )
            assert [unit for unit in asking if ready[unit]] == [asking[0]]
            ctx.set(dut.units_read[asking.pop(0)].requests.valid, 0)
        assert not ctx.get(dut.requests.valid)


@pytest.mark.parametrize("units", UNITS)
async def test_an_offer_stays_although_others_come(units):
    """Of every unit; then those that came meanwhile have their turn, in their order."""
    dut = design(ReadShare, data_width=WIDTH, units=units)
    ctx = await simulation(dut)
    for first in range(units):
        for unit in range(units):
            ctx.set(dut.units_read[unit].requests.p.addr, 4 * unit + 64)
            ctx.set(dut.units_read[unit].requests.valid, unit == first)
            ctx.set(dut.commands[unit], unit == first)
        await ctx.tick()
        for unit in range(units):
            ctx.set(dut.units_read[unit].requests.valid, 1)
        for _ in range(3):
            _, _, valid, payload = await ctx.tick().sample(dut.requests.valid, dut.requests.payload)
            found = payload.addr, payload.owner_tag.owner, payload.owner_tag.command
            assert (valid, found) == (1, (4 * first + 64, first, 1))
        ctx.set(dut.requests.ready, 1)
        for unit in [first] + [unit for unit in range(units) if unit != first]:
            _, _, payload, taken = await ctx.tick().sample(
                dut.requests.payload, dut.units_read[unit].requests.ready
            )
            assert (payload.owner_tag.owner, taken) == (unit, 1)
            ctx.set(dut.units_read[unit].requests.valid, 0)
        ctx.set(dut.requests.ready, 0)


@pytest.mark.parametrize("units", UNITS)
async def test_ready_does_not_depend_on_the_units_own_valid(units, rng):
    """It says whether a request would be taken; with it, one that asks is."""
    dut = design(ReadShare, data_width=WIDTH, units=units)
    ctx = await simulation(dut)
    offered = None  # the unit whose offer waits
    for _ in range(200):
        ready = rng.randrange(2)
        ctx.set(dut.requests.ready, ready)
        asks = [rng.randrange(2) or unit == offered for unit in range(units)]
        for unit in range(units):
            ctx.set(dut.units_read[unit].requests.valid, asks[unit])
        for unit in range(units):
            if unit == offered:
                continue
            port = dut.units_read[unit].requests
            found = []
            for valid in (1 - asks[unit], asks[unit]):
                ctx.set(port.valid, valid)
                found.append(ctx.get(port.ready))
            assert found[0] == found[1], f"unit {unit}"
        mine = next((unit for unit in range(units) if asks[unit]), None)
        mine = mine if offered is None else offered
        taken = [unit for unit in range(units)
                 if asks[unit] and ctx.get(dut.units_read[unit].requests.ready)]  # fmt: skip
        assert taken == ([mine] if ready and mine is not None else [])
        offered = None if ready else mine
        await ctx.tick()


@pytest.mark.parametrize("units", UNITS)
async def test_a_beat_passes_in_its_cycle_to_its_unit_alone(units, rng):
    dut = design(ReadShare, data_width=WIDTH, units=units)
    ctx = await simulation(dut)
    for _ in range(60):
        owner, valid, data = rng.randrange(units), rng.randrange(2), rng.getrandbits(WIDTH)
        ctx.set(dut.beats.payload, {"data": data, "units": 1 << owner})
        ctx.set(dut.beats.valid, valid)
        ready = [rng.randrange(2) for _ in range(units)]
        for unit in range(units):
            ctx.set(dut.units_read[unit].beats.ready, ready[unit])
        ports = [reader.beats for reader in dut.units_read]
        assert [ctx.get(port.valid) for port in ports] == [
            valid * (unit == owner) for unit in range(units)
        ]
        assert ctx.get(ports[owner].payload) == data
        assert ctx.get(dut.beats.ready) == ready[owner]
        await ctx.tick()


async def test_a_beat_is_for_a_unit():
    dut = design(ReadShare, data_width=WIDTH, units=2)
    ctx = await simulation(dut)
    ctx.set(dut.beats.valid, 1)
    with pytest.raises(AssertionError, match="a beat that is for no unit"):
        await ctx.tick().repeat(2)
