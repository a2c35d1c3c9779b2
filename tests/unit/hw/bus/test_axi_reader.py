# amaranth: UnusedElaboratable=no
"""The reader in front of a memory that checks AXI's rules."""

import pytest
from amaranth.hdl import Mux

from diastole_hw.bus.axi_reader import AxiReader
from diastole_hw.bus.services import FETCH
from diastole_sim.spec.command_errors import ErrorCode
from support.axi_memory import AxiMemory
from support.bench import design
from support.unit_bench import Unit, until

END = 2**40 - 1


def requests(cases, owner_tag=None):
    """By owner and command of each; all are of unit 1 and command 0 if ``owner_tag`` is left
    out."""
    return (
        {"addr": address, "beats": beats, "owner_tag": {"owner": owner, "command": command}}
        for (address, beats), (owner, command) in zip(
            cases, owner_tag or [(1, 0)] * len(cases), strict=True
        )
    )


class Reader(Unit):
    """A reader of this window, in front of a memory, that is asked for ``cases``."""

    def __init__(
        self, cases, owner_tag=None, *, width=64, rng=None, p_stall=0.0, outstanding=32, **keys
    ):
        super().__init__(design(AxiReader, data_width=width, outstanding=outstanding), rng)
        self.pace = 1 - p_stall
        window = {"base": keys.pop("base", 0), "limit": keys.pop("limit", END)}
        self.memory = AxiMemory(
            self.dut.axi, width, stall=lambda: p_stall > 0 and rng.random() < p_stall, **keys
        )
        self.hold(**window)
        self.asked = self.give(self.dut.request, requests(cases, owner_tag))
        self.error = self.record(self.dut.error)
        self.serve(self.memory.serve)

    def beats(self, cases, owner_tag=None):
        """Those of requests, as they must come."""
        for number, (address, beats) in enumerate(cases):
            units = 1 << (owner_tag[number][0] if owner_tag else 1)
            for at in range(address, address + beats * self.memory.bytes, self.memory.bytes):
                yield {"data": self.memory.beat(at), "units": units}

    async def recover(self, ctx, data, hold=False):
        """Clear, and read as if nothing had been; ``data`` may be withdrawn."""
        dut, memory = self.dut, self.memory
        self.asked.drop()
        data.pace, data.stable, data.needed = lambda: False, False, True
        ctx.set(dut.clear, 1)
        await ctx.tick()
        if hold:
            await until(ctx, dut.idle)
        ctx.set(dut.clear, 0)
        await until(ctx, dut.idle)
        assert not memory._beats, "idle with an open burst"
        assert not ctx.get(dut.axi.arvalid), "idle with an open burst"
        assert not ctx.get(dut.error)
        assert not ctx.get(dut.data.valid)
        data.pace, data.values = lambda: True, [*data.items, *self.beats([(0x1000, 3)])]
        self.asked.add(requests([(0x1000, 3)]))
        await self.settled(ctx)
        assert ctx.get(dut.idle)


@pytest.mark.parametrize("data_width", [32, 64, 512])
@pytest.mark.parametrize("p_stall", [0.0, 0.5], ids=["free", "stalled"])
def test_beats_come_in_order(data_width, p_stall, rng):
    size = data_width // 8
    cases = [(rng.randrange(2**16) * size, rng.choice([1, 2, 7, 100])) for _ in range(15)]
    cases += [(4096 - size, 2), (2**40 - 3 * size, 2)]
    owner_tag = [(rng.randrange(4), rng.randrange(2)) for _ in cases]
    unit = Reader(cases, owner_tag, width=data_width, rng=rng, p_stall=p_stall)
    unit.take(unit.dut.data, unit.beats(cases, owner_tag))
    idle = unit.record(unit.dut.idle)
    unit.run()
    assert idle.values[-1]
    assert not unit.error.cycles
    assert sum(beats for _, beats in unit.memory.reads) == sum(beats for _, beats in cases)


