"""Chains whose tables break a rule, by what their commands name of them."""

from dataclasses import replace

import pytest

from diastole_sim.spec.chains import chain_faults, named_streams, walk_of
from diastole_sim.spec.command import Command, ProgramPlace
from diastole_sim.spec.command_check import decode
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.limits import Limits, VectorLimits
from diastole_sim.spec.micro import Instruction, MicroOp, Source, When
from diastole_sim.spec.nest import Nest, NestLimits, ProductNests
from diastole_sim.spec.patches import PatchLimits
from diastole_sim.spec.stream_table import Descriptor, Kind, PanelOrder, Walk

SIDES = {"chunk_side": 1, "lane_side": 2, "pass_blocks": 1}
NESTS = NestLimits(
    t_blocks=(1, 2, 4, 8, 16, 32), groups=(1, 2, 4, 8, 16), chunk=(1,), stream_blocks=4096,
    stationary_blocks=4096, **SIDES,
)  # fmt: skip
LIMITS = Limits(
    block=4,
    headroom=16,
    data_width=64,
    nests=ProductNests(forward=NESTS, dx=NESTS, dw=NESTS),
    vector=VectorLimits(panel_vectors=64, fed=(2**24 - 1, 64, 0)),
)
FIRST, STREAMS = 40, 56
ADD = Instruction(op=MicroOp.ADD, a=Source.S0, c=Source.S1, d=0)
GIVE = Instruction(op=MicroOp.MOV, a=0, o=0)
PLACE = ProgramPlace(first=FIRST, length=2, streams=STREAMS)
CHAIN = Command.chain(PLACE, m=13, n=9)
F32 = Descriptor(kind=Kind.F32, pitch=64)
RESULT = Descriptor(kind=Kind.PRODUCT)
BAD = Descriptor(kind=Kind.F32, address=4, pitch=64)


def product(opcode=Opcode.FORWARD_CHAIN, *, m=13, n=9, k=5, **nest):
    names = {
        Opcode.FORWARD_CHAIN: ("address_x", "address_w"),
        Opcode.DX_CHAIN: ("address_w", "address_dy"),
        Opcode.DW_CHAIN: ("address_x", "address_dy"),
    }[opcode]
    shape = {"m": m, "n": n, "k": k, "nest": Nest(**nest)}
    made = Command.chained(opcode, PLACE, **shape, **dict.fromkeys(names, 0))
    assert decode(made.encode(), LIMITS) == made
    return made


def found(
    command=CHAIN, program=(ADD, GIVE), *, inputs=None, outputs=(F32,), others=None, limits=LIMITS
):
    """Of tables that are broken wherever the command names nothing."""
    if inputs is None:
        inputs = (F32 if command.opcode == Opcode.CHAIN else RESULT), F32
    instructions = [Instruction(op=31)] * 256
    instructions[FIRST : FIRST + len(program)] = program
    descriptors = [BAD] * 128
    descriptors[STREAMS : STREAMS + len(inputs)] = inputs
    descriptors[STREAMS + 4 : STREAMS + 4 + len(outputs)] = outputs
    for slot, it in (others or {}).items():
        descriptors[slot] = it
    command = replace(command, program_length=len(program))
    return chain_faults(command, descriptors, instructions, limits)


def test_nothing_but_what_is_named_counts():
    assert found() == set()
    assert found(product()) == set()
    assert found(replace(CHAIN, streams=STREAMS + 1)) == {ErrorCode.BAD_STREAM}
    assert found(replace(CHAIN, program=FIRST + 1)) == {ErrorCode.BAD_PROGRAM}


