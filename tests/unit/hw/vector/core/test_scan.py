"""A program that is read through: the time that takes, and what is written in every block."""

import itertools

import pytest

from diastole_hw.vector.core.scan import ProgramScan
from diastole_sim.spec.micro import Instruction, MicroOp, When, program_problems
from diastole_sim.spec.stream_table import ONCE_A_BLOCK, Kind
from support.bench import design, simulation

WRITES = [Instruction(op=MicroOp.MOV, a=0, o=1, when=when) for when in When]
NOTHING = Instruction()


async def scanned(ctx, dut, program, condition_valid=0):
    """Cycles from the start to ``done``; the kinds of outputs come ``condition_valid`` cycles
    behind it."""
    kinds = dut.kinds.shape().from_bits(ctx.get(dut.kinds.as_value()))
    ctx.set(dut.length, len(program))
    ctx.set(dut.start, 1)
    await ctx.tick()
    ctx.set(dut.start, 0)
    cycles, done = 0, 0
    while not done:
        ctx.set(dut.condition_valid, cycles >= condition_valid)
        ctx.set(
            dut.kinds,
            kinds if cycles >= condition_valid else [kinds[n] for n in range(4)] + 4 * [15],
        )
        _, _, done, en, at = await ctx.tick().sample(dut.done, dut.read_en, dut.read_at)
        if en:
            ctx.set(dut.word.as_value(), program[at - 7].encode())
        cycles += 1
    return cycles


@pytest.mark.parametrize("kind", [Kind.F32, Kind.MASK, Kind.PANEL, Kind.ROW])
async def test_what_is_written_in_every_block(kind):
    dut = design(ProgramScan, block=8)
    programs = [
        [*some, NOTHING] for count in range(4) for some in itertools.product(WRITES, repeat=count)
    ]
    ctx = await simulation(dut)
    ctx.set(dut.first, 7)
    ctx.set(dut.kinds, [0, 0, 0, 0, 0, kind, 0, 0])
    for program in programs:
        await scanned(ctx, dut, program)
        watched = [1] if kind in ONCE_A_BLOCK and len(program) > 1 else []
        wrong = program_problems(program, block=8, always_written=watched)
        assert ctx.get(dut.bad) == bool(wrong), program
        assert ctx.get(dut.used) == (0x20 if len(program) > 1 else 0)


@pytest.mark.parametrize("condition_valid", [0, 1, 5, 6, 9])
async def test_kinds_of_outputs_that_come_late(condition_valid):
    dut = design(ProgramScan, block=8)
    ctx = await simulation(dut)
    ctx.set(dut.first, 7)
    for kind, wrong in ((Kind.F32, 1), (Kind.ROW, 0)):
        ctx.set(dut.kinds, [0, 0, 0, 0, 0, kind, 0, 0])
        cycles = await scanned(ctx, dut, [WRITES[0], WRITES[0]], condition_valid)
        assert cycles == max(5, condition_valid + 2)
        assert ctx.get(dut.bad) == wrong


@pytest.mark.parametrize("length", [1, 2, 32])
async def test_a_cycle_for_each_instruction(length):
    dut = design(ProgramScan, block=8)
    ctx = await simulation(dut)
    ctx.set(dut.first, 7)
    assert await scanned(ctx, dut, [NOTHING] * length) == length + 3
