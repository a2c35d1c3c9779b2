# amaranth: UnusedElaboratable=no
"""The writer in front of a memory that checks AXI's rules."""

import pytest

from diastole_hw.bus.axi_writer import AxiWriter
from diastole_sim.spec.command_errors import ErrorCode
from support.axi_memory import AxiMemory
from support.bench import design, put, run

END = 2**40 - 1
STALLS = [(0.0, None), (0.5, None), (0.3, "data first"), (0.3, "address first")]
IDS = ["free", "stalled", "data first", "address first"]


def requests(cases, commands=None):
    """By command of each; all are of command 0 if ``commands`` is left out. The owner is anything:
    it does not count."""
    return (
        {"addr": address, "beats": beats, "whose": {"owner": beats % 4, "command": command}}
        for (address, beats), command in zip(cases, commands or [0] * len(cases), strict=True)
    )


async def until_idle(ctx, dut):
    while True:
        _, _, idle = await ctx.tick().sample(dut.idle)
        if idle:
            return


@pytest.mark.parametrize("data_width", [32, 64, 512])
@pytest.mark.parametrize("p_stall, pairing", STALLS, ids=IDS)
@pytest.mark.sampled(2)
def test_every_byte_is_written_where_it_belongs(data_width, p_stall, pairing, rng):
    size = data_width // 8
    dut = design(AxiWriter, data_width=data_width)
    stall = lambda: rng.random() < p_stall  # noqa: E731
    memory = AxiMemory(dut.axi, data_width, stall=stall, pairing=pairing)
    cases = [(n * 2**16 + rng.randrange(64) * size, rng.choice([1, 2, 7, 100])) for n in range(10)]
    cases += [(2**24 - size, 2), (2**40 - 3 * size, 2)]
    beats = [
        (rng.getrandbits(data_width), rng.choice([rng.getrandbits(size), 2**size - 1]))
        for _, count in cases
        for _ in range(count)
    ]
    expected = {}
    targets = [address + n * size for address, count in cases for n in range(count)]
    for address, (value, strobes) in zip(targets, beats, strict=True):
        for k, byte in enumerate(value.to_bytes(size, "little")):
            if strobes >> k & 1:
                expected[address + k] = byte

    async def ask(ctx):
        ctx.set(dut.limit, END)
        await put(ctx, dut.request, requests(cases), willing=lambda: not stall())
        await until_idle(ctx, dut)
        assert memory.contents == expected, "idle before everything was written"
        assert not ctx.get(dut.error)

    async def give(ctx):
        words = ({"data": value, "strb": strobes} for value, strobes in beats)
        await put(ctx, dut.data, words, willing=lambda: not stall())

    run(dut, ask, give, background=[memory.serve])


@pytest.mark.parametrize("beats, count", [(640, 3), (16, 30), (4, 60)])
def test_a_beat_every_cycle_and_many_open(beats, count):
    dut = design(AxiWriter, data_width=64)
    memory = AxiMemory(dut.axi, 64, latency=20)

    async def ask(ctx):
        ctx.set(dut.limit, END)
        await put(ctx, dut.request, requests([(0x2000 * n, beats) for n in range(count)]))

    async def give(ctx):
        await put(ctx, dut.data, ({"data": n, "strb": 255} for n in range(beats * count)))
        await until_idle(ctx, dut)

    run(dut, ask, give, background=[memory.serve])
    moves = memory.write_moves
    assert moves[-1] - moves[0] == beats * count - 1, "a gap between beats"


@pytest.mark.parametrize("outstanding", [1, 3, 9])
def test_no_more_bursts_than_allowed(outstanding):
    dut = design(AxiWriter, data_width=32, outstanding=outstanding)
    memory = AxiMemory(dut.axi, 32, latency=60)

    async def ask(ctx):
        ctx.set(dut.limit, END)
        await put(ctx, dut.request, requests([(n * 256, 1) for n in range(20)]))

    async def give(ctx):
        await put(ctx, dut.data, ({"data": n, "strb": 15} for n in range(20)))
        await until_idle(ctx, dut)

    run(dut, ask, give, background=[memory.serve])
    assert memory.most_open == outstanding


async def watch_open(ctx, dut):
    """As seen from outside: never more bursts open than allowed, idle exactly when no burst is open
    or still to be asked for, and ``moved`` with every beat that is accepted."""
    axi, opened, unasked = dut.axi, 0, 0  # bursts, beats
    watched = (
        dut.idle, dut.moved, dut.request.valid, dut.request.ready, dut.request.p.beats,
        axi.awvalid, axi.awready, axi.awlen, axi.wvalid, axi.wready, axi.bvalid, axi.bready,
    )  # fmt: skip
    async for _, _, *values in ctx.tick().sample(*watched):
        idle, moved, offered, taken, beats, *channels = values
        asks, accepted, length, gives, used, answers, heard = channels
        assert idle == (opened == unasked == 0), f"{opened} bursts open, {unasked} beats to ask for"
        assert moved == (gives and used)
        unasked += beats * (offered and taken) - (length + 1) * (asks and accepted)
        opened += (asks and accepted) - (answers and heard)
        assert 0 <= opened <= dut.outstanding


