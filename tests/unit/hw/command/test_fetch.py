# amaranth: UnusedElaboratable=no
"""Commands as they are fetched, offered, done and refused: two in flight, by their cycles."""

from dataclasses import replace

import pytest

from diastole_hw.command.fetch import CommandFetch
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_check import decode
from diastole_sim.spec.command_errors import ErrorCode, MalformedCommandError
from diastole_sim.spec.command_table import COMMAND_BYTES, Opcode
from diastole_sim.spec.nest import Nest
from support.bench import design, get, pulse, put, simulation
from support.command_host import Host, Machine, begin, fields_of
from support.commands import ON_MACHINES, good, limits_of
from support.unit_bench import until
from support.unit_values import plain

BAD = Command.product(Opcode.DX, m=1, n=1, k=1, address_w=4, address_dy=0, out_a=0)
FAULTS = [ErrorCode.WINDOW, ErrorCode.READ_RESPONSE, ErrorCode.WRITE_RESPONSE]
QUICK = (Opcode.CONVERT, Opcode.BACKWARD)
"""Of commands that keep nothing on chip: nothing is counted before they are offered."""


async def quiet(ctx, dut, cycles=40):
    """Nothing is asked for, offered or told, whatever could be had."""
    for signal in (dut.command.ready, dut.read.requests.ready, dut.read.beats.valid):
        ctx.set(signal, 1)
    for _ in range(cycles):
        _, _, *high = await ctx.tick().sample(
            dut.busy, dut.finished, dut.read.requests.valid, dut.command.valid, dut.read.beats.ready
        )
        assert not any(high)
    for signal in (dut.command.ready, dut.read.requests.ready, dut.read.beats.valid):
        ctx.set(signal, 0)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("data_width", [32, 64, 128, 256, 512])
