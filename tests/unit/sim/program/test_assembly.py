"""Text of programs: what each line means, the way back, and the texts of errors."""

from dataclasses import replace

import pytest

from diastole_sim.program.assembly import AssemblyError, TextProblem, assemble, disassemble
from diastole_sim.spec.micro import FIELDS, Instruction, MicroOp, Source, When
from support.golden_scenes import instructions
from support.random_programs import random_scene

ADD, MAX, MOV = MicroOp.ADD, MicroOp.MAX, MicroOp.MOV
LINES = {
    "r0 = add s0 s1": Instruction(op=ADD, a=Source.S0, c=Source.S1, d=0),
    "r15 = add r2 r3": Instruction(op=ADD, a=2, c=3, d=15),
    "mul 0 1 -> o3": Instruction(op=MicroOp.MUL, a=Source.ZERO, b=Source.ONE, o=3),
    "r1 = mad -s3 -column -row": Instruction(
        op=MicroOp.MAD,
        a=Source.S3,
        b=Source.COLUMN,
        c=Source.ROW,
        d=1,
        negate_a=1,
        negate_b=1,
        negate_c=1,
    ),
    "r1 = sel r2 r3 -r4->o0": Instruction(op=MicroOp.SEL, a=3, b=2, c=4, d=1, o=0, negate_c=1),
    "r1 = max K[5] K[5]": Instruction(op=MAX, a=Source.CONSTANT, c=Source.CONSTANT, d=1, k=5),
    "r1 = gt inside -K[-lr/2]": Instruction(
        op=MicroOp.GT, a=Source.INSIDE, c=Source.CONSTANT, d=1, negate_c=1, k=200
    ),
    "r3 = min r1 r2 turn lanes 2 turn rows 1 keep fresh when not last": Instruction(
        op=MicroOp.MIN,
        a=1,
        c=2,
        d=3,
        turn_lanes=2,
        turn_rows=1,
        keep=1,
        fresh=1,
        when=When.NOT_LAST,
    ),
    "r3 = eq r1 r2 when first": Instruction(op=MicroOp.EQ, a=1, c=2, d=3, when=When.FIRST),
    "r3 = lgg -r1 when last": Instruction(op=MicroOp.LGG, a=1, d=3, when=When.LAST, negate_a=1),
    "nop": Instruction(),
}


def without_idle_constant(it):
    """Without a constant's number where no operand is one: the judge ignores it."""
    return it if Source.CONSTANT in it.sources.values() else replace(it, k=0)


def rules(text, **options):
    """What is wrong with a text."""
    with pytest.raises(AssemblyError) as caught:
        assemble(text, {"-lr/2": 200}, **{"block": 4} | options)
    return caught.value.problems


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_an_instruction(line):
    assert assemble(line, {"-lr/2": 200}, block=4) == (LINES[line],)


def test_comments_and_empty_lines():
    text = "# sums\n\n  r0 = mov s0 # a row\n#r1 = mov s0\nr1 = add r0 r0 -> o2\n"
    program = assemble(text, block=1)
    assert [it.op for it in program] == [MOV, ADD]
    assert [it.o for it in program] == [7, 2]