@pytest.mark.parametrize("outstanding", [1, 2, 3, 5])
@pytest.mark.parametrize("p_stall", [0.0, 0.4], ids=["free", "stalled"])
@pytest.mark.sampled(2)
def test_the_count_of_open_bursts_does_not_drift(outstanding, p_stall, rng):
    """Bursts are asked for as others are answered; afterwards as many may be open as before."""
    dut = design(AxiWriter, data_width=32, outstanding=outstanding)
    memory = AxiMemory(dut.axi, 32, stall=lambda: rng.random() < p_stall, latency=1)
    cases = [(n * 256, rng.choice([1, 1, 2, 5])) for n in range(80)]
    last = [(n * 256, 1) for n in range(4 * outstanding)]
    count = sum(beats for _, beats in cases)
    mixed = []

    async def ask(ctx):
        ctx.set(dut.limit, END)
        await put(ctx, dut.request, requests(cases), willing=lambda: rng.random() >= p_stall)
        while not mixed:
            await ctx.tick()
        await put(ctx, dut.request, requests(last))

    async def give(ctx):
        words = ({"data": n, "strb": 15} for n in range(count))
        await put(ctx, dut.data, words, willing=lambda: rng.random() >= p_stall)
        await until_idle(ctx, dut)
        memory.stall, memory.latency, memory.most_open = lambda: False, 60, 0
        mixed.append(True)
        await put(ctx, dut.data, ({"data": n, "strb": 15} for n in range(len(last))))
        await until_idle(ctx, dut)
        assert len(memory.writes) == len(cases) + len(last), "idle before the last burst"

    async def watch(ctx):
        await watch_open(ctx, dut)

    run(dut, ask, give, background=[memory.serve, watch])
    assert memory.most_open == outstanding


async def recover(ctx, dut, memory, hold=False):
    """Clear, and write as if nothing had been; nothing of before may come now."""
    ctx.set(dut.clear, 1)
    await ctx.tick()
    if hold:
        await until_idle(ctx, dut)
    ctx.set(dut.clear, 0)
    await until_idle(ctx, dut)
    assert not memory._addresses, "idle with an open burst"
    assert not memory._data, "idle with an open burst"
    assert not ctx.get(dut.axi.awvalid)
    assert not ctx.get(dut.axi.wvalid)
    assert not ctx.get(dut.error)
    asked = len(memory.writes)
    await put(ctx, dut.request, requests([(0x1000, 3)]))
    await put(ctx, dut.data, ({"data": n + 0x5A, "strb": 255} for n in range(3)))
    await until_idle(ctx, dut)
    assert [memory.beat(0x1000 + 8 * n) for n in range(3)] == [0x5A, 0x5B, 0x5C]
    assert memory.writes[asked:] == [(0x1000, 3)]


async def feed(ctx, dut, value):
    """Offer data without end; ``stop`` by ``dut.error``, as a machine that is stopped does."""
    ctx.set(dut.data.payload, {"data": value, "strb": 255})
    ctx.set(dut.data.valid, 1)
    taken = 0
    while True:
        _, _, error, ready = await ctx.tick().sample(dut.error, dut.data.ready)
        assert not (error and ready), "data taken after an error"
        taken += ready
        if error:
            ctx.set(dut.data.valid, 0)
            return taken


@pytest.mark.parametrize("p_stall, pairing", STALLS, ids=IDS)
@pytest.mark.parametrize("case", [(0x0FF8, 1), (0x2000, 1), (0x1F00, 33), (0x1000, 600)])
@pytest.mark.sampled(2)
def test_outside_the_window_nothing_is_written(case, p_stall, pairing, rng):
    dut = design(AxiWriter, data_width=64)
    memory = AxiMemory(dut.axi, 64, stall=lambda: rng.random() < p_stall, pairing=pairing)

    async def bench(ctx):
        ctx.set(dut.base, 0x1000)
        ctx.set(dut.limit, 0x2000)
        await put(ctx, dut.request, requests([case]))
        await feed(ctx, dut, 0x0101010101010101)
        ctx.set(dut.request.valid, 1)  # refused: it would be inside
        ctx.set(dut.request.payload, {"addr": 0x1808, "beats": 1})
        for _ in range(300):
            _, _, ready = await ctx.tick().sample(dut.request.ready)
            assert not ready
        ctx.set(dut.request.valid, 0)
        assert ctx.get(dut.error_code) == ErrorCode.WINDOW
        await recover(ctx, dut, memory)

    run(dut, bench, background=[memory.serve])
    assert all(a >= 0x1000 and a + 8 * n <= 0x2000 and a != 0x1808 for a, n in memory.writes)
    assert all(0x1000 <= address < 0x2000 for address in memory.contents)


