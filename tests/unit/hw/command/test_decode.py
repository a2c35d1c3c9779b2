# amaranth: UnusedElaboratable=no
"""Commands through the decoder and the fetch unit, against the encoder of the host."""

import dataclasses

import pytest
from amaranth.sim import Simulator

from diastole_hw.command.decode import Decoder, command_layout
from diastole_hw.command.fetch import CommandFetch
from diastole_sim.spec.command import (
    FIELDS,
    Command,
    ErrorCode,
    Limits,
    MalformedCommandError,
    Opcode,
    decode,
)
from diastole_sim.spec.nest import Nest, NestLimits, ProductNests
from support.bench import design, get, put, run

MEMORIES = {"stream_blocks": 40, "held_blocks": 60, "pass_blocks": 2}
SIDES = {"chunk_side": 1, "lane_side": 2} | MEMORIES
NORTH = {"chunk_side": 3, "lane_side": 1} | MEMORIES
NESTS = ProductNests(
    forward=NestLimits(t_blocks=(1, 2, 4), groups=(1, 2, 3), chunk=(2, 4), **SIDES),
    dx=NestLimits(t_blocks=(2, 4, 8), groups=(2, 4), chunk=(3, 6, 9), **NORTH),
    dw=NestLimits(t_blocks=(16,), groups=(1,), chunk=(1,), **SIDES),
)
LIMITS = {
    "block": 4, "headroom": 3, "max_size": 1000, "max_convert_cols": 100, "nests": NESTS,
}  # fmt: skip
MOST = 2**24 - 1


def good(opcode, data_width=64):
    """One valid command of each operation; every field that it uses is odd in some way."""
    at = [0xA5_0000_0000 + n * 0x1234 * data_width for n in range(5)]
    if opcode == Opcode.CONVERT:
        return Command.convert(
            "dy",
            rows=999,
            cols=99,
            source=at[0],
            destination=at[1],
            tag=0xDEADBEEF,
            step=0x12345678,
        )
    names = {
        Opcode.FORWARD: ("address_x", "address_w", "out_a"),
        Opcode.DX: ("address_w", "address_dy", "out_a"),
        Opcode.DW: ("address_x", "address_dy", "out_a"),
        Opcode.BACKWARD: ("address_x", "address_w", "address_dy", "out_a", "out_b"),
    }[opcode]
    taken = NESTS.of(opcode.name.lower())
    nest = taken and Nest(
        t_blocks=taken.t_blocks[-1], groups=taken.groups[0], chunk=taken.chunk[-1], outer="l",
        keep="held",
    )  # fmt: skip
    return Command.product(
        opcode, m=31, n=17, k=29, nest=nest or Nest(), **dict(zip(names, at, strict=False))
    )


def limits(data_width):
    return Limits(data_width=data_width, **LIMITS)


def roomy(data_width):
    """The same with memories that hold whatever a nest may keep, which the decoder does not see."""
    room = dict.fromkeys(("stream_blocks", "held_blocks"), 1 << 40)
    kept = {
        field.name: dataclasses.replace(getattr(NESTS, field.name), **room)
        for field in dataclasses.fields(NESTS)
    }
    return dataclasses.replace(limits(data_width), nests=ProductNests(**kept))


def verdict(bits, data_width):
    """The code and the command that the host's decoder gives."""
    try:
        return 0, decode(bits.to_bytes(64, "little"), roomy(data_width))
    except MalformedCommandError as error:
        return error.code, None


def decide(cases, data_width):
    """(code, {field: value}) of the decoder for each case; it is combinational."""
    dut = design(Decoder, limits(data_width))
    results = []

    async def bench(ctx):
        for bits in cases:
            ctx.set(dut.bits, bits)
            decoded = ctx.get(dut.o)
            fields = {name: decoded[name] for name in dut.o.shape().members}
            results.append((ctx.get(dut.error_code), fields))

    sim = Simulator(dut)
    sim.add_testbench(bench)
    sim.run()
    return results


def assert_like_host(cases, data_width):
    for bits, (code, fields) in zip(cases, decide(cases, data_width), strict=True):
        expected, command = verdict(bits, data_width)
        assert code == expected, f"{bits:#0130x}"
        if command is not None:
            assert fields == {name: getattr(command, name) for name in fields}, f"{bits:#0130x}"


def bits_of(command):
    return int.from_bytes(command.encode(), "little")


