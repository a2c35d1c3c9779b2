# amaranth: UnusedElaboratable=no
"""The writer in front of a memory that checks AXI's rules."""

import pytest
from amaranth.hdl import Mux

from diastole_hw.bus.axi_writer import REQUESTS_AHEAD, AxiWriter
from diastole_sim.spec.command_errors import ErrorCode
from support.axi_memory import AxiMemory
from support.bench import design
from support.unit_bench import Unit, until

END = 2**40 - 1
STALLS = [(0.0, None), (0.5, None), (0.3, "data first"), (0.3, "address first")]
IDS = ["free", "stalled", "data first", "address first"]


def requests(cases, commands=None):
    """By command of each; all are of command 0 if ``commands`` is left out. The owner is anything:
    it does not count."""
    return (
        {"addr": address, "beats": beats, "owner_tag": {"owner": beats % 4, "command": command}}
        for (address, beats), command in zip(cases, commands or [0] * len(cases), strict=True)
    )


class Writer(Unit):
    """A writer of this window, in front of a memory, that is asked for ``cases`` and given
    ``beats``, of which number n is n if they are left out."""

    def __init__(self, cases, commands=None, beats=None, *, rng=None, p_stall=0.0, **keys):
        width = keys.pop("width", 64)
        sizes = {"data_width": width, "outstanding": keys.pop("outstanding", 32)}
        super().__init__(design(AxiWriter, **sizes), rng, pace=1 - p_stall)
        self.hold(base=keys.pop("base", 0), limit=keys.pop("limit", END))
        self.memory = AxiMemory(
            self.dut.axi, width, stall=lambda: p_stall > 0 and rng.random() < p_stall, **keys
        )
        self.asked = self.give(self.dut.request, requests(cases, commands))
        if beats is None:
            beats = range(sum(count for _, count in cases))
        self.given = self.give(self.dut.data, self.words(beats))
        self.error = self.record(self.dut.error)
        self.serve(self.memory.serve)

    def words(self, beats):
        return [{"data": beat, "strb": 2**self.memory.bytes - 1} for beat in beats]

    async def idle(self, ctx):
        """All is given, and in memory."""
        await self.settled(ctx)
        await until(ctx, self.dut.idle)

    async def recover(self, ctx, hold=False):
        """Clear, and write as if nothing had been; nothing of before may come now."""
        dut, memory = self.dut, self.memory
        self.asked.drop()
        self.given.drop()
        ctx.set(dut.clear, 1)
        await ctx.tick()
        if hold:
            await until(ctx, dut.idle)
        ctx.set(dut.clear, 0)
        await until(ctx, dut.idle)
        assert not memory._addresses, "idle with an open burst"
        assert not memory._data, "idle with an open burst"
        assert not ctx.get(dut.axi.awvalid)
        assert not ctx.get(dut.axi.wvalid)
        assert not ctx.get(dut.error)
        asked = len(memory.writes)
        self.asked.add(requests([(0x1000, 3)]))
        self.given.add(self.words([0x5A, 0x5B, 0x5C]))
        await self.idle(ctx)
        assert [memory.beat(0x1000 + 8 * n) for n in range(3)] == [0x5A, 0x5B, 0x5C]
        assert memory.writes[asked:] == [(0x1000, 3)]


@pytest.mark.parametrize("data_width", [32, 64, 512])
@pytest.mark.parametrize("p_stall, pairing", STALLS, ids=IDS)
@pytest.mark.sampled(2)
async def test_every_byte_is_written_where_it_belongs(data_width, p_stall, pairing, rng):
    size = data_width // 8
    cases = [(n * 2**16 + rng.randrange(64) * size, rng.choice([1, 2, 7, 100])) for n in range(10)]
    cases += [(2**24 - size, 2), (2**40 - 3 * size, 2)]
    unit = Writer(cases, beats=[], width=data_width, rng=rng, p_stall=p_stall, pairing=pairing)
    expected = {}
    for address in (address + n * size for address, count in cases for n in range(count)):
        strobes = rng.choice([rng.getrandbits(size), 2**size - 1])
        beat = {"data": rng.getrandbits(data_width), "strb": strobes}
        unit.given.add([beat])
        for k, byte in enumerate(beat["data"].to_bytes(size, "little")):
            if strobes >> k & 1:
                expected[address + k] = byte
    ctx = await unit.simulation()
    await unit.idle(ctx)
    assert unit.memory.contents == expected, "idle before everything was written"
    await unit.end()
    assert not unit.error.cycles


