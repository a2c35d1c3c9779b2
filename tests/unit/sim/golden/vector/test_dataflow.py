"""What a dataflow makes at once. That it is right, the tests of chains show."""

import numpy as np

from diastole_sim.golden.vector.dataflow import as_slice, trace_dataflow
from diastole_sim.golden.vector.order import Order
from diastole_sim.spec.micro import Instruction, MicroOp, Source, When
from diastole_sim.spec.stream_table import Descriptor, Kind, PanelOrder, Walk

ORDER = Order.of_walk(Walk(rows=20, cols=28, block=4))
"""5 x 7 blocks."""


def counts(program, inputs=None, outputs=None):
    """Of each step, its instruction and in how many blocks it is."""
    dataflow = trace_dataflow(program, ORDER, inputs or {}, outputs or {})
    assert dataflow is not None
    return [(step.instruction, step.count) for step in dataflow.steps]


def test_what_is_not_carried_is_made_at_once():
    program = [
        Instruction(op=MicroOp.MUL, a=Source.S0, b=Source.CONSTANT, d=0),
        Instruction(op=MicroOp.EXP, a=0, d=0),
        Instruction(op=MicroOp.NOP),
        Instruction(op=MicroOp.ADD, a=0, c=Source.ONE, d=1, o=0, when=When.NOT_LAST),
    ]
    assert counts(program) == [(0, 35), (1, 35), (3, 30)]


def test_sums_over_rows_take_all_lines_at_once():
    program = [
        Instruction(op=MicroOp.ADD, a=Source.S0, c=1, d=1, fresh=1),
        Instruction(op=MicroOp.MUL, a=Source.S0, b=Source.S0, d=2, o=0),
        Instruction(op=MicroOp.ADD, a=1, c=1, d=1, when=When.LAST, turn_lanes=1),
    ]
    steps = counts(program)
    assert sorted(steps) == [(0, 5)] * 7 + [(1, 35), (2, 5)]


def test_what_a_line_begins_with_goes_to_all_its_blocks_at_once():
    program = [
        Instruction(op=MicroOp.MOV, a=Source.S1, d=1, when=When.FIRST),
        Instruction(op=MicroOp.ADD, a=Source.S0, c=1, o=0),
    ]
    assert counts(program) == [(0, 5), (1, 35)]


def test_sums_over_columns_in_the_panel_take_a_row_of_blocks_at_once():
    program = [Instruction(op=MicroOp.ADD, a=Source.S0, c=Source.S1, d=0, o=2)]
    panel = {"kind": Kind.PANEL, "address": 3}
    zero_first = Descriptor(**panel, aux=PanelOrder.BLOCK_COLUMN_ZERO_FIRST)
    sums = Descriptor(**panel, aux=PanelOrder.BLOCK_COLUMN)
    assert counts(program, {1: zero_first}, {2: sums}) == [(0, 7)] * 5


def test_a_register_that_goes_from_line_to_line_makes_it_one_by_one():
    program = [Instruction(op=MicroOp.ADD, a=Source.S0, c=1, d=1)]
    assert counts(program) == [(0, 1)] * 35


def test_straddling_panels_cannot_be_followed():
    panels = {number: Descriptor(kind=Kind.PANEL, address=number) for number in range(2)}
    assert trace_dataflow([Instruction()], ORDER, panels, {}) is None


def test_slices():
    for numbers, expected in (
        ([], slice(0, 0)),
        ([4], slice(4, 5, 1)),
        ([1, 4, 7], slice(1, 8, 3)),
    ):
        assert as_slice(np.array(numbers, dtype=np.int64)) == expected
    for numbers in ([1, 2, 4], [3, 2, 1], [5, 5]):
        assert as_slice(np.array(numbers)).tolist() == numbers