@pytest.mark.parametrize("data_width", [32, 64, 512])
@pytest.mark.parametrize("opcode", list(Opcode), ids=lambda op: op.name.lower())
def test_one_bit_changed(opcode, data_width):
    bits = bits_of(good(opcode, data_width))
    assert verdict(bits, data_width)[0] == 0
    assert_like_host([bits] + [bits ^ 1 << n for n in range(512)], data_width)


@pytest.mark.parametrize("opcode", list(Opcode), ids=lambda op: op.name.lower())
def test_many_faults_at_once(opcode, rng):
    """So that the order of precedence is seen too; every code is met."""
    start = bits_of(good(opcode))
    cases = []
    for _ in range(800):
        bits = start
        for field in rng.sample(FIELDS, rng.randrange(1, 5)):
            mask = (1 << field.bits) - 1 << field.low
            new = rng.choice(
                [0, 1, 2, 3, 32, 33, 100, 101, 1000, 1001, MOST + 1, 2**field.bits - 1]
            )
            bits = bits & ~mask | (new << field.low & mask)
        cases.append(bits)
    assert_like_host(cases, 64)
    seen = {verdict(bits, 64)[0] for bits in cases}
    assert {ErrorCode.BAD_OPCODE, ErrorCode.BAD_VERSION, ErrorCode.RESERVED} <= seen
    assert {ErrorCode.BAD_CLASS, ErrorCode.ZERO_SIZE, ErrorCode.TOO_LARGE} <= seen


@pytest.mark.parametrize(
    "opcode, change, code",
    [
        (Opcode.CONVERT, {"m": 1000, "n": 100}, 0),
        (Opcode.CONVERT, {"n": 101}, ErrorCode.TOO_LARGE),
        (Opcode.CONVERT, {"m": 1001}, ErrorCode.TOO_LARGE),
        (Opcode.CONVERT, {"class_x": 3}, ErrorCode.BAD_CLASS),
        (Opcode.CONVERT, {"k": 1}, ErrorCode.RESERVED),
        (Opcode.FORWARD, {"m": 1000, "n": 1000, "k": 32}, 0),
        (Opcode.FORWARD, {"k": 33}, ErrorCode.TOO_LONG),
        (Opcode.DX, {"m": 1000, "n": 32, "k": 1000}, 0),
        (Opcode.DX, {"n": 33}, ErrorCode.TOO_LONG),
        (Opcode.DW, {"m": 32, "n": 1000, "k": 1000}, 0),
        (Opcode.DW, {"m": 33}, ErrorCode.TOO_LONG),
        (Opcode.BACKWARD, {"m": 32, "n": 32, "k": 1000}, 0),
        (Opcode.BACKWARD, {"m": 33}, ErrorCode.TOO_LONG),
        (Opcode.BACKWARD, {"n": 33}, ErrorCode.TOO_LONG),
        (Opcode.BACKWARD, {"k": 1001}, ErrorCode.TOO_LARGE),
        (Opcode.BACKWARD, {"k": 0}, ErrorCode.ZERO_SIZE),
        (Opcode.BACKWARD, {"out_b": 4}, ErrorCode.MISALIGNED),
        (Opcode.DX, {"tag": 1}, ErrorCode.RESERVED),
        (Opcode.DX, {"class_w": 0}, ErrorCode.BAD_CLASS),
        (Opcode.DX, {"version": 3}, ErrorCode.BAD_VERSION),
        (Opcode.DX, {"version": 0}, ErrorCode.BAD_VERSION),
        (Opcode.BACKWARD, {"version": 1}, 0),
        (Opcode.DX, {"version": 1}, ErrorCode.RESERVED),  # it has a nest
        (Opcode.DX, {"nest_t": 0, "nest_groups": 0, "nest_chunk": 0}, 0),
        (Opcode.DX, {"nest_t": 1}, ErrorCode.NEST),
        (Opcode.DX, {"nest_groups": 3}, ErrorCode.NEST),
        (Opcode.DX, {"nest_chunk": 4}, ErrorCode.NEST),
        (Opcode.DX, {"nest_chunk": 1 << 15, "out_a": 4}, ErrorCode.MISALIGNED),
        (Opcode.DX, {"nest_keep": 3}, 0),
        (Opcode.BACKWARD, {"nest_t": 1}, ErrorCode.RESERVED),
        (Opcode.BACKWARD, {"nest_keep": 2}, ErrorCode.RESERVED),
        (Opcode.CONVERT, {"nest_outer": 1}, ErrorCode.RESERVED),
        (Opcode.DX, {"opcode": 6}, ErrorCode.BAD_OPCODE),
    ],
)
def test_bounds_and_codes(opcode, change, code):
    values = {field.name: getattr(good(opcode), field.name) for field in FIELDS}
    bits = bits_of(Command(**(values | change)))
    assert decide([bits], 64)[0][0] == code


