# amaranth: UnusedElaboratable=no
"""Steps in the fetch unit: where it begins, goes on and ends, and what waits for what."""

import pytest

from diastole_hw.command.fetch import CommandFetch
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import COMMAND_BYTES, Opcode
from support.bench import design, pulse, simulation
from support.command_host import Host, Machine, begin, fields_of
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
    machine = Machine(dut, commands, rng, base=BASE, slow=slow, step=step)
    fetched, steps = order(commands, first, count, step, end)
    ctx = await machine.simulation()
    await begin(ctx, dut, address=BASE, count=count, first=first, step_end=end)
    await machine.ended(ctx)
    assert not ctx.get(dut.error_code)
    await machine.end()
    requests = machine.host.requests
    assert [(address - BASE) // COMMAND_BYTES for address, _ in requests] == fetched
    offered = [commands[index] for index in fetched if commands[index].opcode != Opcode.NEXT]
    assert machine.taken.items == [fields_of(command, dut.command.p) for command in offered]
    assert machine.steps == steps
    assert len(machine.finished) == 1
    _check_cycles(machine, [commands[index] for index in fetched])


def _check_cycles(machine, fetched):
    """A step ends as soon as it may, and what follows is asked for 3 cycles later."""
    stepped = iter(machine.stepped)
    done = 0
    for number, command in enumerate(fetched):
        if command.opcode != Opcode.NEXT:
            done += 1
            continue
        now = next(stepped)
        last = [machine.ends[done - 1] + 1] if done else []
        assert now == max([machine.fetched[number] + 3, *last]), f"step at command {number}"
        if machine.asked[number + 1 :]:
            assert machine.asked[number + 1] == now + 3
        else:
            assert machine.finished == [now + 1]


@pytest.mark.parametrize("first, count", [(0, 0), (1, 1), (2, 1), (2**32 - 1, 5)])
async def test_no_command_at_all(first, count):
    dut = design(CommandFetch, limits_of(64, vector=True))
    ctx = await simulation(dut)
    await begin(ctx, dut, address=BASE, count=count, first=first)
    assert (ctx.get(dut.error_code), ctx.get(dut.error_index)) == (ErrorCode.ZERO_SIZE, 0)
    assert not ctx.get(dut.busy)


@pytest.mark.parametrize("kinds", ["x0b", "xx0b", "x3xb", "0b"])
async def test_a_command_is_refused_after_a_step(kinds, rng):
    """The index is that of the command, the parity of which may be that of the one before it."""
    dut = design(CommandFetch, limits_of(512, vector=True))
    commands = [BAD if kind == "b" else commands_of(kind, rng)[0] for kind in kinds]
    machine = Machine(dut, commands, rng, base=BASE, slow=0.5)
    ctx = await machine.simulation()
    await begin(ctx, dut, address=BASE, count=len(kinds), step_end=3)
    await machine.ended(ctx)
    assert ctx.get(dut.error_code) == ErrorCode.BAD_OPCODE
    assert ctx.get(dut.error_index) == len(kinds) - 1


@pytest.mark.parametrize("kinds", ["x0", "xx0", "xxx0"])
@pytest.mark.parametrize("code", [ErrorCode.NOT_FINITE, ErrorCode.WRITE_RESPONSE])
async def test_a_fault_in_a_later_step(kinds, code, rng):
    """Of any command, by its number, while another is in flight or a ``next`` waits."""
    dut = design(CommandFetch, limits_of(512, vector=True))
    commands = commands_of(kinds, rng)

    ctx = await simulation(dut, background=[Host(dut, commands, BASE).serve], limit=20_000)
    ctx.set(dut.command.ready, 1)
    for wrong in range(len(kinds) - 1):
        await begin(ctx, dut, address=BASE, count=len(kinds), step_end=2**32 - 1)
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


@pytest.mark.parametrize("what", ["clear", "fault", None])
async def test_a_step_does_not_end_with_what_stops_the_machine(what):
    """In the cycle in which it would, which is among those that are tried."""
    dut = design(CommandFetch, limits_of(512, vector=True))
    ctx = await simulation(dut)
    ends = 0
    for wait in range(8):
        bits = int.from_bytes(Command.next(0).encode(), "little")
        ctx.set(dut.read.beats.payload, bits)
        for signal in (dut.read.requests.ready, dut.read.beats.valid):
            ctx.set(signal, 1)
        await begin(ctx, dut, step_end=5)
        for _ in range(wait):
            await ctx.tick()
        ctx.set(dut.clear, what == "clear")
        ctx.set(dut.fault, ErrorCode.READ_RESPONSE if what == "fault" else 0)
        _, _, stepped = await ctx.tick().sample(dut.step_set)
        ends += stepped
        ctx.set(dut.fault, 0)
        assert ctx.get(dut.busy) == (what is None)
        await pulse(ctx, dut.clear)
    assert ends == (what is None)
