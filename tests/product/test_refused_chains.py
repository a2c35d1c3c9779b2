"""Chains that the generated machine refuses, as the golden one does: error, command, and memory."""

from dataclasses import replace

import numpy as np
import pytest

from diastole.backend import cached_product, program_limits
from diastole_sim.golden.golden_machine import GoldenMachine
from diastole_sim.host.vector_machine import VectorMachine
from diastole_sim.machines.verilator.simulation import Simulation
from diastole_sim.machines.verilator.verilator_machine import VerilatorMachine
from diastole_sim.spec.command import Command, ProgramPlace
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import COMMAND_BYTES, Opcode
from diastole_sim.spec.limits import VectorTable
from diastole_sim.spec.micro import Instruction, MicroOp, Source
from diastole_sim.spec.nest import Nest
from diastole_sim.spec.stream_table import Descriptor, Kind
from support.products import STEPS_1X1

MEMORY_BYTES = 1 << 16
COMMANDS, INSTRUCTIONS, STREAMS, SOURCE, OUT = 0x0, 0x1000, 0x2000, 0x3000, 0x8000
MOVE = Instruction(op=MicroOp.MOV, a=Source.S0, o=0)
F32 = Descriptor(kind=Kind.F32, address=OUT, pitch=64)
IMAGE = Descriptor(kind=Kind.IMAGE, address=OUT, pitch=7)
PANEL = Descriptor(kind=Kind.PANEL, pitch=4)
PLACE = ProgramPlace(first=0, length=1, streams=0)
CHAIN = Command.chain(PLACE, m=7, n=13)
TWICE = replace(PLACE, length=2)


def product(n, **nest):
    where = {"address_x": SOURCE, "address_w": SOURCE + 0x800}
    return Command.chained(Opcode.FORWARD_CHAIN, PLACE, m=9, n=n, k=5, nest=Nest(**nest), **where)


GIVEN = Descriptor(kind=Kind.PRODUCT)
CASES = {
    "in order": (CHAIN, (MOVE,), {4: F32}, ErrorCode.NONE),
    "no output": (CHAIN, (MOVE,), {4: Descriptor()}, ErrorCode.BAD_STREAM),
    "a pitch off the beat": (CHAIN, (MOVE,), {4: replace(F32, pitch=4)}, ErrorCode.BAD_STREAM),
    "beyond the panel": (CHAIN, (MOVE,), {4: replace(PANEL, address=1020)}, ErrorCode.BAD_STREAM),
    "an operand too many": (CHAIN, (replace(MOVE, b=1),), {4: F32}, ErrorCode.BAD_PROGRAM),
    "both": (CHAIN, (replace(MOVE, b=1),), {4: Descriptor()}, ErrorCode.BAD_STREAM),
    "two images": (
        replace(CHAIN, **TWICE.fields()),
        (MOVE, replace(MOVE, o=1)),
        {4: IMAGE, 5: replace(IMAGE, address=OUT + 0x1000)},
        ErrorCode.BAD_STREAM,
    ),
    "a product of nothing": (CHAIN, (MOVE,), {0: GIVEN, 4: F32}, ErrorCode.BAD_STREAM),
    "a product that nobody reads": (product(n=13), (MOVE,), {4: F32}, ErrorCode.BAD_STREAM),
    "an image of narrow tiles": (
        product(n=64, groups=4),
        (MOVE,),
        {0: GIVEN, 4: IMAGE},
        ErrorCode.NEST,
    ),
    "a vector of narrow tiles": (
        product(n=64, groups=8),
        (MOVE,),
        {0: GIVEN, 4: Descriptor(kind=Kind.ROW, address=OUT)},
        ErrorCode.BAD_STREAM,
    ),
    "too many instructions": (
        replace(CHAIN, program_length=33),
        (MOVE,),
        {4: F32},
        ErrorCode.TOO_LARGE,
    ),
}


def written(program, streams, command):
    """Memory with a chain behind the loads of what it uses, and how many commands that is."""
    slots = [Descriptor(kind=Kind.F32, address=SOURCE, pitch=64), *[Descriptor()] * 7]
    for number, stream in streams.items():
        slots[number] = stream
    memory = np.full(MEMORY_BYTES, 0xA5, np.uint8)
    values = np.arange(512, dtype=np.float32) - 200
    commands = (
        Command.load(VectorTable.INSTRUCTIONS, address=INSTRUCTIONS, first=0, count=len(program)),
        Command.load(VectorTable.DESCRIPTORS, address=STREAMS, first=0, count=8),
        command,
        Command.load(VectorTable.CONSTANTS, address=SOURCE, first=0, count=4),
    )
    for address, data in (
        (SOURCE, values.tobytes()),
        (INSTRUCTIONS, b"".join(each.encode().to_bytes(8, "little") for each in program)),
        (STREAMS, b"".join(slot.encode() for slot in slots)),
        (COMMANDS, b"".join(each.encode() for each in commands)),
    ):
        memory[address : address + len(data)] = np.frombuffer(data, np.uint8)
    return memory, len(commands)


@pytest.fixture(scope="module")
def rtl():
    simulation = Simulation(memory_base=0, memory_bytes=MEMORY_BYTES)
    with VectorMachine(VerilatorMachine(cached_product(STEPS_1X1), simulation), seed=1) as machine:
        yield machine


@pytest.mark.parametrize("name", CASES)
def test_what_is_refused(name, rtl):
    command, program, streams, error = CASES[name]
    memory, count = written(program, streams, command)
    golden = GoldenMachine(
        STEPS_1X1.numerics, program_limits(STEPS_1X1), memory_bytes=MEMORY_BYTES, seed=1
    )
    golden.memory.write(0, memory)
    rtl.memory[:] = memory
    wanted, found = golden.run_at(COMMANDS, count), rtl.run_at(COMMANDS, count, limit=100_000)
    assert (wanted.error, wanted.index) == (error, 2 if error else 0)
    assert (found.error, found.index) == (wanted.error, wanted.index)
    assert np.array_equal(rtl.memory, golden.memory.read(0, MEMORY_BYTES))
    if error:
        assert np.array_equal(rtl.memory, memory)


@pytest.mark.parametrize("before", [0, 1], ids=["even", "odd"])
@pytest.mark.parametrize("output", [F32, IMAGE], ids=["floats", "image"])
def test_a_write_that_memory_refuses_is_the_chain_s(output, before, rtl):
    """Whoever writes for it; with as many commands before it."""
    memory, count = written((MOVE,), {4: output}, CHAIN)
    whole = memory[COMMANDS : COMMANDS + count * COMMAND_BYTES].reshape(count, COMMAND_BYTES)
    commands = np.concatenate([whole[:1]] * before + [whole])
    memory[COMMANDS : COMMANDS + commands.size] = commands.reshape(-1)
    rtl.memory[:] = memory
    rtl.machine.fail_writes((OUT, OUT + 0x1000))
    try:
        found = rtl.run_at(COMMANDS, len(commands), limit=100_000)
    finally:
        rtl.machine.fail_writes()
    assert (found.error, found.index) == (ErrorCode.WRITE_RESPONSE, 2 + before)
    assert np.array_equal(rtl.memory, memory)