@pytest.mark.parametrize("slow", [0.0, 0.5, 0.9, 0.97])
@pytest.mark.sampled(5)
async def test_every_command_in_its_cycle(data_width, count, slow, rng):
    dut = design(CommandFetch, limits_of(data_width))
    ahead = [rng.randrange(2) for _ in range(count)]
    commands = [replace(good(rng.choice(QUICK), data_width), ahead=bit) for bit in ahead]
    size = data_width // 8
    base = 0x98_0000_0000 + size
    machine = Machine(dut, commands, rng, base=base, slow=slow)
    number = machine.record(dut.number)
    ctx = await machine.simulation(silence=30)
    await begin(ctx, dut, address=base, count=count)
    await machine.ended(ctx)
    assert not ctx.get(dut.error_code)
    await machine.end()
    asked, taken, ends = machine.asked, machine.taken.cycles, machine.ends
    assert machine.host.requests == [(base + 64 * n, 64 // size) for n in range(count)]
    assert machine.taken.items == [fields_of(command, dut.command.p) for command in commands]
    assert asked[0] == 3
    for n in range(1, count):
        free = [taken[n - 1]] + [ends[n - 2]] * (n > 1)
        assert asked[n] == max(free) + 1, f"request of command {n}"
    for n in range(count):
        assert {*number.raw[asked[n] : taken[n] + 1]} == {n % 2}
    assert machine.offered == [cycle + 3 for cycle in machine.fetched]
    assert machine.finished == [ends[-1] + 1]


@pytest.mark.parametrize(
    "opcode, vector",
    [(opcode, vector) for opcode, vector in ON_MACHINES if opcode != Opcode.NEXT],
    ids=lambda value: value.name.lower() if isinstance(value, Opcode) else f"vector {value}",
)
@pytest.mark.sampled(2)
async def test_all_fields_come_as_the_host_has_set_them(opcode, vector):
    """Also of commands that wait for a count of what they keep on chip."""
    dut = design(CommandFetch, limits_of(64, vector=vector))
    sized = {"m": 3} if good(opcode).m else {}
    commands = [good(opcode), replace(good(opcode), ahead=1, **sized), good(Opcode.CONVERT)]
    host = Host(dut, commands, 0x40)
    ctx = await simulation(dut, background=[host.serve])
    await begin(ctx, dut, address=0x40, count=3)
    for number, command in enumerate(commands):
        got = await get(ctx, dut.command)
        assert plain(got) == fields_of(command, dut.command.p), f"command {number}"
        if number:
            await pulse(ctx, dut.done)
    assert ctx.get(dut.busy)
    await pulse(ctx, dut.done)
    assert not ctx.get(dut.busy)


def too_much():
    """A command in order but for what it keeps on chip, for which there is no room."""
    taken = limits_of(64).nests.forward
    nest = Nest(t_blocks=1, groups=1, chunk=taken.chunk[0], keep="both")
    addresses = {"address_x": 0, "address_w": 0, "out_a": 0}
    command = Command.product(Opcode.FORWARD, m=999, n=999, k=32, nest=nest, **addresses)
    with pytest.raises(MalformedCommandError) as raised:
        decode(command.encode(), limits_of(64))
    assert raised.value.code == ErrorCode.NEST
    return command


REFUSED = {"its fields": (BAD, ErrorCode.MISALIGNED), "what it keeps": (too_much(), ErrorCode.NEST)}


@pytest.mark.parametrize("bad", range(4))
@pytest.mark.parametrize("what", REFUSED)
async def test_a_command_is_refused_when_those_before_it_are_done(what, bad):
    refused, code = REFUSED[what]
    dut = design(CommandFetch, limits_of(64))
    commands = [good(Opcode.DW), good(Opcode.CONVERT), good(Opcode.DX), good(Opcode.DX)]
    commands[bad] = refused
    host = Host(dut, commands, 0x1000)
    ctx = await simulation(dut, background=[host.serve])
    await begin(ctx, dut, address=0x1000, count=4)
    for number in range(bad):
        await get(ctx, dut.command)
        if number:
            await pulse(ctx, dut.done)
    ctx.set(dut.command.ready, 1)
    for _ in range(200):
        _, _, offered, found = await ctx.tick().sample(dut.command.valid, dut.error_code)
        assert not offered
        assert not (bad and found), "while the one before it is at work"
    ctx.set(dut.command.ready, 0)
    if bad:
        assert ctx.get(dut.busy)
        await pulse(ctx, dut.done)
        await ctx.tick()
    assert (ctx.get(dut.error_code), ctx.get(dut.error_index)) == (code, bad)
    await pulse(ctx, dut.start)  # ignored until the error is forgotten
    await quiet(ctx, dut)
    assert (ctx.get(dut.error_code), ctx.get(dut.error_index)) == (code, bad)
    assert len(host.requests) == bad + 1, "more was fetched"


@pytest.mark.parametrize("what", REFUSED)
async def test_nothing_of_a_refused_command_is_left(what):
    """After ``clear`` the next one is as any other; a ``done`` that comes late counts nowhere."""
    dut = design(CommandFetch, limits_of(64))
    last = good(Opcode.DX)
    commands = [good(Opcode.DW), REFUSED[what][0], last]
    host = Host(dut, commands, 0x1000)
    ctx = await simulation(dut, background=[host.serve])
    await begin(ctx, dut, address=0x1040, count=2)
    await until(ctx, dut.error_code)
    assert ctx.get(dut.error_index) == 0
    await pulse(ctx, dut.done)
    await pulse(ctx, dut.clear)
    assert not ctx.get(dut.error_code)
    assert not ctx.get(dut.error_index)
    await pulse(ctx, dut.done)
    await begin(ctx, dut, address=0x1080, count=1)
    assert plain(await get(ctx, dut.command)) == fields_of(last, dut.command.p)
    await ctx.tick().repeat(3)
    assert ctx.get(dut.busy)
    await pulse(ctx, dut.done)
    assert ctx.get(dut.finished)
    assert not ctx.get(dut.busy)
    assert not ctx.get(dut.error_code)


@pytest.mark.parametrize(
    "address, count, code",
    [(0x1000, 0, ErrorCode.ZERO_SIZE), (0x1004, 1, ErrorCode.MISALIGNED)],
)
async def test_a_malformed_start(address, count, code):
    dut = design(CommandFetch, limits_of(64))
    ctx = await simulation(dut)
    await begin(ctx, dut, address=address, count=count)
    assert (ctx.get(dut.error_code), ctx.get(dut.error_index)) == (code, 0)
    assert not ctx.get(dut.busy)
    assert not ctx.get(dut.read.requests.valid)


@pytest.mark.parametrize("count", [1, 2, 3, 6])
@pytest.mark.parametrize("slow", [0.3, 0.8])
@pytest.mark.sampled(4)
async def test_a_fault_of_the_bus_is_that_of_its_command(count, slow, rng):
    """In any cycle, of any command in flight, together with anything else: it stops the machine,
    and its number tells which command it was. While nothing is at work it is nobody's fault."""
    dut = design(CommandFetch, limits_of(512))
    commands = [good(rng.choice(QUICK), 512) for _ in range(count)]
    met = set()

    async def once(ctx, when):
        """Raise a fault in this cycle after the start, if the commands are not done by then."""
        await pulse(ctx, dut.fault, rng.choice(FAULTS))
        assert not ctx.get(dut.error_code)
        await begin(ctx, dut, count=count)
        taken = done = 0
        for cycle in range(when + 1):
            if done == count:
                return
            ends = done < taken and rng.random() >= slow
            ready = rng.random() >= slow
            ctx.set(dut.done, ends)
            ctx.set(dut.command.ready, ready)
            if cycle == when:
                fetched = taken < count and taken - done < 2
                index = rng.randrange(done, taken + fetched)
                code = rng.choice(FAULTS)
                ctx.set(dut.fault, code)
                ctx.set(dut.fault_number, index % 2)
            _, _, offered = await ctx.tick().sample(dut.command.valid)
            taken += offered and ready
            done += ends
        for signal in (dut.fault, dut.done, dut.command.ready):
            ctx.set(signal, 0)
        assert (ctx.get(dut.error_code), ctx.get(dut.error_index)) == (code, index)
        met.add((index - (done - ends), bool(ends), bool(offered and ready)))
        ctx.set(dut.fault_number, rng.randrange(2))
        ctx.set(dut.fault, rng.choice(FAULTS))  # others do not matter now
        await ctx.tick()
        ctx.set(dut.fault, 0)
        assert (ctx.get(dut.error_code), ctx.get(dut.error_index)) == (code, index)

    host = Host(dut, commands, 0, lambda: rng.random() < 0.7)
    ctx = await simulation(dut, background=[host.serve])
    for when in [*range(25)] * 6:
        await once(ctx, when)
        ctx.set(dut.command.ready, 0)
        ctx.set(dut.done, 0)
        await pulse(ctx, dut.clear)
    assert {place for place, *_ in met} == ({0, 1} if count > 1 else {0})
    assert {ends for _, ends, _ in met} == {took for *_, took in met} == {False, True}


@pytest.mark.parametrize("code", FAULTS)
@pytest.mark.parametrize("with_done", [False, True])
async def test_a_fault_of_the_one_before_a_refused_command(code, with_done):
    """Comes first, even with its end."""
    dut = design(CommandFetch, limits_of(64))
    host = Host(dut, [good(Opcode.CONVERT), BAD], 0)
    ctx = await simulation(dut, background=[host.serve])
    await begin(ctx, dut, count=2)
    await get(ctx, dut.command)
    await ctx.tick().repeat(40)
    ctx.set(dut.done, with_done)
    ctx.set(dut.fault_number, 0)
    await pulse(ctx, dut.fault, code)
    ctx.set(dut.done, 0)
    assert (ctx.get(dut.error_code), ctx.get(dut.error_index)) == (code, 0)
    await ctx.tick().repeat(3)
    assert (ctx.get(dut.error_code), ctx.get(dut.error_index)) == (code, 0)
    await quiet(ctx, dut)


@pytest.mark.parametrize("code", FAULTS)
async def test_a_fault_with_the_last_end(code):
    dut = design(CommandFetch, limits_of(64))
    host = Host(dut, [good(Opcode.CONVERT)], 0)
    ctx = await simulation(dut, background=[host.serve])
    await begin(ctx, dut)
    await get(ctx, dut.command)
    ctx.set(dut.done, 1)
    await pulse(ctx, dut.fault, code)
    ctx.set(dut.done, 0)
    assert (ctx.get(dut.error_code), ctx.get(dut.error_index)) == (code, 0)
    await quiet(ctx, dut)


@pytest.mark.parametrize("wait", range(1, 17))
@pytest.mark.sampled(2)
async def test_clear_stops_at_any_time(wait):
    """With up to two in flight; afterwards commands run as if nothing had been."""
    dut = design(CommandFetch, limits_of(512))
    command = good(Opcode.CONVERT, 512)
    ctx = await simulation(dut)
    ctx.set(dut.read.beats.payload, int.from_bytes(command.encode(), "little"))
    for signal in (dut.read.requests.ready, dut.read.beats.valid, dut.command.ready):
        ctx.set(signal, 1)  # whatever is asked for is had at once
    await begin(ctx, dut, count=4)
    await ctx.tick().repeat(wait)
    await pulse(ctx, dut.clear)
    await quiet(ctx, dut, 10)
    assert not ctx.get(dut.error_code)
    for signal in (dut.read.requests.ready, dut.read.beats.valid):
        ctx.set(signal, 1)
    await begin(ctx, dut, count=2)
    assert ctx.get(dut.number) == 0
    for _ in range(2):
        got = await get(ctx, dut.command)
        assert plain(got) == fields_of(command, dut.command.p)
    await ctx.tick().repeat(3)
    for number in range(2):
        assert ctx.get(dut.busy)
        await pulse(ctx, dut.done)
        assert ctx.get(dut.finished) == number
    assert not ctx.get(dut.busy)


@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize("what", ["below", "beyond", "failed"])
async def test_a_command_that_cannot_be_read(what, index):
    """It is the error when those before it are done; outside the window nothing is asked for."""
    dut = design(CommandFetch, limits_of(64))
    command = good(Opcode.CONVERT)
    first = 0x1000
    asked, taken = [], []

    async def memory(ctx):
        while True:
            request = await get(ctx, dut.read.requests)
            number = (request.addr - first) // COMMAND_BYTES
            asked.append(number)
            data = int.from_bytes(command.encode(), "little")
            for beat in range(request.beats):
                ctx.set(dut.failed, what == "failed" and number == index and beat == 3)
                await put(ctx, dut.read.beats, [data >> 64 * beat & 2**64 - 1])
            ctx.set(dut.failed, 0)

    async def engine(ctx):
        while True:
            await get(ctx, dut.command)
            taken.append(len(taken))
            assert not ctx.get(dut.error_code)
            await ctx.tick().repeat(60)  # the next one is asked for meanwhile
            assert not ctx.get(dut.error_code), "before the command is done"
            await pulse(ctx, dut.done)

    ctx = await simulation(dut, background=(memory, engine))
    window = {}
    if what == "below":
        window["base"] = first + COMMAND_BYTES * index + 8
    if what == "beyond":
        window["limit"] = first + COMMAND_BYTES * (index + 1) - 8
    await begin(ctx, dut, address=first, count=3, **window)
    await until(ctx, dut.error_code)
    failing = 0 if what == "below" else index
    code = ErrorCode.READ_RESPONSE if what == "failed" else ErrorCode.WINDOW
    assert (ctx.get(dut.error_code), ctx.get(dut.error_index)) == (code, failing)
    assert taken == list(range(failing))
    assert asked == list(range(failing + (what == "failed")))


@pytest.mark.parametrize("data_width", [32, 128, 512])
async def test_every_bit_of_a_command_counts(data_width, rng):
    """One bit changed, anywhere, and the command before it in order: as the host says."""
    limits = limits_of(data_width)
    dut = design(CommandFetch, limits)
    places = [*rng.sample(range(512), 24), 511, 510, 127, 63]
    ctx = await simulation(dut)
    for at in places:
        command = good(Opcode.CONVERT, data_width).encode()
        bits = int.from_bytes(command, "little") ^ 1 << at
        changed = bits.to_bytes(COMMAND_BYTES, "little")
        try:
            decode(changed, limits)
            want = 0
        except MalformedCommandError as error:
            want = error.code
        await pulse(ctx, dut.clear)
        await begin(ctx, dut, count=2)
        for data in (command, changed):
            await get(ctx, dut.read.requests)
            words = [data[n : n + data_width // 8] for n in range(0, len(data), data_width // 8)]
            await put(ctx, dut.read.beats, (int.from_bytes(word, "little") for word in words))
            if data is command:
                await get(ctx, dut.command)
                await pulse(ctx, dut.done)
        await ctx.tick().repeat(4)
        found = ctx.get(dut.error_code), ctx.get(dut.error_index), ctx.get(dut.command.valid)
        assert found == ((want, 1, 0) if want else (0, 0, 1)), at
