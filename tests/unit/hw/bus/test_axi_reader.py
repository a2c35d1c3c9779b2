# amaranth: UnusedElaboratable=no
"""The reader in front of a memory that checks AXI's rules."""

import pytest

from diastole_hw.bus.axi_reader import AxiReader
from diastole_hw.bus.services import FETCH
from diastole_sim.spec.command_errors import ErrorCode
from support.axi_memory import AxiMemory
from support.bench import design, get, put, run

END = 2**40 - 1


def requests(cases, whose=None):
    """By owner and command of each; all are of unit 1 and command 0 if ``whose`` is left out."""
    return (
        {"addr": address, "beats": beats, "whose": {"owner": owner, "command": command}}
        for (address, beats), (owner, command) in zip(
            cases, whose or [(1, 0)] * len(cases), strict=True
        )
    )


async def open_window(ctx, dut, base=0, limit=END):
    ctx.set(dut.base, base)
    ctx.set(dut.limit, limit)


@pytest.mark.parametrize("data_width", [32, 64, 512])
@pytest.mark.parametrize("p_stall", [0.0, 0.5], ids=["free", "stalled"])
def test_beats_come_in_order(data_width, p_stall, rng):
    size = data_width // 8
    dut = design(AxiReader, data_width=data_width)
    memory = AxiMemory(dut.axi, data_width, stall=lambda: rng.random() < p_stall)
    cases = [(rng.randrange(2**16) * size, rng.choice([1, 2, 7, 100])) for _ in range(15)]
    cases += [(4096 - size, 2), (2**40 - 3 * size, 2)]
    whose = [(rng.randrange(4), rng.randrange(2)) for _ in cases]

    async def drive(ctx):
        await open_window(ctx, dut)
        items = requests(cases, whose)
        await put(ctx, dut.request, items, willing=lambda: rng.random() >= p_stall)

    async def check(ctx):
        for (address, beats), (owner, _) in zip(cases, whose, strict=True):
            for n in range(beats):
                got = await get(ctx, dut.data, willing=lambda: rng.random() >= p_stall)
                wanted = (memory.beat(address + n * size), 1 << owner)
                assert (got.data, got.units) == wanted, f"beat {n} of {beats} at {address:#x}"
        await ctx.tick()
        assert not ctx.get(dut.data.valid), "extra output"
        assert ctx.get(dut.idle)
        assert not ctx.get(dut.error)

    run(dut, drive, check, background=[memory.serve])
    assert sum(beats for _, beats in memory.reads) == sum(beats for _, beats in cases)


@pytest.mark.parametrize("beats, count", [(640, 3), (1, 200), (16, 20)])
def test_a_beat_every_cycle_and_many_open(beats, count):
    dut = design(AxiReader, data_width=64)
    memory = AxiMemory(dut.axi, 64, latency=14)
    cases = [(0x10000 + n * 0x2000, beats) for n in range(count)]
    moved = []

    async def drive(ctx):
        await open_window(ctx, dut)
        await put(ctx, dut.request, requests(cases))

    async def check(ctx):
        ctx.set(dut.data.ready, 1)
        cycle = 0
        while len(moved) < beats * count:
            _, _, valid = await ctx.tick().sample(dut.data.valid)
            cycle += 1
            if valid:
                moved.append(cycle)

    run(dut, drive, check, background=[memory.serve])
    assert moved[-1] - moved[0] == beats * count - 1, "a gap between beats"
    assert moved[0] == memory.read_moves[0] + 1
    assert memory.most_open >= 8


@pytest.mark.parametrize("outstanding", [1, 3])
def test_no_more_bursts_than_allowed(outstanding):
    dut = design(AxiReader, data_width=32, outstanding=outstanding)
    memory = AxiMemory(dut.axi, 32, latency=30)

    async def drive(ctx):
        await open_window(ctx, dut)
        await put(ctx, dut.request, requests([(n * 256, 1) for n in range(10)]))

    async def check(ctx):
        for _ in range(10):
            await get(ctx, dut.data)

    run(dut, drive, check, background=[memory.serve])
    assert memory.most_open == outstanding


async def watch_open(ctx, dut):
    """As seen from outside: never more bursts open than allowed, and idle exactly when every beat
    that was requested has been taken."""
    axi, opened, owed = dut.axi, 0, 0
    watched = (
        dut.idle, dut.request.valid, dut.request.ready, dut.request.p.beats,
        dut.data.valid, dut.data.ready,
        axi.arvalid, axi.arready, axi.rvalid, axi.rready, axi.rlast,
    )  # fmt: skip
    async for _, _, *values in ctx.tick().sample(*watched):
        idle, offered, taken, beats, given, used, asks, accepted, comes, heard, last = values
        assert idle == (owed == 0), f"{owed} beats to come"
        owed += beats * (offered and taken) - (given and used)
        opened += (asks and accepted) - (comes and heard and last)
        assert 0 <= opened <= dut.outstanding