class Host:
    """Serves a fetch unit's requests from an array of commands at ``base``; a background bench."""

    def __init__(self, dut, commands, base, willing):
        self.dut, self.base, self.willing = dut, base, willing
        self.memory = b"".join(command.encode() for command in commands)
        self.requests = []

    async def serve(self, ctx):
        dut, size = self.dut, self.dut.limits.data_width // 8
        while True:
            request = await get(ctx, dut.read.requests, willing=self.willing)
            self.requests.append((request.addr, request.beats))
            at = request.addr - self.base
            words = self.memory[at : at + request.beats * size]
            beats = [words[n : n + size] for n in range(0, len(words), size)]
            values = (int.from_bytes(beat, "little") for beat in beats)
            await put(ctx, dut.read.beats, values, willing=self.willing)


async def start(ctx, dut, address, count):
    ctx.set(dut.address, address)
    ctx.set(dut.count, count)
    await pulse(ctx, dut.start)


async def pulse(ctx, signal, value=1):
    ctx.set(signal, value)
    await ctx.tick()
    ctx.set(signal, 0)


async def until(ctx, signal):
    """Wait until a signal is high after an edge."""
    while not ctx.get(signal):
        await ctx.tick()


def as_command(payload):
    return {name: payload[name] for name in payload.shape().members}


def fields_of(command):
    return {name: getattr(command, name) for name in command_layout().members}


