"""Blocks of a chain's inputs, by hand: a memory of 25 cycles, beats of 4 numbers."""

from diastole_sim.perf import Memory
from diastole_sim.perf.chain_inputs import ChainInputs, SegmentTimes
from diastole_sim.spec.stream_table import Descriptor, Kind
from support.vector_model import modelled_vector, move, task_of


def inputs_of(*kinds, rows=64, cols=64, **options):
    task = task_of([move()], inputs=kinds, rows=rows, cols=cols, **options)
    return ChainInputs(modelled_vector(), task, 0), list(task.blocks())


def test_a_block_is_located_while_the_one_before_is_asked_for():
    segments = SegmentTimes()
    assert segments.begin(0, 0) == 2
    segments.last = 9  # eight rows
    assert segments.begin(3, 8) == 10
    segments.last = 11
    assert segments.begin(3, 1 << 20) == 9 + 1 + 3 + 1  # three digits of eight bits


def test_beats_of_a_float_tensor_follow_each_other():
    inputs, blocks = inputs_of(Kind.F32)
    assert inputs.block(blocks[0]) == {0: 2 + 25 + 15 + 1}
    assert inputs.block(blocks[1]) == {0: 43 + 16}
    assert inputs.read_beats == 32


def test_four_blocks_ahead():
    inputs, blocks = inputs_of(Kind.F32)
    there = [inputs.block(block)[0] for block in blocks[:4]]
    assert there == [43, 59, 75, 91]
    inputs.release(1000)
    assert inputs.block(blocks[4]) == {0: 1001 + 43}


def test_what_lies_in_the_beats_of_the_block_before_is_not_read_again():
    inputs, blocks = inputs_of(Kind.U8)
    assert inputs.block(blocks[0]) == {0: 2 + 25 + 7 + 1}
    assert inputs.block(blocks[1]) == {0: 35 + 1 + 8}
    assert inputs.read_beats == 8


def test_a_vector_of_rows_holds_its_beats():
    inputs, blocks = inputs_of(Kind.LABELS)
    assert inputs.block(blocks[0]) == {0: 2 + 25 + 7 + 1}
    assert inputs.read_beats == 2
    inputs.block(blocks[1])
    assert inputs.read_beats == 2


def test_rows_outside_take_a_cycle_of_the_fill():
    inputs, blocks = inputs_of(Kind.COLUMN, rows=1)
    assert inputs.block(blocks[0]) == {0: 2 + 25 + 1 + 1}


def test_a_product_comes_a_row_a_cycle():
    inputs, blocks = inputs_of(Kind.PRODUCT)
    assert inputs.block(blocks[0], 100) == {0: 108}
    assert inputs.block(blocks[1], 100) == {0: 116}
    assert inputs.read_beats == 0


def test_gathered_rows_wait_for_their_list():
    gathered = Descriptor(kind=Kind.GATHERED_U8)
    inputs, blocks = inputs_of(gathered)
    first = inputs.block(blocks[0])[0]
    assert first > 27 + 8 * 4 + 25
    assert inputs.read_beats == 2 + 8 + 2  # the list of the next line too
    inputs.block(blocks[1])
    assert inputs.read_beats == 12


def test_thirty_two_bursts_are_open():
    task = task_of([move()], inputs=[Kind.F32, Kind.F32])
    inputs = ChainInputs(modelled_vector(memory=Memory.axi(200)), task, 0)
    there = [inputs.block(block)[1] for block in list(task.blocks())[:4]]
    assert there[1] < 300
    assert there[2] > 2 * 205


def test_blocks_of_fewer_rows_take_a_cycle_more():
    inputs, blocks = inputs_of(Kind.F32, rows=7)
    first, second = (inputs.block(block)[0] for block in blocks[:2])
    assert second - first == 7 * 2 + 1
