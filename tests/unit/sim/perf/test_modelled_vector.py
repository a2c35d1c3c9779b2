"""Sizes of a vector unit, and the blocks of a walk."""

import pytest

from diastole_hw.vector.core.timing import permuted_cycles, special_cycles
from diastole_hw.vector.stream_layouts import VectorShape
from diastole_sim.spec.micro import Instruction, MicroOp, When
from support.vector_model import modelled_vector, move, task_of


@pytest.mark.parametrize("block", [1, 2, 4, 8, 16, 32])
def test_times_are_those_of_the_hardware(block):
    specials = 1
    while specials <= block:
        vector = modelled_vector(block=block, specials=specials)
        shape = VectorShape(block=block, data_width=128, specials=specials, panel_vectors=64)
        assert vector.special_cycles == special_cycles(shape)
        assert vector.permuted_cycles == permuted_cycles(shape)
        assert vector.slot == shape.slot_cycles
        specials *= 2


def test_beats_of_a_row():
    vector = modelled_vector()
    assert [vector.beats(cols, 32) for cols in (1, 4, 5, 8)] == [1, 1, 2, 2]
    assert [vector.beats(cols, 8) for cols in (1, 8)] == [1, 1]
    assert modelled_vector(data_width=32).beats(8, 32) == 8


def test_blocks_in_their_order():
    rows = list(task_of([move()], rows=9, cols=20).blocks())
    assert [(each.i, each.j) for each in rows] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert [each.first for each in rows] == [True, False, False] * 2
    assert [each.last for each in rows] == [False, False, True] * 2
    assert (rows[-1].rows, rows[-1].cols, rows[-1].end) == (1, 4, True)
    columns = list(task_of([move()], rows=9, cols=20, by_columns=True).blocks())
    assert [(each.i, each.j) for each in columns[:3]] == [(0, 0), (1, 0), (0, 1)]
    assert [each.last for each in columns[:2]] == [False, True]


@pytest.mark.parametrize(
    "when, done",
    [
        (When.ALWAYS, [True, True, True]),
        (When.FIRST, [True, False, False]),
        (When.LAST, [False, False, True]),
        (When.NOT_LAST, [True, True, False]),
    ],
)
def test_when_an_instruction_is_done(when, done):
    blocks = task_of([move()], rows=8, cols=24).blocks()
    instruction = Instruction(op=MicroOp.MOV, when=when)
    assert [block.does(instruction) for block in blocks] == done