@pytest.mark.parametrize("beats, count", [(640, 3), (1, 200), (16, 20)])
def test_a_beat_every_cycle_and_many_open(beats, count):
    unit = Reader([(0x10000 + n * 0x2000, beats) for n in range(count)], latency=14)
    moved = unit.take(unit.dut.data, [None] * (beats * count)).cycles
    unit.run()
    assert moved[-1] - moved[0] == beats * count - 1, "a gap between beats"
    assert moved[0] == unit.memory.read_moves[0], "which counts from 1"
    assert unit.memory.most_open >= 8


@pytest.mark.parametrize("outstanding", [1, 3])
def test_no_more_bursts_than_allowed(outstanding):
    cases = [(n * 256, 1) for n in range(10)]
    unit = Reader(cases, width=32, outstanding=outstanding, latency=30)
    unit.take(unit.dut.data, unit.beats(cases))
    unit.run()
    assert unit.memory.most_open == outstanding


def watch_open(unit):
    """As seen from outside: never more bursts open than allowed, and idle exactly when every beat
    that was requested has been taken."""
    dut, axi = unit.dut, unit.dut.axi
    opened = owed = 0

    def check(cycle, idle, beats, given, asked, ended):
        nonlocal opened, owed
        assert idle == (owed == 0), f"{owed} beats to come"
        owed += beats - given
        opened += asked - ended
        assert 0 <= opened <= dut.outstanding

    request = Mux(dut.request.valid & dut.request.ready, dut.request.p.beats, 0)
    unit.each_cycle(
        check, dut.idle, request, dut.data.valid & dut.data.ready,
        axi.arvalid & axi.arready, axi.rvalid & axi.rready & axi.rlast,
    )  # fmt: skip


@pytest.mark.parametrize("outstanding", [1, 2, 3, 5])
@pytest.mark.parametrize("p_stall", [0.0, 0.4], ids=["free", "stalled"])
async def test_the_count_of_open_bursts_does_not_drift(outstanding, p_stall, rng):
    """Bursts are asked for as others end; afterwards as many may be open as before."""
    cases = [(n * 256, rng.choice([1, 1, 2, 5])) for n in range(80)]
    last = [(n * 256, 1) for n in range(4 * outstanding)]
    sizes = {"width": 32, "outstanding": outstanding}
    unit = Reader(cases, **sizes, rng=rng, p_stall=p_stall, latency=1)
    memory, data = unit.memory, unit.take(unit.dut.data, unit.beats(cases))
    watch_open(unit)
    ctx = await unit.simulation()
    await unit.settled(ctx)
    assert ctx.get(unit.dut.idle), "bursts counted that are not open"
    memory.stall, memory.latency, memory.most_open = lambda: False, 60, 0
    unit.asked.pace = data.pace = lambda: True
    data.add(unit.beats(last))
    unit.asked.add(requests(last))
    await unit.settled(ctx)
    assert ctx.get(unit.dut.idle)
    await unit.end()
    assert memory.most_open == outstanding


@pytest.mark.parametrize("p_stall", [0.0, 0.6], ids=["free", "stalled"])
@pytest.mark.parametrize("case", [(0x0FF8, 1), (0x2000, 1), (0x1F00, 33), (0x1000, 600)])
async def test_outside_the_window_nothing_is_read(case, p_stall, rng):
    unit = Reader([case], rng=rng, p_stall=p_stall, base=0x1000, limit=0x2000)
    data = unit.collect(unit.dut.data, 1)
    data.stable = False
    unit.asked.pace = lambda: True
    ctx = await unit.simulation()
    await until(ctx, unit.dut.error)
    unit.asked.add(requests([(0x1808, 1)]))  # refused: it would be inside
    for _ in range(300):
        await ctx.tick()
    assert len(unit.asked.items) == 1
    assert ctx.get(unit.dut.error_code) == ErrorCode.WINDOW
    await unit.recover(ctx, data)
    await unit.end()
    assert all(a >= 0x1000 and a + 8 * n <= 0x2000 and a != 0x1808 for a, n in unit.memory.reads)


