# amaranth: UnusedElaboratable=no
"""Steps in the fetch unit: where it begins, goes on and ends, and what waits for what."""

from dataclasses import dataclass, field

import pytest

from diastole_hw.command.fetch import CommandFetch
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import COMMAND_BYTES, Opcode
from support.bench import design, simulation
from support.command_host import Host, pulse
from support.commands import good, limits_of

BASE = 0x1000
BAD = Command(opcode=13)
QUICK = (Opcode.CONVERT, Opcode.BACKWARD, Opcode.CHAIN, Opcode.LOAD)
"""Nothing is counted before they are offered."""


def order(commands, first, count, step, end):
    """The indices of what is fetched, one after the other, and the steps that are reached."""
    index, fetched, steps = first, [], []
    while first <= index < count:
        fetched.append(index)
        command = commands[index]
        index += 1
        if command.opcode == Opcode.NEXT:
            step = (step + 1) % 2**32
            steps.append(step)
            index = command.target if step < end else index
    return fetched, steps


@dataclass
class Machine:
    """Engines that take commands and end them, ``slow`` being the chance to wait, and the register
    of the step; notes by cycles what happens, until the run ends."""

    dut: CommandFetch
    rng: object
    slow: float
    step: int
    cycle: int = 0
    taken: list = field(default_factory=list)  # the commands
    steps: list = field(default_factory=list)
    done_at: list = field(default_factory=list)
    stepped_at: list = field(default_factory=list)
    asked_at: list = field(default_factory=list)
    beats_at: list = field(default_factory=list)
    finished_at: list = field(default_factory=list)

    async def work(self, ctx):
        dut, rng = self.dut, self.rng
        flying, asked = 0, False
        reads = dut.read
        beat_of = 512 // dut.limits.data_width
        beats = 0
        while True:
            ends = flying and rng.random() >= self.slow
            ready = rng.random() >= self.slow
            ctx.set(dut.done, ends)
            ctx.set(dut.command.ready, ready)
            ctx.set(dut.step, self.step)
            sampled = (
                dut.command.valid, dut.command.payload, dut.step_set, dut.step_next,
                reads.requests.valid, reads.beats.valid & reads.beats.ready, dut.busy, dut.finished,
            )  # fmt: skip
            _, _, *values = await ctx.tick().sample(*sampled)
            valid, payload, steps, new, asks, beat, busy, finished = values
            if steps:
                assert busy
                assert not flying, "a step ended before its commands"
                assert new == (self.step + 1) % 2**32
                self.step = new
                self.steps.append(new)
                self.stepped_at.append(self.cycle)
            if asks and not asked:
                self.asked_at.append(self.cycle)
            beats += beat
            if beat and beats % beat_of == 0:
                self.beats_at.append(self.cycle)
            if ends:
                self.done_at.append(self.cycle)
            if finished:
                self.finished_at.append(self.cycle)
            if valid and ready:
                self.taken.append({name: payload[name] for name in payload.shape().members})
            asked = asks
            flying += (valid and ready) - ends
            self.cycle += 1


async def begin(ctx, dut, count, first, end):
    for signal, value in (
        (dut.address, BASE), (dut.count, count), (dut.first, first), (dut.step_end, end),
        (dut.base, 0), (dut.limit, 2**40 - 1),
    ):  # fmt: skip
        ctx.set(signal, value)
    await pulse(ctx, dut.start)


async def ended(ctx, dut, cycles=4000):
    for _ in range(cycles):
        await ctx.tick()
        if not ctx.get(dut.busy):
            await ctx.tick().repeat(3)
            return
    raise AssertionError("the run does not end")


def fields_of(command, dut):
    return {name: getattr(command, name) for name in dut.command.payload.shape().members}


SHAPES = {  # kinds of commands (x: any, a number: next to it), first, count, step, end
    "a loop": ("xx0", 0, 3, 0, 3),
    "a loop, and what follows": ("xx0xx", 0, 5, 7, 10),
    "from the middle": ("xxx2x", 2, 5, 0, 2),
    "nothing before it": ("0", 0, 1, 0, 4),
    "one after the other": ("x20", 0, 3, 0, 5),
    "of an odd length": ("x0", 0, 2, 0, 6),
    "of an even length": ("xxx0", 0, 4, 0, 3),
    "two loops": ("x0x2", 0, 4, 0, 7),
    "forward": ("x3xx", 0, 4, 0, 9),
    "at the last step": ("x0x", 0, 3, 4, 5),
    "beyond the last step": ("x0x", 0, 3, 9, 5),
    "before the first": ("xxx0x", 1, 5, 0, 5),
    "beyond the last": ("xx9x", 0, 4, 0, 5),
    "to the count": ("x3xx", 0, 3, 0, 5),
    "over the end of the numbers": ("x0x", 0, 3, 2**32 - 1, 2),
    "never": ("xx0", 0, 3, 0, 0),
}


def commands_of(kinds, rng, data_width=512):
    return [
        good(rng.choice(QUICK), data_width) if kind == "x" else Command.next(int(kind))
        for kind in kinds
    ]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("data_width", [64, 512])