@pytest.mark.parametrize("outstanding", [1, 2, 3, 5])
@pytest.mark.parametrize("p_stall", [0.0, 0.4], ids=["free", "stalled"])
def test_the_count_of_open_bursts_does_not_drift(outstanding, p_stall, rng):
    """Bursts are asked for as others end; afterwards as many may be open as before."""
    dut = design(AxiReader, data_width=32, outstanding=outstanding)
    memory = AxiMemory(dut.axi, 32, stall=lambda: rng.random() < p_stall, latency=1)
    cases = [(n * 256, rng.choice([1, 1, 2, 5])) for n in range(80)]
    last = [(n * 256, 1) for n in range(4 * outstanding)]
    mixed = []

    async def ask(ctx):
        await open_window(ctx, dut)
        await put(ctx, dut.request, requests(cases), willing=lambda: rng.random() >= p_stall)
        while not mixed:
            await ctx.tick()
        await put(ctx, dut.request, requests(last))

    async def take(ctx):
        for _ in range(sum(beats for _, beats in cases)):
            await get(ctx, dut.data, willing=lambda: rng.random() >= p_stall)
        assert ctx.get(dut.idle), "bursts counted that are not open"
        memory.stall, memory.latency, memory.most_open = lambda: False, 60, 0
        mixed.append(True)
        for _ in last:
            await get(ctx, dut.data)
        assert ctx.get(dut.idle)

    async def watch(ctx):
        await watch_open(ctx, dut)

    run(dut, ask, take, background=[memory.serve, watch])
    assert memory.most_open == outstanding


async def until_idle(ctx, dut):
    while True:
        _, _, idle = await ctx.tick().sample(dut.idle)
        if idle:
            return


async def recover(ctx, dut, memory, hold=False):
    """Clear, and read as if nothing had been."""
    ctx.set(dut.clear, 1)
    await ctx.tick()
    if hold:
        await until_idle(ctx, dut)
    ctx.set(dut.clear, 0)
    await until_idle(ctx, dut)
    assert not memory._beats, "idle with an open burst"
    assert not ctx.get(dut.axi.arvalid), "idle with an open burst"
    assert not ctx.get(dut.error)
    assert not ctx.get(dut.data.valid)
    await put(ctx, dut.request, requests([(0x1000, 3)]))
    for n in range(3):
        assert (await get(ctx, dut.data)).data == memory.beat(0x1000 + 8 * n)
    assert ctx.get(dut.idle)


@pytest.mark.parametrize("p_stall", [0.0, 0.6], ids=["free", "stalled"])
@pytest.mark.parametrize("case", [(0x0FF8, 1), (0x2000, 1), (0x1F00, 33), (0x1000, 600)])
def test_outside_the_window_nothing_is_read(case, p_stall, rng):
    dut = design(AxiReader, data_width=64)
    memory = AxiMemory(dut.axi, 64, stall=lambda: rng.random() < p_stall)

    async def bench(ctx):
        await open_window(ctx, dut, 0x1000, 0x2000)
        await put(ctx, dut.request, requests([case]))
        ctx.set(dut.data.ready, 1)
        while not ctx.get(dut.error):
            await ctx.tick()
        ctx.set(dut.request.valid, 1)  # refused: it would be inside
        ctx.set(dut.request.payload, {"addr": 0x1808, "beats": 1})
        for _ in range(300):
            _, _, ready = await ctx.tick().sample(dut.request.ready)
            assert not ready
        ctx.set(dut.request.valid, 0)
        ctx.set(dut.data.ready, 0)
        assert ctx.get(dut.error_code) == ErrorCode.WINDOW
        await recover(ctx, dut, memory)

    run(dut, bench, background=[memory.serve])
    assert all(a >= 0x1000 and a + 8 * n <= 0x2000 and a != 0x1808 for a, n in memory.reads)


@pytest.mark.parametrize("response", [2, 3])
@pytest.mark.parametrize("p_stall", [0.0, 0.6], ids=["free", "stalled"])
def test_an_error_response_stops_the_reader(response, p_stall, rng):
    dut = design(AxiReader, data_width=64)
    memory = AxiMemory(dut.axi, 64, stall=lambda: rng.random() < p_stall, bad=[0x3008])
    memory.bad_response = response

    async def bench(ctx):
        await open_window(ctx, dut)
        await put(ctx, dut.request, requests([(0x3000, 200)]))
        assert (await get(ctx, dut.data)).data == memory.beat(0x3000)
        ctx.set(dut.data.ready, 1)
        while not ctx.get(dut.error):
            _, _, valid = await ctx.tick().sample(dut.data.valid)
            assert not valid, "the bad beat was given"
        assert ctx.get(dut.error_code) == ErrorCode.READ_RESPONSE
        for _ in range(600):
            _, _, valid = await ctx.tick().sample(dut.data.valid)
            assert not valid, "a beat after the error"
        asked = len(memory.reads)
        ctx.set(dut.data.ready, 0)
        await recover(ctx, dut, memory)
        assert len(memory.reads) == asked + 1, "went on with the old request"

    run(dut, bench, background=[memory.serve])
    assert not memory._beats, "open bursts were not read to their end"