@pytest.mark.parametrize("response", [2, 3])
@pytest.mark.parametrize("p_stall", [0.0, 0.6], ids=["free", "stalled"])
async def test_an_error_response_stops_the_reader(response, p_stall, rng):
    """The beat before it is given, neither the bad one nor any behind it."""
    unit = Reader([(0x3000, 200)], rng=rng, p_stall=p_stall, bad=[0x3008])
    unit.memory.bad_response = response
    data = unit.take(unit.dut.data, unit.beats([(0x3000, 1)]), pace=1)
    ctx = await unit.simulation()
    await until(ctx, unit.dut.error)
    assert ctx.get(unit.dut.error_code) == ErrorCode.READ_RESPONSE
    for _ in range(600):
        await ctx.tick()
    asked = len(unit.memory.reads)
    await unit.recover(ctx, data)
    assert len(unit.memory.reads) == asked + 1, "went on with the old request"
    await unit.end()
    assert not unit.memory._beats, "open bursts were not read to their end"


def test_a_bad_beat_of_the_fetch_stops_nobody():
    """It is given, and said to have failed; other units' beats come as ever."""
    cases, owner_tag = [(0x1000, 2), (0x3000, 3), (0x2000, 2)], [(1, 0), (FETCH, 1), (2, 0)]
    unit = Reader(cases, owner_tag, bad=[0x3008])
    wanted = [beat | {"failed": 0} for beat in unit.beats(cases, owner_tag)]
    wanted[3] |= {"data": None, "failed": 1}
    unit.take(unit.dut.data, wanted)
    code = unit.record(unit.dut.error_code)
    unit.run()
    assert not unit.error.cycles
    assert not code.cycles


async def test_open_bursts_are_read_to_their_end_though_nobody_takes_them():
    unit = Reader([(0x1E00, 64), (0x1000, 1)], limit=0x2000)
    data = unit.collect(unit.dut.data, 0)
    data.stable = False
    ctx = await unit.simulation()
    await until(ctx, unit.dut.data.valid)
    unit.asked.add(requests([(0x2000, 1)]))
    await unit.settled(ctx, silence=120)
    assert ctx.get(unit.dut.error)
    assert not unit.memory._beats
    await unit.recover(ctx, data)
    await unit.end()
    assert unit.memory.reads == [(0x1E00, 64), (0x1000, 1), (0x1000, 3)]


@pytest.mark.parametrize("wait", [0, 1, 2, 3, 5, 20, 80])
@pytest.mark.parametrize("hold", [False, True], ids=["pulse", "level"])
@pytest.mark.sampled(2)
async def test_clear_at_any_time_leaves_nothing_behind(wait, hold, rng):
    """Neither a beat that nobody takes."""
    unit = Reader([(0x3000, 300)], rng=rng)
    unit.memory.stall = lambda: rng.random() < 0.3
    data = unit.collect(unit.dut.data, wait % 2)
    ctx = await unit.simulation()
    await unit.settled(ctx, silence=wait)
    await unit.recover(ctx, data, hold)


@pytest.mark.parametrize("outstanding", [1, 2, 17, 32])
def test_sources_of_open_bursts_are_kept(outstanding, rng):
    """Short bursts of changing units, as many open as there may be, in a memory that answers in the
    cycle after it is asked or much later."""
    cases = [(n * 256 + 252 * (n % 3 == 0), 1 + n % 3) for n in range(3 * outstanding + 20)]
    owner_tag = [(rng.randrange(4), rng.randrange(2)) for _ in cases]
    unit = Reader(cases, owner_tag, width=32, outstanding=outstanding)
    data = unit.take(unit.dut.data, unit.beats(cases, owner_tag))
    few = sum(beats for _, beats in cases[:10])

    def slower(cycle, valid):
        unit.memory.latency = 0 if len(data.items) < few else 40

    unit.each_cycle(slower, unit.dut.data.valid)
    unit.run()
    assert unit.memory.most_open == outstanding


