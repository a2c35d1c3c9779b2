"""Micro-instructions apart and together, and every reason to refuse a program."""

import pytest

from oracle import vector_words as w
from oracle.vector_words import Instruction, decoded
from support.micro_programs import op, words

S0, S1, S2 = range(16, 19)


def test_fields_of_a_word():
    """Against the table of bits, one by one."""
    word = 8 | 17 << 5 | 3 << 10 | 26 << 15 | 31 << 20 | 2 << 25 | 0b101 << 28 | 3 << 31
    word |= 2 << 34 | 1 << 37 | 1 << 38 | 3 << 39 | 200 << 41 | 5 << 49
    each = Instruction(
        op=8, a=17, b=3, c=26, d=31, o=2, negate=5, turn_lanes=3, turn_rows=2, fresh=1, keep=1,
        when=3, k=200, rest=5,
    )  # fmt: skip
    assert decoded(word) == each
    assert each.word == word


GOOD = [op(w.MOV, S0, d=0), op(w.ADD, S1, 0, 0, o=0, turn_rows=1, turn_lanes=2, keep=1, fresh=1)]
KINDS = [w.KIND_PANEL, w.KIND_PANEL, w.KIND_F32, 0, w.KIND_F32, w.KIND_ROW, 0, w.KIND_PANEL]


@pytest.mark.parametrize(
    "more, want",
    [
        ([], []),
        ([op(w.ADD, S0, 0, S0, o=1)], []),
        ([op(w.ADD, S0, 0, S2, o=1)], []),
        ([op(w.MOV, 1, o=1, when=w.FIRST)], []),
        ([op(w.MOV, 1, o=3), op(w.MOV, 1, o=3)], []),
        ([op(w.ADD, S0, 0, S1, d=1)], ["instruction 2: two panels"]),
        ([op(10, d=0)], ["instruction 2: no operation 10"]),
        ([op(22, d=0)], ["instruction 2: no operation 22"]),
        ([op(w.MOV, 27, d=0)], ["instruction 2: no source 27"]),
        ([op(w.MOV, 1, 1, d=0)], ["instruction 2: b is not used"]),
        ([op(w.ADD, 1, 1, 1, d=0)], ["instruction 2: b is not used"]),
        ([op(w.MUL, 1, 1, 1, d=0)], ["instruction 2: c is not used"]),
        ([op(w.NOP, 1)], ["instruction 2: a is not used"]),
        ([op(w.MOV, 1, d=16)], ["instruction 2: no register 16"]),
        ([op(w.MOV, 1, d=30)], ["instruction 2: no register 30"]),
        ([op(w.MOV, 1, o=4)], ["instruction 2: no output 4"]),
        ([op(w.MOV, 1, rest=1)], ["instruction 2: bits beyond 48"]),
        ([op(w.MUL, 1, 1, d=0, turn_lanes=1)], ["instruction 2: turn_lanes without c"]),
        ([op(w.MOV, 1, d=0, fresh=1)], ["instruction 2: fresh without c"]),
        ([op(w.MOV, 1, d=0, keep=1)], ["instruction 2: keep without c"]),
        ([op(w.ADD, d=0, turn_lanes=3)], ["instruction 2: turn 3 beyond a block of 4"]),
        ([op(w.ADD, d=0, turn_rows=7)], ["instruction 2: turn 7 beyond a block of 4"]),
        ([op(w.ADD, c=S0, d=0, turn_rows=1)], ["instruction 2: turn_rows of no register"]),
        ([op(w.ADD, c=w.UNIT, d=0, turn_rows=1)], ["instruction 2: turn_rows of no register"]),
        ([op(w.EXP, S0, d=0)], ["instruction 2: special of no register"]),
        ([op(w.RCP, 1, d=0, o=1)], ["instruction 2: special with an output"]),
        ([op(w.LGG, 1)], ["instruction 2: special without a register for its result"]),
        ([op(w.MOV, 1, o=0)], ["output 0, of kind 2: not once in every block"]),
        ([op(w.MOV, 1, o=0, when=w.LAST)], ["output 0, of kind 2: not once in every block"]),
    ],
)
def test_bad_programs(more, want):
    assert w.problems(words(*GOOD, *more), 4, KINDS) == want


@pytest.mark.parametrize(
    "whens, good",
    [
        ((0,), True), ((1, 3), True), ((3, 1), True), ((1,), False), ((2,), False), ((3,), False),
        ((1, 2), False), ((2, 3), False), ((1, 2, 3), False), ((0, 0), False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", range(2, 14))
@pytest.mark.sampled(4)
def test_whole_outputs_are_written_once(whens, good, kind):
    program = words(*[op(w.MOV, 0, o=2, when=when) for when in whens])
    found = w.problems(program, 2, [0, 0, 0, 0, 0, 0, kind, 0])
    assert (not found) == (good or kind not in (2, 3, 4, 5, 12))


@pytest.mark.parametrize("length, good", [(0, False), (1, True), (32, True), (33, False)])
def test_length(length, good):
    assert (not w.problems(words(*[op(w.MOV, d=0)] * length), 1, [0] * 8)) == good