@pytest.mark.parametrize("response", [2, 3])
@pytest.mark.parametrize("p_stall, pairing", STALLS, ids=IDS)
@pytest.mark.sampled(4)
def test_an_error_response_ends_open_bursts_without_writing(response, p_stall, pairing, rng):
    dut = design(AxiWriter, data_width=64)
    memory = AxiMemory(
        dut.axi, 64, stall=lambda: rng.random() < p_stall, bad=[0x3008], pairing=pairing
    )
    memory.bad_response = response

    async def bench(ctx):
        ctx.set(dut.limit, END)
        await put(ctx, dut.request, requests([(0x3000, 2000)]))
        taken = await feed(ctx, dut, 0x0202020202020202)
        assert ctx.get(dut.error_code) == ErrorCode.WRITE_RESPONSE
        for _ in range(3000):
            await ctx.tick()
        assert memory.strobed <= taken, "a beat after the error has strobes"
        assert not memory._addresses, "an open burst was left"
        assert not memory._data, "an open burst was left"
        await recover(ctx, dut, memory)

    run(dut, bench, background=[memory.serve])


@pytest.mark.parametrize("wait", [0, 1, 2, 3, 4, 5, 20, 80])
@pytest.mark.parametrize("hold", [False, True], ids=["pulse", "level"])
@pytest.mark.sampled(3)
def test_clear_at_any_time_leaves_nothing_behind(wait, hold, rng):
    dut = design(AxiWriter, data_width=64)
    memory = AxiMemory(dut.axi, 64, stall=lambda: rng.random() < 0.3)

    async def bench(ctx):
        ctx.set(dut.limit, END)
        await put(ctx, dut.request, requests([(0x3000, 300)]))
        ctx.set(dut.data.payload, {"data": 7, "strb": 255})
        ctx.set(dut.data.valid, 1)
        for _ in range(wait):
            await ctx.tick()
        ctx.set(dut.data.valid, 0)
        await recover(ctx, dut, memory, hold)

    run(dut, bench, background=[memory.serve])


def bursts_of(address, beats, size):
    """How many bursts a request is: they end at multiples of 64 beats."""
    first = address // size
    return (first + beats - 1) // 64 - first // 64 + 1


@pytest.mark.parametrize("outstanding", [1, 2, 16, 20])
@pytest.mark.parametrize("p_stall, pairing", STALLS, ids=IDS)
@pytest.mark.sampled(3)
def test_every_request_is_answered_with_its_last_burst(outstanding, p_stall, pairing, rng):
    """In that very cycle, once, and with its command."""
    dut = design(AxiWriter, data_width=64, outstanding=outstanding)
    memory = AxiMemory(dut.axi, 64, stall=lambda: rng.random() < p_stall, pairing=pairing)
    cases = [
        (n * 0x1000 + 8 * rng.choice([0, 60, 63]), rng.choice([1, 1, 2, 5])) for n in range(40)
    ]
    cases.insert(5, (0x7F000, 130))
    commands = [rng.randrange(2) for _ in cases]
    due = [bursts_of(*case, 8) for case in cases]
    pulses = []

    async def ask(ctx):
        ctx.set(dut.limit, END)
        items = requests(cases, commands)
        await put(ctx, dut.request, items, willing=lambda: rng.random() >= p_stall)
        await until_idle(ctx, dut)
        assert pulses == commands
        assert not due

    async def give(ctx):
        words = ({"data": n, "strb": 255} for n in range(sum(beats for _, beats in cases)))
        await put(ctx, dut.data, words, willing=lambda: rng.random() >= p_stall)

    async def watch(ctx):
        watched = (dut.axi.bvalid, dut.axi.bready, dut.answered, dut.answered_command)
        async for _, _, comes, heard, answered, command in ctx.tick().sample(*watched):
            last = False
            if comes and heard:
                due[0] -= 1
                if last := due[0] == 0:
                    due.pop(0)
            assert answered == last
            pulses.extend([command] * answered)

    run(dut, ask, give, background=[memory.serve, watch])