@pytest.mark.parametrize("block", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("axis", ["lanes", "rows"])
def test_turned(axis, block):
    amounts = range(block.bit_length() - 1, 0, -1)
    written = [7] * (len(amounts) - 1) + [1]
    expected = [
        Instruction(op=MAX, a=2, c=2, d=2, when=When.LAST, o=o, **{f"turn_{axis}": amount})
        for amount, o in zip(amounts, written, strict=len(amounts) > 0)
    ]
    found = assemble(f"r2 = mov 0\nturned max r2 {axis} when last -> o1", block=block)[1:]
    alone = (Instruction(op=MOV, a=2, o=1, when=When.LAST),)
    assert found == (tuple(expected) or alone)
    assert len(assemble(f"r2 = mov 0\nturned max r2 {axis}", block=block)) == 1 + len(expected)


@pytest.mark.parametrize("block", [1, 2, 8, 16])
@pytest.mark.sampled(2)
def test_random_programs_come_back(block, rng):
    seen = set()
    for _ in range(60):
        program = tuple(map(without_idle_constant, instructions(random_scene(rng, block).words)))
        text = disassemble(program)
        assert assemble(text, block=block) == program
        assert disassemble(assemble(text, block=block)) == text
        seen |= {(field.name, getattr(it, field.name)) for it in program for field in FIELDS}
    assert {("op", op) for op in MicroOp} <= seen
    assert {("when", when) for when in When} <= seen


def test_names_of_constants():
    program = (Instruction(op=MOV, a=Source.CONSTANT, k=7, d=1),)
    assert disassemble(program, {7: "rate"}) == "r1 = mov K[rate]\n"
    assert disassemble(program, {8: "rate"}) == "r1 = mov K[7]\n"


OPERATIONS = ", ".join(op.name.lower() for op in MicroOp)


@pytest.mark.parametrize(
    "line, rule",
    [
        ("r16 = add r0 r0", "there is no r16, only r0 to r15"),
        ("r31 = add r0 r0", "there is no r31, only r0 to r15"),
        ("s0 = add r0 r0", "the result is not a register: s0"),
        ("r0 =", "the line ends where an operation is expected"),
        ("r0 = sub r0 r0", f"there is no operation sub, only {OPERATIONS}"),
        ("r0 = add r0", "the line ends where operand c of add is expected"),
        ("r0 = sel r0 -> o0", "-> is written where operand a of sel is expected"),
        ("r0 = add r0 r1 r2", "r2 is not a flag, and the operation takes no further operand"),
        ("r0 = add s4 r1", "there is no s4, only s0 to s3"),
        (
            "r0 = add o1 r1",
            "operand a of add is neither a register, an input, a constant nor a number: o1",
        ),
        (
            "r0 = add 2 r1",
            "operand a of add is neither a register, an input, a constant nor a number: 2",
        ),
        (
            "r0 = mov --r1",
            "operand a of mov is neither a register, an input, a constant nor a number: -r1",
        ),
        ("r0 = mov K[rate]", "no constant has the name rate"),
        ("r0 = mov K[256]", "there is no constant 256, only 0 to 255"),
        (
            "r0 = add K[1] K[2]",
            (
                "an instruction reads at most one constant; copy another constant to a "
                "register with `mov`"
            ),
        ),
        ("r0 = mov r1 -> o4", "there is no o4, only o0 to o3"),
        ("r0 = mov r1 -> o7", "there is no o7, only o0 to o3"),
        ("r0 = mov r1 -> r7", "the target after -> is not an output: r7"),
        ("r0 = mov r1 ->", "the line ends where an output is expected"),
        ("mov r1 -> o0 -> o1", "output is written twice"),
        ("r0 = add r1 r1 keep keep", "keep is written twice"),
        ("r0 = add r1 r1 turn rows 1 turn rows 1", "turn rows is written twice"),
        ("r0 = add r1 r1 turn 1", "`turn` and `turned` work on lanes or rows, not on 1"),
        ("r0 = add r1 r1 turn lanes 0", "the amount of a `turn` must be at least 1, not 0"),
        ("r0 = add r1 r1 turn lanes x", "the amount of a `turn` must be at least 1, not x"),
        ("r0 = add r1 r1 turn lanes 9", "turn_lanes must be an integer in 0..7, not 9"),
        ("r0 = add r1 r1 when not first", "first, last or not last must follow `when`"),
        (
            "turned mov r1 rows",
            "`turned` needs an operation with the operands a and c only, not mov",
        ),
        ("turned add s1 rows", "the operand of `turned` is not a register: s1"),
        ("turned add r1 up", "`turn` and `turned` work on lanes or rows, not on up"),
        ("turned add r1 rows keep", "`turned` takes only the flag `when` and an output"),
        # Those of the machine, by its own rules.
        ("r0 = mov r1 keep", "mov has no operand c for keep"),
        ("r0 = add r1 r1 turn lanes 3", "turn lanes must be at most log2 B = 2, not 3"),
        ("r0 = add r1 1 turn rows 1", "only the rows of a register can be turned"),
        ("exp r1", "exp writes no register"),
        ("r0 = exp s0", "the operand of exp is not a register"),
        ("r0 = exp r0 -> o0", "exp writes no stream"),
    ],
)
def test_texts_of_errors(line, rule):
    expected = TextProblem(line=2, text=line, rule=rule)
    assert rules(f"nop\n  {line} # why") == (TextProblem(line=2, text=f"{line} # why", rule=rule),)
    assert str(expected) == f"line 2: {rule}: {line}"


def test_all_that_is_wrong_is_said():
    text = "r0 = mov q\nr1 = mov r0\nr2 = add r1"
    with pytest.raises(AssemblyError) as caught:
        assemble(text, block=4)
    assert str(caught.value) == (
        "line 1: operand a of mov is neither a register, an input, a constant nor a "
        "number: q: r0 = mov q\nline 3: the line ends where operand c of add is expected: "
        "r2 = add r1"
    )


def test_rules_of_the_whole_program():
    assert [str(each) for each in rules("# nothing")] == [
        "the program has 0 instructions, not 1 to 32"
    ]
    assert [each.rule for each in rules("turned add r0 rows\n" * 17)] == [
        "has 34 instructions, not 1 to 32"
    ]
    text = "r0 = mov r1 -> o0 when last"
    assert [each.rule for each in rules(text, always_written=[0])] == [
        "must write output stream 0 exactly once in every block"
    ]
    problems = rules("nop\nr0 = add s0 s1", panels=[0, 1])
    assert [str(each) for each in problems] == [
        "line 2: an instruction reads at most one stream of the panel, not two: r0 = add s0 s1"
    ]
    assert assemble("r0 = add s0 s1", block=4, panels=[1])


def test_errors_of_expanded_lines_name_the_line():
    (problem,) = rules("nop\nturned add r0 rows\nr0 = exp 1\n")
    assert (problem.line, problem.text) == (3, "r0 = exp 1")