@pytest.mark.parametrize("beats, count", [(640, 3), (16, 30), (4, 60)])
def test_a_beat_every_cycle_and_many_open(beats, count):
    unit = Writer([(0x2000 * n, beats) for n in range(count)], latency=20)
    unit.run(unit.idle)
    moves = unit.memory.write_moves
    assert moves[-1] - moves[0] == beats * count - 1, "a gap between beats"


@pytest.mark.parametrize("outstanding", [1, 3, 9])
def test_no_more_bursts_than_allowed(outstanding):
    cases = [(n * 256, 1) for n in range(20)]
    unit = Writer(cases, width=32, outstanding=outstanding, latency=60)
    unit.run(unit.idle)
    assert unit.memory.most_open == outstanding


def watch_open(unit):
    """As seen from outside: never more bursts open than allowed, idle exactly when no burst is open
    or still to be asked for, and ``moved`` with every beat that is accepted."""
    dut, axi = unit.dut, unit.dut.axi
    opened = unasked = 0  # bursts, beats

    def check(cycle, idle, moved, gives, beats, asks, length, ended):
        nonlocal opened, unasked
        assert idle == (opened == unasked == 0), f"{opened} bursts open, {unasked} beats to ask for"
        assert moved == gives
        unasked += beats - (length + 1) * asks
        opened += asks - ended
        assert 0 <= opened <= dut.outstanding

    request = Mux(dut.request.valid & dut.request.ready, dut.request.p.beats, 0)
    unit.each_cycle(
        check, dut.idle, dut.moved, axi.wvalid & axi.wready, request,
        axi.awvalid & axi.awready, axi.awlen, axi.bvalid & axi.bready,
    )  # fmt: skip


@pytest.mark.parametrize("outstanding", [1, 2, 3, 5])
@pytest.mark.parametrize("p_stall", [0.0, 0.4], ids=["free", "stalled"])
@pytest.mark.sampled(2)
async def test_the_count_of_open_bursts_does_not_drift(outstanding, p_stall, rng):
    """Bursts are asked for as others are answered; afterwards as many may be open as before."""
    cases = [(n * 256, rng.choice([1, 1, 2, 5])) for n in range(80)]
    last = [(n * 256, 1) for n in range(4 * outstanding)]
    sizes = {"width": 32, "outstanding": outstanding}
    unit = Writer(cases, **sizes, rng=rng, p_stall=p_stall, latency=1)
    memory = unit.memory
    watch_open(unit)
    ctx = await unit.simulation()
    await unit.idle(ctx)
    memory.stall, memory.latency, memory.most_open = lambda: False, 60, 0
    unit.asked.pace = unit.given.pace = lambda: True
    unit.asked.add(requests(last))
    unit.given.add(unit.words(range(len(last))))
    await unit.idle(ctx)
    assert len(memory.writes) == len(cases) + len(last), "idle before the last burst"
    await unit.end()
    assert memory.most_open == outstanding


@pytest.mark.parametrize("p_stall, pairing", STALLS, ids=IDS)
@pytest.mark.parametrize("case", [(0x0FF8, 1), (0x2000, 1), (0x1F00, 33), (0x1000, 600)])
@pytest.mark.sampled(2)
async def test_outside_the_window_nothing_is_written(case, p_stall, pairing, rng):
    """Nor is any data taken after the error."""
    keys = {"base": 0x1000, "limit": 0x2000, "rng": rng, "p_stall": p_stall, "pairing": pairing}
    unit = Writer([case], beats=[0x0101010101010101] * 2000, **keys)
    unit.asked.pace = unit.given.pace = lambda: True
    taken = unit.record(unit.dut.error & unit.dut.data.ready)
    ctx = await unit.simulation()
    await until(ctx, unit.dut.error)
    unit.given.drop()
    unit.asked.add(requests([(0x1808, 1)]))  # refused: it would be inside
    for _ in range(300):
        await ctx.tick()
    assert len(unit.asked.items) == 1
    assert ctx.get(unit.dut.error_code) == ErrorCode.WINDOW
    assert not taken.cycles, "data taken after an error"
    await unit.recover(ctx)
    await unit.end()
    assert all(a >= 0x1000 and a + 8 * n <= 0x2000 and a != 0x1808 for a, n in unit.memory.writes)
    assert all(0x1000 <= address < 0x2000 for address in unit.memory.contents)


