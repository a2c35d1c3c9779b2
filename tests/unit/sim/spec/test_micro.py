"""Micro-instructions: their bits, and every rule that a program can break."""

from dataclasses import replace

import pytest

from diastole_sim.spec.micro import (
    FIELDS,
    NEUTRAL,
    SPECIALS,
    USES,
    Instruction,
    MicroOp,
    Source,
    When,
    program_problems,
)

ADD = Instruction(op=MicroOp.ADD, a=Source.S0, c=3, d=4)


def test_fields_lie_side_by_side_from_bit_0_on():
    low = 0
    for field in FIELDS:
        assert field.low == low
        low += field.bits
    assert low == 49


def test_bits_are_where_the_definition_has_them():
    full = Instruction(
        op=8, a=1, b=2, c=3, d=4, o=5, negate_a=1, negate_c=1, turn_lanes=2, turn_rows=3, keep=1,
        when=2, k=0x81,
    )  # fmt: skip
    word = full.encode()
    assert word & 31 == 8
    assert [word >> low & 31 for low in (5, 10, 15, 20)] == [1, 2, 3, 4]
    assert [word >> low & 7 for low in (25, 28, 31, 34)] == [5, 0b101, 2, 3]
    assert [word >> low & 1 for low in (37, 38)] == [0, 1]
    assert word >> 39 & 3 == 2
    assert word >> 41 == 0x81
    assert Instruction.decode(word) == full


def test_bits_above_the_fields_are_kept_apart():
    word = ADD.encode() | 1 << 63
    assert Instruction.decode(word).rest == 1 << 63
    assert Instruction.decode(word).encode() == word


def test_every_operation_with_an_operand_c_has_a_neutral_element():
    assert set(NEUTRAL) == {op for op, uses in USES.items() if "c" in uses}
    assert len(SPECIALS) == 6


def test_a_nop_writes_nothing():
    assert Instruction.decode(0).output is None
    assert replace(ADD, o=3).output == 3
    program = [Instruction.decode(0), replace(ADD, o=0)]
    assert program_problems(program, block=8, always_written=[0]) == []


EXP = Instruction(op=MicroOp.EXP, a=1, d=2)


@pytest.mark.parametrize(
    "instruction",
    [
        ADD,
        EXP,
        Instruction(),
        replace(ADD, a=Source.CONSTANT, k=255, fresh=1, keep=1, turn_lanes=3, turn_rows=3),
        Instruction(op=MicroOp.SEL, b=Source.S1, a=Source.S0, c=Source.ZERO, o=0, when=When.LAST),
        Instruction(op=MicroOp.MUL, a=Source.S3, b=Source.S3, d=0),
        Instruction.decode(0),
        replace(ADD, negate_b=1, k=7),
    ],
)
def test_what_is_in_order(instruction):
    assert program_problems([instruction], block=8, panels=[3]) == []


@pytest.mark.parametrize(
    "instruction, text",
    [
        (Instruction(op=10), "there is no operation 10"),
        (replace(ADD, rest=1 << 49), "bits above the last field are not 0"),
        (replace(ADD, b=1), "add has no operand b"),
        (replace(ADD, a=26), "there is no source 26"),
        (Instruction(op=MicroOp.MOV, a=0, d=0, keep=1), "mov has no operand c for keep"),
        (
            Instruction(op=MicroOp.MUL, a=0, b=0, d=0, turn_lanes=1),
            "mul has no operand c for turn lanes",
        ),
        (replace(ADD, turn_lanes=4), "turn lanes must be at most log2 B = 3, not 4"),
        (replace(ADD, turn_rows=4), "turn rows must be at most log2 B = 3, not 4"),
        (replace(ADD, a=0, c=Source.S0, turn_rows=1), "only the rows of a register can be turned"),
        (replace(ADD, d=16), "there is no register 16"),
        (replace(ADD, o=4), "there is no output stream 4"),
        (replace(EXP, a=Source.S0), "the operand of exp is not a register"),
        (replace(EXP, o=1), "exp writes no stream"),
        (replace(EXP, d=31), "exp writes no register"),
        (
            replace(ADD, a=Source.S2, c=Source.S3),
            "an instruction reads at most one stream of the panel, not two",
        ),
    ],
)
def test_each_rule_of_one_instruction(instruction, text):
    found = program_problems([ADD, instruction], block=8, panels=[2, 3])
    assert found == [(1, text)]


FAR = Instruction(op=MicroOp.SEL, a=0, b=Source.S2, c=1, d=1, o=3, turn_rows=4)
"""A turn by 8 rows of the register that is written, with a panel and an output."""


@pytest.mark.parametrize(
    "change", [{"d": 2}, {"d": 31}, {"b": Source.S1}, {"o": 7}, {"turn_rows": 3}]
)
def test_a_far_turn_into_itself_is_refused_with_panel_and_output_alone(change):
    text = (
        "an instruction that turns register 1 by 8 rows or more into the same register "
        "cannot both read the panel and write a stream; take another register, or two "
        "instructions"
    )
    assert program_problems([FAR], block=16, panels=[2]) == [(0, text)]
    assert program_problems([replace(FAR, **change)], block=16, panels=[2]) == []


@pytest.mark.parametrize("count", [0, 33])
def test_a_program_has_1_to_32_instructions(count):
    found = program_problems([ADD] * count, block=8)
    assert found == [(None, f"has {count} instructions, not 1 to 32")]


@pytest.mark.parametrize(
    "whens, fine",
    [
        ([When.ALWAYS], True),
        ([When.LAST, When.NOT_LAST], True),
        ([], False),
        ([When.LAST], False),
        ([When.FIRST, When.NOT_LAST, When.LAST], False),
        ([When.ALWAYS, When.LAST], False),
        ([When.ALWAYS, When.ALWAYS], False),
    ],
)
def test_what_is_written_in_every_block_is_written_once(whens, fine):
    program = [replace(ADD, o=1, when=when) for when in whens] + [ADD]
    found = program_problems(program, block=8, always_written=[1])
    wanted = [(None, "must write output stream 1 exactly once in every block")]
    assert found == ([] if fine else wanted)
