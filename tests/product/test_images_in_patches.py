"""Images at the drains of products whose tiles do not hold whole rows: the generated machine beside
the golden one, which converts the result as a whole."""

import numpy as np
import pytest

from diastole.backend import cached_product, program_limits
from diastole_sim.golden.golden_machine import GoldenMachine
from diastole_sim.host.vector_machine import VectorMachine
from diastole_sim.machines.verilator.simulation import Simulation
from diastole_sim.machines.verilator.verilator_machine import VerilatorMachine
from diastole_sim.spec.command import Command, ProgramPlace
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import CHAINED
from diastole_sim.spec.limits import VectorTable
from diastole_sim.spec.micro import Instruction, MicroOp, Source
from diastole_sim.spec.nest import OUTER, Nest
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.stream_table import Descriptor, Kind
from support.products import DRAWN, STEPS_1X1, grouped, machine
from support.sweep import sweep

MEMORY_BYTES = 1 << 18
COMMANDS, INSTRUCTIONS, STREAMS, VALUES = 0x0, 0x1000, 0x1800, 0x2000
SLOTS = 0x1C00
SLOT_WORDS = 24
OPERANDS, SECOND, IMAGE, TURNED = (0x10000, 0x14000), (0x12000, 0x16000), 0x20000, 0x30000
MOVE = Instruction(op=MicroOp.MOV, a=Source.S0, o=0)
PLACE = ProgramPlace(first=0, length=1, streams=0)
VECTOR = {"vector": {"enable": True, "panel_kib": 16}}
DELAYED = {"scale": {"source": "delayed"}}
CONFIGS = {
    "squares": STEPS_1X1,
    "vectors": machine("patches_1x16", "bfp4", rows=2, side=2, **grouped("1x16"), **VECTOR),
    "delayed": machine("patches_fp8", "fp8_e4m3", side=2, **DELAYED, **VECTOR),
    "large squares": machine("patches_16x16", "bfp4", **grouped("16x16"), **VECTOR),
    "nvfp4": machine("patches_nvfp4", "nvfp4", rows=2, **DELAYED, **VECTOR),
    "mxfp4": machine("patches_mxfp4", "mxfp4_e2m1", cols=2, data_width=128, **VECTOR),
    "planes": machine("patches_fast", "fast", cols=2, **VECTOR),
    "esru": machine("patches_esru", "bfp4", **DRAWN, **VECTOR),
    "nano": machine("patches_8", "bfp4", cols=2, side=8, data_width=128, **VECTOR),
}
ALWAYS = ("squares",)


def commands_of(config, opcode, sizes, nest):
    """Both operands converted, then their product with an image at its drain."""
    yield Command.load(VectorTable.AMAX, address=SLOTS, first=0, count=SLOT_WORDS)
    where = {}
    for number, read in enumerate(CHAINED[opcode].reads):
        operand = read.operand
        two = config.numerics.tensor_class(operand.tensor_class).two_copies
        yield Command.convert(
            operand.tensor_class,
            rows=sizes[operand.rows],
            cols=sizes[operand.columns],
            source=VALUES + 0x4000 * number,
            destination=OPERANDS[number],
            second=SECOND[number] if two else 0,
            tag=number,
            step=0,
        )
        where[read.field] = (SECOND if two and read.copy else OPERANDS)[number]
    yield Command.load(VectorTable.INSTRUCTIONS, address=INSTRUCTIONS, first=0, count=1)
    yield Command.load(VectorTable.DESCRIPTORS, address=STREAMS, first=0, count=8)
    yield Command.chained(opcode, PLACE, **sizes, **where, nest=nest)
    yield Command.store(VectorTable.AMAX, address=SLOTS, first=0, count=SLOT_WORDS)