@pytest.mark.parametrize("bad", range(4))
@pytest.mark.parametrize("command", [0, 1])
def test_it_tells_whose_response_was_bad(bad, command):
    """Of four requests in flight, of two bursts each; the other ones are of the other command."""
    dut = design(AxiWriter, data_width=64)
    cases = [(0x1000 * n + 0x11F8, 2) for n in range(4)]
    for beat in range(2):
        memory = AxiMemory(dut.axi, 64, latency=9, bad=[cases[bad][0] + 8 * beat])

        async def ask(ctx):
            ctx.set(dut.limit, END)
            commands = [command ^ (n != bad) for n in range(4)]
            await put(ctx, dut.request, requests(cases, commands))

        async def give(ctx):
            await put(ctx, dut.data, ({"data": n, "strb": 255} for n in range(8)))
            while not ctx.get(dut.error):
                await ctx.tick()
            for _ in range(40):  # and stays so while others end
                got = ctx.get(dut.error_code), ctx.get(dut.error_command)
                assert got == (ErrorCode.WRITE_RESPONSE, command)
                await ctx.tick()

        run(dut, ask, give, background=[memory.serve])


@pytest.mark.parametrize("outside", range(3))
@pytest.mark.parametrize("command", [0, 1])
def test_it_tells_whose_burst_was_outside(outside, command):
    """While bursts of the other command are open; one that is bad later changes nothing."""
    dut = design(AxiWriter, data_width=64)
    memory = AxiMemory(dut.axi, 64, latency=20, bad=[0x1000])
    cases = [(0x1000 if n != outside else 0xFF8, 2) for n in range(outside + 1)]

    async def bench(ctx):
        ctx.set(dut.base, 0x1000)
        ctx.set(dut.limit, 0x2000)
        await put(
            ctx,
            dut.request,
            requests(cases, [command ^ (n != outside) for n in range(outside + 1)]),
        )
        for cycle in range(60):
            assert ctx.get(dut.error) == (cycle > 0)
            if cycle:
                got = ctx.get(dut.error_code), ctx.get(dut.error_command)
                assert got == (ErrorCode.WINDOW, command)
            await ctx.tick()

    run(dut, bench, background=[memory.serve])


def test_of_two_errors_the_first_stays():
    """A bad response to one command, and a burst of the other outside of the window: at every
    distance, also in the same cycle."""
    dut = design(AxiWriter, data_width=64)
    codes = []
    for wait in range(20):
        memory = AxiMemory(dut.axi, 64, latency=4, bad=[0x1000])
        found = []

        async def ask(ctx, wait=wait):
            ctx.set(dut.base, 0x1000)
            ctx.set(dut.limit, 0x2000)
            ctx.set(dut.data.valid, 1)
            await put(ctx, dut.request, requests([(0x1000, 1)], [0]))
            for _ in range(wait):
                await ctx.tick()
            await put(ctx, dut.request, requests([(0x2000, 1)], [1]))

        async def watch(ctx, found=found):
            for _ in range(40):
                await ctx.tick()
                if ctx.get(dut.error):
                    found.append((ctx.get(dut.error_code), ctx.get(dut.error_command)))

        run(dut, watch, background=[ask, memory.serve])
        assert len(set(found)) == 1, f"{wait=}"
        codes.append(found[0])
    window, response = (ErrorCode.WINDOW, 1), (ErrorCode.WRITE_RESPONSE, 0)
    assert codes == sorted(codes, key=[window, response].index)
    assert set(codes) == {window, response}


def test_cycles_of_a_request_and_of_its_beats():
    """Its address is offered 2 cycles after it, its data 4; then a burst and a beat per cycle."""
    dut = design(AxiWriter, data_width=64)
    memory = AxiMemory(dut.axi, 64)
    seen = {"taken": [], "asked": [], "given": [], "moved": []}

    async def ask(ctx):
        ctx.set(dut.limit, END)
        await put(ctx, dut.request, requests([(0x1F8, 66), (0x1000, 1)]))

    async def give(ctx):
        await put(ctx, dut.data, ({"data": n, "strb": 255} for n in range(67)))
        await until_idle(ctx, dut)

    async def watch(ctx):
        axi, cycle = dut.axi, 0
        watched = {
            "taken": dut.request.valid & dut.request.ready,
            "asked": axi.awvalid & axi.awready,
            "given": axi.wvalid & axi.wready,
            "moved": dut.moved,
        }
        async for _, _, *values in ctx.tick().sample(*watched.values()):
            for name, value in zip(watched, values, strict=True):
                seen[name] += [cycle] * value
            cycle += 1

    run(dut, ask, give, background=[memory.serve, watch])
    first = seen["taken"][0]
    assert seen["asked"] == [first + 2 + n for n in range(4)]
    assert seen["given"] == seen["moved"] == [first + 3 + n for n in range(67)]
