"""A program that is read through: the time that takes, and what is written in every block."""

import itertools

import pytest

from diastole_hw.vector.scan import ProgramScan
from diastole_sim.spec.micro import Instruction, MicroOp, When, program_problems
from diastole_sim.spec.stream_table import ONCE_A_BLOCK, Kind
from support.bench import design, run

WRITES = [Instruction(op=MicroOp.MOV, a=0, o=1, when=when) for when in When]
NOTHING = Instruction()


async def scanned(ctx, dut, program):
    """Cycles from the start to ``done``."""
    ctx.set(dut.length, len(program))
    ctx.set(dut.start, 1)
    await ctx.tick()
    ctx.set(dut.start, 0)
    cycles, done = 0, 0
    while not done:
        _, _, done, en, at = await ctx.tick().sample(dut.done, dut.read_en, dut.read_at)
        if en:
            ctx.set(dut.word.as_value(), program[at - 7].encode())
        cycles += 1
    return cycles


@pytest.mark.parametrize("kind", [Kind.F32, Kind.MASK, Kind.PANEL, Kind.ROW])
def test_what_is_written_in_every_block(kind):
    dut = design(ProgramScan, block=8)
    programs = [
        [*some, NOTHING] for count in range(4) for some in itertools.product(WRITES, repeat=count)
    ]

    async def bench(ctx):
        ctx.set(dut.first, 7)
        ctx.set(dut.kinds, [0, 0, 0, 0, 0, kind, 0, 0])
        for program in programs:
            await scanned(ctx, dut, program)
            watched = [1] if kind in ONCE_A_BLOCK and len(program) > 1 else []
            wrong = program_problems(program, block=8, always_written=watched)
            assert ctx.get(dut.bad) == bool(wrong), program
            assert ctx.get(dut.used) == (0x20 if len(program) > 1 else 0)

    run(dut, bench)


@pytest.mark.parametrize("length", [1, 2, 32])
def test_a_cycle_for_each_instruction(length):
    dut = design(ProgramScan, block=8)

    async def bench(ctx):
        ctx.set(dut.first, 7)
        assert await scanned(ctx, dut, [NOTHING] * length) == length + 3

    run(dut, bench)