@pytest.mark.parametrize("slow", [0.0, 0.5, 0.9])
@pytest.mark.sampled(4)
async def test_every_step_in_its_order(shape, data_width, slow, rng):
    kinds, first, count, step, end = SHAPES[shape]
    dut = design(CommandFetch, limits_of(data_width, vector=True))
    commands = commands_of(kinds, rng, data_width)
    host = Host(dut, commands, BASE, lambda: rng.random() >= slow / 2)
    engine = Machine(dut, rng, slow, step)
    fetched, steps = order(commands, first, count, step, end)
    ctx = await simulation(dut, background=[host.serve, engine.work], limit=20_000)
    await begin(ctx, dut, count, first, end)
    await ended(ctx, dut)
    assert not ctx.get(dut.error_code)
    assert [(address - BASE) // COMMAND_BYTES for address, _ in host.requests] == fetched
    offered = [commands[index] for index in fetched if commands[index].opcode != Opcode.NEXT]
    assert engine.taken == [fields_of(command, dut) for command in offered]
    assert engine.steps == steps
    assert len(engine.finished_at) == 1
    _check_cycles(engine, [commands[index] for index in fetched])


def _check_cycles(engine, fetched):
    """A step ends as soon as it may, and what follows is asked for 3 cycles later."""
    stepped = iter(engine.stepped_at)
    done = 0
    for number, command in enumerate(fetched):
        if command.opcode != Opcode.NEXT:
            done += 1
            continue
        now = next(stepped)
        last = [engine.done_at[done - 1] + 1] if done else []
        assert now == max([engine.beats_at[number] + 3, *last]), f"step at command {number}"
        if engine.asked_at[number + 1 :]:
            assert engine.asked_at[number + 1] == now + 3
        else:
            assert engine.finished_at == [now + 1]


@pytest.mark.parametrize("first, count", [(0, 0), (1, 1), (2, 1), (2**32 - 1, 5)])
async def test_no_command_at_all(first, count):
    dut = design(CommandFetch, limits_of(64, vector=True))
    ctx = await simulation(dut)
    await begin(ctx, dut, count, first, 0)
    assert (ctx.get(dut.error_code), ctx.get(dut.error_index)) == (ErrorCode.ZERO_SIZE, 0)
    assert not ctx.get(dut.busy)


@pytest.mark.parametrize("kinds", ["x0b", "xx0b", "x3xb", "0b"])
async def test_a_command_is_refused_after_a_step(kinds, rng):
    """The index is that of the command, the parity of which may be that of the one before it."""
    dut = design(CommandFetch, limits_of(512, vector=True))
    commands = [BAD if kind == "b" else commands_of(kind, rng)[0] for kind in kinds]
    host = Host(dut, commands, BASE)
    engine = Machine(dut, rng, 0.5, 0)
    ctx = await simulation(dut, background=[host.serve, engine.work])
    await begin(ctx, dut, len(kinds), 0, 3)
    await ended(ctx, dut)
    assert ctx.get(dut.error_code) == ErrorCode.BAD_OPCODE
    assert ctx.get(dut.error_index) == len(kinds) - 1


@pytest.mark.parametrize("kinds", ["x0", "xx0", "xxx0"])
@pytest.mark.parametrize("code", [ErrorCode.NOT_FINITE, ErrorCode.WRITE_RESPONSE])
async def test_a_fault_in_a_later_step(kinds, code, rng):
    """Of any command, by its number, while another is in flight or a ``next`` waits."""
    dut = design(CommandFetch, limits_of(512, vector=True))
    commands = commands_of(kinds, rng)

    async def serve(ctx):
        """Whatever is asked for, anew after each error."""
        reads = dut.read
        waiting = []
        while True:
            ctx.set(reads.requests.ready, 1)
            ctx.set(reads.beats.valid, bool(waiting))
            if waiting:
                ctx.set(reads.beats.payload, waiting[0])
            _, _, asks, address, taken, found = await ctx.tick().sample(
                reads.requests.valid, reads.requests.p.addr,
                reads.beats.valid & reads.beats.ready, dut.error_code,
            )  # fmt: skip
            if taken:
                waiting.pop(0)
            if asks:
                index = (address - BASE) // COMMAND_BYTES
                waiting.append(int.from_bytes(commands[index].encode(), "little"))
            if found:
                waiting.clear()

    ctx = await simulation(dut, background=[serve], limit=20_000)
    ctx.set(dut.command.ready, 1)
    for wrong in range(len(kinds) - 1):
        await begin(ctx, dut, len(kinds), 0, 2**32 - 1)
        taken = done = steps = 0
        ctx.set(dut.step, 0)
        for _ in range(400):
            oldest = (done % (len(kinds) - 1), steps)
            hits = oldest == (wrong, 2) and taken > done
            ends = taken - done == 2 or (taken > done and rng.random() < 0.1)
            ctx.set(dut.done, ends and not hits)
            if hits:
                ctx.set(dut.fault_number, wrong % 2)
                await pulse(ctx, dut.fault, code)
                break
            _, _, offered, stepped = await ctx.tick().sample(dut.command.valid, dut.step_set)
            taken += offered
            done += ends
            steps += stepped
        assert (ctx.get(dut.error_code), ctx.get(dut.error_index)) == (code, wrong)
        assert not ctx.get(dut.step_set)
        await pulse(ctx, dut.clear)


@pytest.mark.parametrize("what", ["clear", "fault"])
async def test_a_step_does_not_end_with_what_stops_the_machine(what):
    """In the cycle in which it would."""
    dut = design(CommandFetch, limits_of(512, vector=True))
    ctx = await simulation(dut)
    for wait in range(8):
        bits = int.from_bytes(Command.next(0).encode(), "little")
        ctx.set(dut.read.beats.payload, bits)
        for signal in (dut.read.requests.ready, dut.read.beats.valid):
            ctx.set(signal, 1)
        await begin(ctx, dut, 1, 0, 5)
        for _ in range(wait):
            await ctx.tick()
        stop = dut.clear if what == "clear" else dut.fault
        ctx.set(stop, 1 if what == "clear" else ErrorCode.READ_RESPONSE)
        _, _, stepped = await ctx.tick().sample(dut.step_set)
        assert not stepped
        ctx.set(stop, 0)
        assert not ctx.get(dut.busy)
        await pulse(ctx, dut.clear)