def errors(unit):
    """(code, command) of each cycle in which there is an error, and the first such cycle."""
    dut, found = unit.dut, []
    unit.each_cycle(
        lambda cycle, *now: found.append(now), dut.error, dut.error_code, dut.error_command
    )
    unit.collect(dut.data)
    unit.run(cycles=100)
    first = next(n for n, (error, *_) in enumerate(found) if error)
    assert all(error for error, *_ in found[first:])
    return {tuple(told) for _, *told in found[first:]}, first


@pytest.mark.parametrize("latency", [0, 1, 20])
@pytest.mark.parametrize("bad", range(4))
@pytest.mark.parametrize("command", [0, 1])
@pytest.mark.sampled(3)
def test_it_tells_whose_response_was_bad(latency, bad, command):
    """Of four requests in flight, of two bursts each; the other ones are of the other command, and
    the last ones may be refused. It stays so while others end."""
    cases = [(0x1000 * n + 0x11F8, 2) for n in range(4)]
    owner_tag = [(3, command ^ (n != bad)) for n in range(4)]
    for beat in range(2):
        unit = Reader(cases, owner_tag, latency=latency, bad=[cases[bad][0] + 8 * beat])
        unit.asked.needed = False
        assert errors(unit)[0] == {(ErrorCode.READ_RESPONSE, command)}


@pytest.mark.parametrize("outside", range(3))
@pytest.mark.parametrize("command", [0, 1])
def test_it_tells_whose_burst_was_outside(outside, command):
    """While bursts of the other command are open; one that is bad later changes nothing."""
    cases = [(0x1000 if n != outside else 0xFF8, 2) for n in range(outside + 1)]
    owner_tag = [(1, command ^ (n != outside)) for n in range(outside + 1)]
    unit = Reader(cases, owner_tag, latency=20, bad=[0x1000], base=0x1000, limit=0x2000)
    told, first = errors(unit)
    assert told == {(ErrorCode.WINDOW, command)}
    assert first == unit.asked.cycles[-1] + 2


def test_of_two_errors_the_first_stays():
    """A bad beat of one command, and a burst of the other outside of the window: at every distance,
    also in the same cycle."""
    codes = []
    for wait in range(20):
        cases, owner_tag = [(0x1000, 1), (0x2000, 1)], [(2, 0), (0, 1)]
        window = {"base": 0x1000, "limit": 0x2000}
        unit = Reader(cases, owner_tag, latency=4, bad=[0x1000], **window)
        unit.asked.pace = lambda unit=unit, wait=wait: unit.cycle == 0 or unit.cycle > wait
        unit.asked.needed = False
        [told], _ = errors(unit)
        codes.append(told)
    window, response = (ErrorCode.WINDOW, 1), (ErrorCode.READ_RESPONSE, 0)
    assert codes == sorted(codes, key=[window, response].index)
    assert set(codes) == {window, response}


def test_cycles_of_a_request_and_of_its_beats():
    """A burst is asked for 2 cycles after its request, then one per cycle; a beat leaves in the
    cycle after it came, with the pulse ``moved`` before."""
    unit = Reader([(0x1F8, 66), (0x1000, 1)], latency=5)
    axi = unit.dut.axi
    left = unit.take(unit.dut.data, [None] * 67)
    asked, came = unit.record(axi.arvalid & axi.arready), unit.record(axi.rvalid & axi.rready)
    moved = unit.record(unit.dut.moved)
    unit.run()
    first = unit.asked.cycles[0]
    assert asked.cycles == [first + 2 + n for n in range(4)]
    assert unit.asked.cycles[1] == first + 3, "the next one, as the last burst is given"
    assert came.cycles == moved.cycles
    assert left.cycles == [cycle + 1 for cycle in came.cycles]