@pytest.mark.parametrize("number", range(4))
def test_a_stream_is_bad_if_an_instruction_names_it(number):
    source = Source.S0 + number
    for place in ({"a": source, "b": 1}, {"a": 1, "b": source}):
        reads = Instruction(op=MicroOp.MUL, d=1, **place)
        inputs = [BAD] * 4
        assert found(program=[reads], inputs=inputs) == {ErrorCode.BAD_STREAM}
        inputs[number] = F32
        assert found(program=[reads], inputs=inputs) == set()
    writes = Instruction(op=MicroOp.MOV, a=0, o=number)
    outputs = [BAD] * 4
    assert found(program=[writes], outputs=outputs) == {ErrorCode.BAD_STREAM}
    outputs[number] = F32
    assert found(program=[writes], outputs=outputs) == set()


def test_an_operand_that_an_operation_does_not_have_names_nothing():
    stray = Instruction(op=MicroOp.MOV, a=0, c=Source.S0, d=1)
    assert named_streams([stray]) == ((), ())
    assert named_streams([stray, ADD, GIVE]) == ((0, 1), (0,))
    assert found(program=[stray], inputs=[BAD]) == {ErrorCode.BAD_PROGRAM}


def test_both_at_once():
    program = [replace(GIVE, when=When.LAST)]
    assert found(program=program) == {ErrorCode.BAD_PROGRAM}
    row = Descriptor(kind=Kind.ROW)
    assert found(program=program, outputs=[row]) == set()
    assert found(program=program, outputs=[BAD]) == {ErrorCode.BAD_STREAM, ErrorCode.BAD_PROGRAM}


def test_two_operands_of_the_panel():
    panel = Descriptor(kind=Kind.PANEL, aux=PanelOrder.BLOCK_ROW)
    assert found(inputs=[panel, F32]) == set()
    assert found(inputs=[panel, panel]) == {ErrorCode.BAD_PROGRAM}


def test_the_panel_holds_what_the_walk_needs():
    panel = Descriptor(kind=Kind.PANEL, aux=PanelOrder.BLOCK_ROW)
    for rows, wanted in ((64, set()), (65, {ErrorCode.BAD_STREAM})):
        assert found(Command.chain(PLACE, m=rows, n=1), inputs=[panel, F32]) == wanted


def test_gathered_rows_have_a_list():
    gathered = Descriptor(kind=Kind.GATHERED_F32, pitch=64, aux=7)
    assert found(inputs=[gathered, F32]) == {ErrorCode.BAD_STREAM}
    rows = {7: Descriptor(kind=Kind.LABELS)}
    assert found(inputs=[gathered, F32], others=rows) == set()
    beyond = replace(gathered, aux=128)
    assert found(inputs=[beyond, F32], others=rows) == {ErrorCode.BAD_STREAM}


def test_a_product_only_where_there_is_one():
    assert found(inputs=[RESULT, F32]) == {ErrorCode.BAD_STREAM}
    assert found(product(), inputs=[RESULT, F32]) == set()


def test_a_product_is_read():
    assert found(product(), inputs=[F32, RESULT]) == set()
    assert found(product(), inputs=[F32, F32]) == {ErrorCode.BAD_STREAM}
    assert found(product(), inputs=[F32, F32, RESULT]) == {ErrorCode.BAD_STREAM}


def test_vectors_of_columns_are_written_by_columns():
    column = Descriptor(kind=Kind.COLUMN)
    assert found(outputs=[column]) == {ErrorCode.BAD_STREAM}
    assert found(replace(CHAIN, columns=1), outputs=[column]) == set()
    assert found(product(), outputs=[column]) == {ErrorCode.BAD_STREAM}


@pytest.mark.parametrize(
    "opcode, shape",
    [(Opcode.FORWARD_CHAIN, (3, 5)), (Opcode.DX_CHAIN, (3, 7)), (Opcode.DW_CHAIN, (7, 5))],
)
def test_a_product_gives_its_result(opcode, shape):
    walk = walk_of(product(opcode, m=3, n=5, k=7), 4)
    assert walk == Walk(rows=shape[0], cols=shape[1], block=4)
    assert walk_of(replace(CHAIN, columns=1), 4) == Walk(rows=13, cols=9, block=4, by_columns=True)


