"""Rows of a chain's outputs, by hand: answers take 23 cycles, beats have 4 numbers."""

from diastole_sim.perf.chain_outputs import ChainOutputs
from diastole_sim.spec.stream_table import Kind
from support.vector_model import modelled_vector, move, task_of

FIRST_ROW = 1 + 7 + 2
"""Cycles from an instruction to its first row's leaving."""


def outputs_of(*kinds, rows=64, cols=64, **options):
    task = task_of([move(o=0)], outputs=kinds, rows=rows, cols=cols, **options)
    return ChainOutputs(modelled_vector(), task, 0), list(task.blocks())


def test_two_beats_a_row():
    outputs, blocks = outputs_of(Kind.F32)
    outputs.write_block(0, blocks[0], 0)
    assert outputs.write_beats == 16
    assert outputs.row == FIRST_ROW + 15
    assert outputs.last_response == FIRST_ROW + 15 + 23
    assert outputs.idle == FIRST_ROW + 16


def test_room_for_four_blocks():
    outputs, blocks = outputs_of(Kind.F32)
    for number, block in enumerate(blocks[:4]):
        assert outputs.free_cycle <= 100 + 8 * number
        outputs.write_block(0, block, 100 + 8 * number)
    assert outputs.free_cycle == 100 + FIRST_ROW + 16


def test_a_mask_is_a_beat_at_its_end():
    outputs, blocks = outputs_of(Kind.MASK)
    outputs.write_block(0, blocks[0], 0)
    assert outputs.write_beats == 1
    assert outputs.row == FIRST_ROW + 7


def test_vectors_are_written_in_the_last_block_of_a_line():
    outputs, blocks = outputs_of(Kind.ROW)
    outputs.write_block(0, blocks[0], 0)
    assert (outputs.write_beats, outputs.last_response) == (0, 0)
    outputs.write_block(0, blocks[7], 20)
    assert outputs.write_beats == 8
    columns, blocks = outputs_of(Kind.COLUMN, by_columns=True)
    columns.write_block(0, blocks[7], 0)
    assert columns.write_beats == 2


def test_sixteen_bursts_wait_for_their_answers():
    outputs, blocks = outputs_of(Kind.ROW, cols=8)
    for number, block in enumerate(blocks[:4]):
        outputs.write_block(0, block, 8 * number)
    assert outputs.beat > FIRST_ROW + 31  # a row of one beat each cycle, were there no answers


def test_the_converter_takes_an_image_word_by_word():
    outputs, blocks = outputs_of(Kind.IMAGE)
    for number, block in enumerate(blocks):
        outputs.write_block(0, block, 8 * number)
    assert outputs.write_beats == 0
    assert outputs.image is not None
    assert outputs.image_row >= FIRST_ROW + 1023  # 16 words a block
    assert outputs.row < outputs.image_row - 64  # so many rows wait
    assert outputs.row > outputs.image_row - 2 * 64 - 10  # and no more
    assert outputs.last_response > outputs.image.end() > outputs.image_row