@pytest.mark.parametrize("data_width", [32, 64, 128, 256, 512])
@pytest.mark.parametrize("p_ready", [1.0, 0.4], ids=["free", "stalled"])
def test_commands_come_in_order_each_after_the_other_is_done(data_width, p_ready, rng):
    dut = design(CommandFetch, limits(data_width))
    commands = [good(rng.choice(list(Opcode)), data_width) for _ in range(6)]
    base = 0x98_0000_0000 + data_width // 8
    host = Host(dut, commands, base, lambda: rng.random() < p_ready)
    finished = []

    async def bench(ctx):
        await start(ctx, dut, base, len(commands))
        for n, command in enumerate(commands):
            got = await get(ctx, dut.command, willing=lambda: rng.random() < p_ready)
            assert as_command(got) == fields_of(command), f"command {n}"
            for _ in range(rng.randrange(4)):
                await ctx.tick()
                assert not ctx.get(dut.command.valid)
                assert not ctx.get(dut.read.requests.valid)
                assert as_command(ctx.get(dut.command.payload)) == fields_of(command)
            assert ctx.get(dut.busy)
            assert not finished
            assert len(host.requests) == n + 1
            await pulse(ctx, dut.done)
        assert not ctx.get(dut.busy)
        assert not ctx.get(dut.error_code)
        await ctx.tick().repeat(30)
        assert finished == [1], "finished is one pulse"

    async def watch(ctx):
        while True:
            _, _, high = await ctx.tick().sample(dut.finished)
            if high:
                finished.append(1)

    run(dut, bench, background=[host.serve, watch])
    size = data_width // 8
    assert host.requests == [(base + 64 * n, 64 // size) for n in range(len(commands))]


@pytest.mark.parametrize("bad", [0, 2])
def test_a_malformed_command_stops_the_machine(bad):
    dut = design(CommandFetch, limits(64))
    commands = [good(Opcode.DW), good(Opcode.CONVERT), good(Opcode.DX), good(Opcode.DX)]
    commands[bad] = Command.product(Opcode.DX, m=1, n=1, k=1, address_w=4, address_dy=0, out_a=0)
    host = Host(dut, commands, 0x1000, lambda: True)

    async def bench(ctx):
        await start(ctx, dut, 0x1000, 4)
        for _ in range(bad):
            await get(ctx, dut.command)
            await pulse(ctx, dut.done)
        await until(ctx, dut.error_code)
        assert ctx.get(dut.error_code) == ErrorCode.MISALIGNED
        assert ctx.get(dut.error_index) == bad
        assert not ctx.get(dut.busy)
        await pulse(ctx, dut.start)  # refused until the error is forgotten
        ctx.set(dut.command.ready, 1)
        for _ in range(40):
            _, _, valid, request, finished = await ctx.tick().sample(
                dut.command.valid, dut.read.requests.valid, dut.finished
            )
            assert not valid
            assert not request
            assert not finished
        ctx.set(dut.command.ready, 0)
        assert ctx.get(dut.error_code) == ErrorCode.MISALIGNED
        await pulse(ctx, dut.clear)
        assert not ctx.get(dut.error_code)
        assert not ctx.get(dut.error_index)
        await start(ctx, dut, 0x1000 + 64 * 3, 1)
        assert as_command(await get(ctx, dut.command)) == fields_of(commands[3])
        await pulse(ctx, dut.done)
        assert not ctx.get(dut.busy)
        assert not ctx.get(dut.error_code)

    run(dut, bench, background=[host.serve])


@pytest.mark.parametrize(
    "address, count, code",
    [(0x1000, 0, ErrorCode.ZERO_SIZE), (0x1004, 1, ErrorCode.MISALIGNED)],
)
def test_a_malformed_start(address, count, code):
    dut = design(CommandFetch, limits(64))

    async def bench(ctx):
        await start(ctx, dut, address, count)
        assert (ctx.get(dut.error_code), ctx.get(dut.error_index)) == (code, 0)
        assert not ctx.get(dut.busy)
        assert not ctx.get(dut.read.requests.valid)

    run(dut, bench)


@pytest.mark.parametrize(
    "code", [ErrorCode.WINDOW, ErrorCode.READ_RESPONSE, ErrorCode.WRITE_RESPONSE]
)
@pytest.mark.parametrize("when", ["request", "beats", "offered", "taken", "with done"])
def test_faults_of_the_bus(when, code):
    """In command 1 of 2: at every moment of its life."""
    dut = design(CommandFetch, limits(64))
    beats = {"request": -1, "beats": 3}.get(when, 8)

    async def feed(ctx, command, count):
        await get(ctx, dut.read.requests)
        data = command.encode()
        values = [int.from_bytes(data[n : n + 8], "little") for n in range(0, 64, 8)]
        await put(ctx, dut.read.beats, values[:count])

    async def bench(ctx):
        await pulse(ctx, dut.fault, code)  # while idle: nobody's fault
        assert not ctx.get(dut.error_code)
        await start(ctx, dut, 0, 2)
        await feed(ctx, good(Opcode.DX), 8)
        await get(ctx, dut.command)
        await pulse(ctx, dut.done)
        if beats >= 0:
            await feed(ctx, good(Opcode.FORWARD), beats)
        if beats == 8:
            await until(ctx, dut.command.valid)
        if when in ("taken", "with done"):
            await get(ctx, dut.command)
        ctx.set(dut.done, when == "with done")
        await pulse(ctx, dut.fault, code)
        ctx.set(dut.done, 0)
        assert (ctx.get(dut.error_code), ctx.get(dut.error_index)) == (code, 1)
        ctx.set(dut.command.ready, 1)
        ctx.set(dut.read.beats.valid, 1)
        for _ in range(20):
            watched = (
                dut.busy,
                dut.finished,
                dut.read.requests.valid,
                dut.command.valid,
                dut.read.beats.ready,
            )
            _, _, *high = await ctx.tick().sample(*watched)
            assert not any(high)

    run(dut, bench)


@pytest.mark.parametrize("wait", range(12))
def test_clear_stops_at_any_time(wait):
    dut = design(CommandFetch, limits(64))

    async def offer(ctx):
        """Data without end, as long as they are wanted."""
        ctx.set(dut.read.requests.ready, 1)
        ctx.set(dut.read.beats.valid, 1)
        ctx.set(dut.read.beats.payload, 0xFF)

    async def bench(ctx):
        await start(ctx, dut, 0, 1)
        for _ in range(wait):
            await ctx.tick()
        await pulse(ctx, dut.clear)
        for _ in range(15):
            watched = (
                dut.busy,
                dut.finished,
                dut.read.requests.valid,
                dut.command.valid,
                dut.error_code,
            )
            _, _, *high = await ctx.tick().sample(*watched)
            assert not any(high)
        await start(ctx, dut, 0, 1)
        assert ctx.get(dut.busy)
        assert ctx.get(dut.read.requests.valid)

    run(dut, bench, background=[offer])