def test_a_bad_beat_of_the_fetch_stops_nobody():
    """It is given, and said to have failed; other units' beats come as ever."""
    dut = design(AxiReader, data_width=64)
    memory = AxiMemory(dut.axi, 64, bad=[0x3008])
    cases, whose = [(0x1000, 2), (0x3000, 3), (0x2000, 2)], [(1, 0), (FETCH, 1), (2, 0)]

    async def ask(ctx):
        await open_window(ctx, dut)
        await put(ctx, dut.request, requests(cases, whose))

    async def bench(ctx):
        for (address, beats), (owner, _) in zip(cases, whose, strict=True):
            for n in range(beats):
                got = await get(ctx, dut.data)
                assert got.units == 1 << owner
                assert got.failed == (address + 8 * n == 0x3008)
                assert got.failed or got.data == memory.beat(address + 8 * n)
        assert not ctx.get(dut.error)
        assert not ctx.get(dut.error_code)

    run(dut, ask, bench, background=[memory.serve])


def test_open_bursts_are_read_to_their_end_though_nobody_takes_them():
    dut = design(AxiReader, data_width=64)
    memory = AxiMemory(dut.axi, 64)

    async def bench(ctx):
        await open_window(ctx, dut, 0, 0x2000)
        await put(ctx, dut.request, requests([(0x1E00, 64), (0x1000, 1)]))
        while not ctx.get(dut.data.valid):
            await ctx.tick()
        await put(ctx, dut.request, requests([(0x2000, 1)]))
        for _ in range(120):
            await ctx.tick()
        assert ctx.get(dut.error)
        assert not memory._beats
        await recover(ctx, dut, memory)

    run(dut, bench, background=[memory.serve])
    assert memory.reads == [(0x1E00, 64), (0x1000, 1), (0x1000, 3)]


@pytest.mark.parametrize("wait", [0, 1, 2, 3, 5, 20, 80])
@pytest.mark.parametrize("hold", [False, True], ids=["pulse", "level"])
@pytest.mark.sampled(2)
def test_clear_at_any_time_leaves_nothing_behind(wait, hold, rng):
    dut = design(AxiReader, data_width=64)
    memory = AxiMemory(dut.axi, 64, stall=lambda: rng.random() < 0.3)

    async def bench(ctx):
        await open_window(ctx, dut)
        await put(ctx, dut.request, requests([(0x3000, 300)]))
        ctx.set(dut.data.ready, wait % 2)  # even: a beat that nobody takes is cleared too
        for _ in range(wait):
            await ctx.tick()
        ctx.set(dut.data.ready, 0)
        await recover(ctx, dut, memory, hold)

    run(dut, bench, background=[memory.serve])


@pytest.mark.parametrize("outstanding", [1, 2, 17, 32])
def test_sources_of_open_bursts_are_kept(outstanding, rng):
    """Short bursts of changing units, as many open as there may be, in a memory that answers in the
    cycle after it is asked or much later."""
    dut = design(AxiReader, data_width=32, outstanding=outstanding)
    memory = AxiMemory(dut.axi, 32)
    cases = [(n * 256 + 252 * (n % 3 == 0), 1 + n % 3) for n in range(3 * outstanding + 20)]
    whose = [(rng.randrange(4), rng.randrange(2)) for _ in cases]

    async def ask(ctx):
        await open_window(ctx, dut)
        await put(ctx, dut.request, requests(cases, whose))

    async def take(ctx):
        for number, ((address, beats), (owner, _)) in enumerate(zip(cases, whose, strict=True)):
            memory.latency = 0 if number < 10 else 40
            for n in range(beats):
                got = await get(ctx, dut.data)
                wanted = (memory.beat(address + 4 * n), 1 << owner)
                assert (got.data, got.units) == wanted, f"beat {n} of request {number}"

    run(dut, ask, take, background=[memory.serve])
    assert memory.most_open == outstanding