ROW_SUMS = [ADD, replace(GIVE, when=When.LAST)]


@pytest.mark.parametrize("opcode, lanes", [(Opcode.FORWARD_CHAIN, "n"), (Opcode.DX_CHAIN, "k")])
@pytest.mark.parametrize("size, groups, bad", [(16, 2, False), (17, 2, True), (17, 4, False)])
def test_vectors_of_rows_need_whole_rows(opcode, lanes, size, groups, bad):
    """Tiles of 2 blocks, of 4 elements each, for every group; the machine's own are 32 blocks."""
    command = product(opcode, **{lanes: size}, groups=groups)
    row = [Descriptor(kind=Kind.ROW)]
    assert found(command, ROW_SUMS, outputs=row) == ({ErrorCode.BAD_STREAM} if bad else set())
    assert found(product(opcode, **{lanes: 128}), ROW_SUMS, outputs=row) == set()
    assert found(product(opcode, **{lanes: 129}), ROW_SUMS, outputs=row) == {ErrorCode.BAD_STREAM}


IMAGE = Descriptor(kind=Kind.IMAGE)


@pytest.mark.parametrize("groups, n, narrow", [(1, 9, True), (1, 8, False), (2, 9, False)])
def test_images_need_whole_rows(groups, n, narrow):
    command = product(m=13, n=n, groups=groups)
    assert found(command, outputs=(IMAGE,)) == ({ErrorCode.NEST} if narrow else set())
    assert found(command) == set()


PATCHES = replace(LIMITS.vector, patches=PatchLimits(tiles=((1, 4), (2, 4), (1, 4)), kept_rows=4))
IN_PATCHES = replace(LIMITS, vector=PATCHES, max_convert_cols=999)


@pytest.mark.parametrize(
    "cls, n, nest, error",
    [
        (0, 65, {"groups": 2}, None),  # tiles of 4 blocks
        (0, 65, {"groups": 1}, ErrorCode.NEST),
        (0, 65, {"groups": 4, "t_blocks": 4}, None),
        (1, 65, {"groups": 4, "t_blocks": 4}, ErrorCode.NEST),
        (1, 65, {"groups": 2, "t_blocks": 2}, None),  # wider than a tensor of whole rows may be
        (1, 65, {"groups": 2, "t_blocks": 1}, ErrorCode.NEST),
        (0, 65, {"groups": 2, "outer": "l"}, None),
        (0, 1000, {"groups": 2}, ErrorCode.BAD_STREAM),
        (2, 13, {"groups": 2}, ErrorCode.BAD_STREAM),  # whole rows
        (3, 65, {"groups": 2}, ErrorCode.NEST),
    ],
)
def test_images_in_patches(cls, n, nest, error):
    image = replace(IMAGE, tensor_class=cls)
    faults = found(product(m=13, n=n, **nest), outputs=(image,), limits=IN_PATCHES)
    assert min(faults, default=None) == error


@pytest.mark.parametrize(
    "cls, cols, bad", [(0, 999, False), (1, 64, False), (1, 65, True), (2, 1, True)]
)
def test_images_are_as_wide_as_the_converter_takes_them(cls, cols, bad):
    image = replace(IMAGE, tensor_class=cls)
    wanted = {ErrorCode.BAD_STREAM} if bad else set()
    assert found(Command.chain(PLACE, m=5, n=cols), outputs=(image,)) == wanted


def test_there_is_one_converter():
    program = (ADD, GIVE, replace(GIVE, o=1))
    assert found(program=program, outputs=(IMAGE, F32)) == set()
    assert found(program=program, outputs=(IMAGE, IMAGE)) == {ErrorCode.BAD_STREAM}


def test_an_image_of_no_class_is_a_bad_stream():
    image = [Descriptor(kind=Kind.IMAGE, tensor_class=3)]
    assert found(CHAIN, outputs=image) == {ErrorCode.BAD_STREAM}