def memory_of(commands, image, rng):
    memory = np.full(MEMORY_BYTES, 0xA5, np.uint8)
    values = rng.standard_normal(0x8000 // 4).astype(np.float32)
    kept = np.exp2(rng.uniform(-3, 6, SLOT_WORDS)).astype(np.float32)
    kept[::3] *= rng.integers(0, 2, len(kept[::3]))  # some of them none
    slots = [Descriptor(kind=Kind.PRODUCT), *[Descriptor()] * 7]
    slots[4] = image
    for address, data in (
        (VALUES, values.tobytes()),
        (SLOTS, kept.tobytes()),
        (INSTRUCTIONS, MOVE.encode().to_bytes(8, "little")),
        (STREAMS, b"".join(slot.encode() for slot in slots)),
        (COMMANDS, b"".join(each.encode() for each in commands)),
    ):
        memory[address : address + len(data)] = np.frombuffer(data, np.uint8)
    return memory


@pytest.fixture(scope="module")
def machines():
    """By name, as they are asked for."""
    made = {}

    def the_machine(name):
        if name not in made:
            program = cached_product(CONFIGS[name])
            simulation = Simulation(memory_base=0, memory_bytes=MEMORY_BYTES)
            made[name] = VectorMachine(VerilatorMachine(program, simulation), seed=1)
        return made[name]

    yield the_machine
    for each in made.values():
        each.close()


def sizes_of(opcode, rng):
    """Of a result of many columns and some rows, by the names of a product."""
    (product,) = CHAINED[opcode].products
    rows, cols = product.result.axes
    sizes = dict.fromkeys("mnk", rng.randrange(1, 12))
    return sizes | {rows: rng.randrange(1, 80), cols: rng.randrange(60, 140)}


def a_nest(limits, rng):
    """Often with tiles of eight blocks, as all converters of this test have them."""
    wide = [groups for groups in limits.groups if groups * limits.lane_side == 8]
    groups = rng.choice(wide if rng.random() < 0.7 else limits.groups)
    return Nest(t_blocks=rng.choice(limits.t_blocks), groups=groups, outer=rng.choice(OUTER))


def outcomes(name, opcode, cls, rng, machines):
    """Of the same commands, of both machines; what they leave is compared."""
    config = CONFIGS[name]
    limits = program_limits(config)
    slot = rng.choice([0, 3])
    image = Descriptor(
        kind=Kind.IMAGE,
        address=IMAGE,
        offset=TURNED - IMAGE,
        pitch=7,
        tensor_class=cls,
        aux=slot,
    )
    nest = a_nest(limits.nests.of(CHAINED[opcode].name), rng)
    commands = list(commands_of(config, opcode, sizes_of(opcode, rng), nest))
    memory = memory_of(commands, image, np.random.default_rng(rng.getrandbits(32)))
    golden = GoldenMachine(config.numerics, limits, memory_bytes=MEMORY_BYTES, seed=1)
    golden.memory.write(0, memory)
    rtl = machines(name)
    rtl.memory[:] = memory
    wanted = golden.run_at(COMMANDS, len(commands))
    found = rtl.run_at(COMMANDS, len(commands), limit=400_000)
    where = f"{CHAINED[opcode].name}, class {cls}, {nest}, {commands[-2]}"
    assert (found.error, found.index) == (wanted.error, wanted.index), where
    differ = np.flatnonzero(rtl.memory != golden.memory.read(0, MEMORY_BYTES))
    assert not differ.size, f"{where}: from {differ[0]:#x} on"
    return wanted.error


@pytest.mark.parametrize("name", [name if name in ALWAYS else sweep(name) for name in CONFIGS])
def test_images(name, machines, rng):
    """Of every product, in every class, in nests of which some are patches, and some are not."""
    errors = [
        outcomes(name, opcode, cls, rng, machines)
        for opcode in CHAINED
        for cls in range(len(CLASS_NAMES))
        for _ in range(4)
    ]
    whole = program_limits(CONFIGS[name]).vector.patches is None
    assert set(errors) == {ErrorCode.NEST} | (set() if whole else {ErrorCode.NONE})