@pytest.mark.parametrize("response", [2, 3])
@pytest.mark.parametrize("p_stall, pairing", STALLS, ids=IDS)
@pytest.mark.sampled(4)
async def test_an_error_response_ends_open_bursts_without_writing(response, p_stall, pairing, rng):
    keys = {"rng": rng, "p_stall": p_stall, "pairing": pairing, "bad": [0x3008]}
    unit = Writer([(0x3000, 2000)], beats=[0x0202020202020202] * 2000, **keys)
    unit.asked.pace = unit.given.pace = lambda: True
    memory = unit.memory
    memory.bad_response = response
    ctx = await unit.simulation()
    await until(ctx, unit.dut.error)
    unit.given.drop()
    taken = len(unit.given.items)
    assert ctx.get(unit.dut.error_code) == ErrorCode.WRITE_RESPONSE
    for _ in range(3000):
        await ctx.tick()
    assert len(unit.given.items) == taken, "data taken after an error"
    assert memory.strobed <= taken, "a beat after the error has strobes"
    assert not memory._addresses, "an open burst was left"
    assert not memory._data, "an open burst was left"
    await unit.recover(ctx)


@pytest.mark.parametrize("wait", [0, 1, 2, 3, 4, 5, 20, 80])
@pytest.mark.parametrize("hold", [False, True], ids=["pulse", "level"])
@pytest.mark.sampled(3)
async def test_clear_at_any_time_leaves_nothing_behind(wait, hold, rng):
    unit = Writer([(0x3000, 300)], beats=[], rng=rng)
    unit.memory.stall = lambda: rng.random() < 0.3
    ctx = await unit.simulation()
    await unit.settled(ctx)
    unit.given.add(unit.words([7] * 300))
    for _ in range(wait):
        await ctx.tick()
    await unit.recover(ctx, hold)


async def test_a_beat_that_comes_with_a_clear_is_not_written():
    """It is not taken, and the open burst that waits for it ends without."""
    unit = Writer([(0x3000, 2)], beats=[])
    ctx = await unit.simulation()
    await unit.settled(ctx, silence=5)
    unit.given.add(unit.words([7]))  # offered in the cycle of the clear
    await ctx.tick()
    await unit.recover(ctx)
    assert unit.memory.strobed == 3
    assert set(unit.memory.contents) == {*range(0x1000, 0x1018)}


def test_addresses_are_only_so_far_ahead_of_data():
    """One burst waits for its first beat, and some behind it."""
    unit = Writer([(0x100 * n, 1) for n in range(20)], beats=[])
    unit.asked.needed = False
    unit.run(cycles=100)
    assert len(unit.memory.writes) == 1 + REQUESTS_AHEAD


def test_the_bus_is_told_what_is_written():
    """Normal memory, not cached, that may be buffered; data, secure and unprivileged."""
    unit = Writer([(0x1F8, 66), (0x1000, 1)])
    axi = unit.dut.axi
    caches, rights = unit.record(axi.awcache), unit.record(axi.awprot)
    unit.run(unit.idle)
    assert {*caches.values} == {0b0011}
    assert {*rights.values} == {0b000}


def bursts_of(address, beats, size):
    """How many bursts a request is: they end at multiples of 64 beats."""
    first = address // size
    return (first + beats - 1) // 64 - first // 64 + 1


