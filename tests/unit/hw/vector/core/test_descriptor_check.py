"""Rules of one instruction and of one descriptor in gates, against the contract's."""

from dataclasses import replace

import pytest

from diastole_hw.vector.core.descriptor_check import (
    DescriptorCheck,
    InstructionCheck,
    descriptor_layout,
    instruction_layout,
)
from diastole_sim.spec.micro import Instruction, MicroOp, program_problems
from diastole_sim.spec.sizes.vector_shape import VectorShape
from diastole_sim.spec.stream_table import Descriptor, Kind, StreamLimits, Walk, stream_problems
from support.bench import simulation

SHAPE = VectorShape(block=4, data_width=64, specials=1, panel_vectors=2**17)
LIMITS = StreamLimits(data_width=64, panel_vectors=2**17)
CHOICES = (True, False, True)


def test_layouts_have_the_bits_of_the_contract(rng):
    word = rng.getrandbits(64)
    view = instruction_layout().from_bits(word)
    it = Instruction.decode(word)
    assert [view[name] for name in ("op", "a", "c", "d", "o", "k", "when")] == [
        it.op, it.a, it.c, it.d, it.o, it.k, it.when,
    ]  # fmt: skip
    assert view.rest == it.rest >> 49
    bits = rng.getrandbits(128)
    view = descriptor_layout().from_bits(bits)
    stream = Descriptor.decode(bits.to_bytes(16, "little"))
    for name in ("kind", "address", "tensor_class", "watch", "aux", "pitch", "offset", "per_step"):
        assert view[name] == getattr(stream, name)
    assert view.rest == bits >> 56 & 255
    view = descriptor_layout(choices=True).from_bits(bits)
    assert (view.by_slot, view.decides) == (stream.by_slot, stream.decides)
    assert view.rest == stream.rest >> 56


def far_turn(rng):
    """An instruction that turns a register far, or nearly so, often into itself."""
    c = rng.randrange(3)
    return Instruction(
        op=rng.choice((MicroOp.ADD, MicroOp.MAD, MicroOp.MOV)), a=rng.choice((0, 16, 17)), c=c,
        d=rng.choice((c, 5, 31)), o=rng.choice((0, 7)), turn_rows=rng.randrange(3, 6),
    )  # fmt: skip


@pytest.mark.parametrize("block", [4, 16])
async def test_instructions(block, rng):
    dut = InstructionCheck(block=block)
    words = [rng.getrandbits(64) & (1 << 49) - 1 for _ in range(1500)]
    words += [far_turn(rng).encode() for _ in range(500)]
    words += [Instruction(op=op).encode() ^ 1 << bit for op in MicroOp for bit in range(64)]
    ctx = await simulation(dut)
    for word in words:
        panels = rng.randrange(16)
        ctx.set(dut.word.as_value(), word)
        ctx.set(dut.panels, panels)
        it = Instruction.decode(word)
        mine = [n for n in range(4) if panels >> n & 1]
        assert ctx.get(dut.bad) == bool(program_problems([it], block=block, panels=mine)), it
        wanted = 0 if it.output is None else 1 << it.output
        assert ctx.get(dut.outputs) == wanted
        assert ctx.get(dut.inputs) == sum(1 << n for n in range(4) if 16 + n in it.sources.values())


@pytest.mark.parametrize("output", [False, True], ids=["input", "output"])
@pytest.mark.parametrize("by_columns", [0, 1])
@pytest.mark.parametrize("decides", [False, True])
@pytest.mark.parametrize("draws", [False, True])
@pytest.mark.sampled(4)
async def test_descriptors(output, by_columns, decides, draws, rng):
    choices = CHOICES if decides else (False, False, False)
    dut = DescriptorCheck(replace(SHAPE, choices=choices, draws=draws))
    limits = replace(LIMITS, choices=choices, draws=draws)
    walk = Walk(rows=4, cols=4, block=4, by_columns=bool(by_columns))
    good = [Descriptor(kind=kind).encode() for kind in Kind]
    words = [int.from_bytes(each, "little") for each in good]
    words += [word ^ 1 << bit for word in words for bit in range(128)]
    slotted = Descriptor(kind=Kind.IMAGE, aux=7, by_slot=1)
    images = [replace(slotted, tensor_class=cls, decides=int(cls == 2)) for cls in range(4)]
    words += [int.from_bytes(each.encode(), "little") for each in images]
    words += [word | rng.getrandbits(128) & rng.getrandbits(128) for word in words]
    ctx = await simulation(dut)
    ctx.set(dut.as_output, output)
    ctx.set(dut.by_columns, by_columns)
    for word in words:
        stream = Descriptor.decode(word.to_bytes(16, "little"))
        if stream.kind in (Kind.PANEL, Kind.GATHERED_F32, Kind.GATHERED_U8):
            continue  # of which more is to be known
        ctx.set(dut.word.as_value(), word)
        of_product = rng.randrange(2)
        ctx.set(dut.of_product, of_product)
        found = stream_problems(stream, walk, limits, output=output, of_product=bool(of_product))
        assert ctx.get(dut.bad) == bool(found), stream