@pytest.mark.parametrize("latency", [0, 1, 20])
@pytest.mark.parametrize("bad", range(4))
@pytest.mark.parametrize("command", [0, 1])
@pytest.mark.sampled(3)
def test_it_tells_whose_response_was_bad(latency, bad, command):
    """Of four requests in flight, of two bursts each; the other ones are of the other command."""
    dut = design(AxiReader, data_width=64)
    cases = [(0x1000 * n + 0x11F8, 2) for n in range(4)]
    for beat in range(2):
        at = cases[bad][0] + 8 * beat
        memory = AxiMemory(dut.axi, 64, latency=latency, bad=[at])

        async def ask(ctx):  # the last ones may be refused
            await open_window(ctx, dut)
            ctx.set(dut.data.ready, 1)
            whose = [(3, command ^ (n != bad)) for n in range(4)]
            await put(ctx, dut.request, requests(cases, whose))

        async def bench(ctx):
            while not ctx.get(dut.error):
                await ctx.tick()
            for _ in range(40):  # and stays so while others end
                got = ctx.get(dut.error_code), ctx.get(dut.error_command)
                assert got == (ErrorCode.READ_RESPONSE, command)
                await ctx.tick()

        run(dut, bench, background=[ask, memory.serve])


@pytest.mark.parametrize("outside", range(3))
@pytest.mark.parametrize("command", [0, 1])
def test_it_tells_whose_burst_was_outside(outside, command):
    """While bursts of the other command are open; one that is bad later changes nothing."""
    dut = design(AxiReader, data_width=64)
    memory = AxiMemory(dut.axi, 64, latency=20, bad=[0x1000])
    cases = [(0x1000 if n != outside else 0xFF8, 2) for n in range(3)]

    async def bench(ctx):
        await open_window(ctx, dut, 0x1000, 0x2000)
        ctx.set(dut.data.ready, 1)
        whose = [(1, command ^ (n != outside)) for n in range(outside + 1)]
        await put(ctx, dut.request, requests(cases[: outside + 1], whose))
        for cycle in range(60):
            assert ctx.get(dut.error) == (cycle > 0)
            if cycle:
                got = ctx.get(dut.error_code), ctx.get(dut.error_command)
                assert got == (ErrorCode.WINDOW, command)
            await ctx.tick()

    run(dut, bench, background=[memory.serve])


def test_of_two_errors_the_first_stays():
    """A bad beat of one command, and a burst of the other outside of the window: at every distance,
    also in the same cycle."""
    dut = design(AxiReader, data_width=64)
    codes = []
    for wait in range(20):
        memory = AxiMemory(dut.axi, 64, latency=4, bad=[0x1000])
        found = []

        async def ask(ctx, wait=wait):
            await open_window(ctx, dut, 0x1000, 0x2000)
            ctx.set(dut.data.ready, 1)
            await put(ctx, dut.request, requests([(0x1000, 1)], [(2, 0)]))
            for _ in range(wait):
                await ctx.tick()
            await put(ctx, dut.request, requests([(0x2000, 1)], [(0, 1)]))

        async def watch(ctx, found=found):
            for _ in range(40):
                await ctx.tick()
                if ctx.get(dut.error):
                    found.append((ctx.get(dut.error_code), ctx.get(dut.error_command)))

        run(dut, watch, background=[ask, memory.serve])
        assert len(set(found)) == 1, f"{wait=}"
        codes.append(found[0])
    window, response = (ErrorCode.WINDOW, 1), (ErrorCode.READ_RESPONSE, 0)
    assert codes == sorted(codes, key=[window, response].index)
    assert set(codes) == {window, response}


def test_cycles_of_a_request_and_of_its_beats():
    """A burst is asked for 2 cycles after its request, then one per cycle; a beat leaves in the
    cycle after it came, with the pulse ``moved`` before."""
    dut = design(AxiReader, data_width=64)
    memory = AxiMemory(dut.axi, 64, latency=5)
    seen = {"taken": [], "asked": [], "came": [], "moved": [], "left": []}

    async def ask(ctx):
        await open_window(ctx, dut)
        ctx.set(dut.data.ready, 1)
        await put(ctx, dut.request, requests([(0x1F8, 66), (0x1000, 1)]))

    async def watch(ctx):
        axi, cycle = dut.axi, 0
        watched = {
            "taken": dut.request.valid & dut.request.ready,
            "asked": axi.arvalid & axi.arready,
            "came": axi.rvalid & axi.rready,
            "moved": dut.moved,
            "left": dut.data.valid,
        }
        while len(seen["left"]) < 67:
            _, _, *values = await ctx.tick().sample(*watched.values())
            for name, value in zip(watched, values, strict=True):
                seen[name] += [cycle] * value
            cycle += 1

    run(dut, ask, watch, background=[memory.serve])
    first = seen["taken"][0]
    assert seen["asked"] == [first + 2 + n for n in range(4)]
    assert seen["taken"][1] == first + 3, "the next one, as the last burst of this one is given"
    assert seen["came"] == seen["moved"]
    assert seen["left"] == [cycle + 1 for cycle in seen["came"]]