@pytest.mark.parametrize("outstanding", [1, 2, 16, 20])
@pytest.mark.parametrize("p_stall, pairing", STALLS, ids=IDS)
@pytest.mark.sampled(3)
async def test_every_request_is_answered_with_its_last_burst(outstanding, p_stall, pairing, rng):
    """In that very cycle, once, and with its command."""
    cases = [
        (n * 0x1000 + 8 * rng.choice([0, 60, 63]), rng.choice([1, 1, 2, 5])) for n in range(40)
    ]
    cases.insert(5, (0x7F000, 130))
    commands = [rng.randrange(2) for _ in cases]
    due = [bursts_of(*case, 8) for case in cases]
    keys = {"outstanding": outstanding, "p_stall": p_stall, "pairing": pairing}
    unit = Writer(cases, commands, rng=rng, **keys)
    dut, pulses = unit.dut, []

    def check(cycle, heard, answered, command):
        last = False
        if heard:
            due[0] -= 1
            if last := due[0] == 0:
                due.pop(0)
        assert answered == last
        pulses.extend([command] * answered)

    heard = dut.axi.bvalid & dut.axi.bready
    unit.each_cycle(check, heard, dut.answered, dut.answered_command)
    ctx = await unit.simulation()
    await unit.idle(ctx)
    assert pulses == commands
    assert not due


def errors(unit):
    """(code, command) of all cycles in which there is an error, and the first such cycle."""
    dut, found = unit.dut, []
    told = dut.error, dut.error_code, dut.error_command
    unit.each_cycle(lambda cycle, *now: found.append(now), *told)
    unit.run(cycles=100)
    first = next(n for n, (error, *_) in enumerate(found) if error)
    assert all(error for error, *_ in found[first:])
    return {tuple(told) for _, *told in found[first:]}, first


@pytest.mark.parametrize("bad", range(4))
@pytest.mark.parametrize("command", [0, 1])
def test_it_tells_whose_response_was_bad(bad, command):
    """Of four requests in flight, of two bursts each; the other ones are of the other command. It
    stays so while others end."""
    cases = [(0x1000 * n + 0x11F8, 2) for n in range(4)]
    commands = [command ^ (n != bad) for n in range(4)]
    for beat in range(2):
        unit = Writer(cases, commands, latency=9, bad=[cases[bad][0] + 8 * beat])
        assert errors(unit)[0] == {(ErrorCode.WRITE_RESPONSE, command)}


@pytest.mark.parametrize("outside", range(3))
@pytest.mark.parametrize("command", [0, 1])
def test_it_tells_whose_burst_was_outside(outside, command):
    """While bursts of the other command are open; one that is bad later changes nothing."""
    cases = [(0x1000 if n != outside else 0xFF8, 2) for n in range(outside + 1)]
    commands = [command ^ (n != outside) for n in range(outside + 1)]
    window = {"base": 0x1000, "limit": 0x2000}
    unit = Writer(cases, commands, [], latency=20, bad=[0x1000], **window)
    told, first = errors(unit)
    assert told == {(ErrorCode.WINDOW, command)}
    assert first == unit.asked.cycles[-1] + 2


def test_of_two_errors_the_first_stays():
    """A bad response to one command, and a burst of the other outside of the window: at every
    distance, also in the same cycle."""
    codes = []
    for wait in range(20):
        window = {"base": 0x1000, "limit": 0x2000}
        cases = [(0x1000, 1), (0x2000, 1)]
        unit = Writer(cases, [0, 1], [0] * 50, latency=4, bad=[0x1000], **window)
        unit.asked.pace = lambda unit=unit, wait=wait: unit.cycle == 0 or unit.cycle > wait
        unit.asked.needed = unit.given.needed = False
        [told], _ = errors(unit)
        codes.append(told)
    window, response = (ErrorCode.WINDOW, 1), (ErrorCode.WRITE_RESPONSE, 0)
    assert codes == sorted(codes, key=[window, response].index)
    assert set(codes) == {window, response}


def test_cycles_of_a_request_and_of_its_beats():
    """Its address is offered 2 cycles after it, its data 4; then a burst and a beat per cycle."""
    unit = Writer([(0x1F8, 66), (0x1000, 1)])
    axi = unit.dut.axi
    asked, given = unit.record(axi.awvalid & axi.awready), unit.record(axi.wvalid & axi.wready)
    moved = unit.record(unit.dut.moved)
    unit.run(unit.idle)
    first = unit.asked.cycles[0]
    assert asked.cycles == [first + 2 + n for n in range(4)]
    assert given.cycles == moved.cycles == [first + 3 + n for n in range(67)]
