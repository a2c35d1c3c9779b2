"""The store unit: rows and banks of one or two tiles, on paper."""

from collections import deque

import pytest

from diastole_sim.perf.chunk_walk import Span
from diastole_sim.perf.modelled_machine import Memory
from diastole_sim.perf.result_store import EAST, NORTH, Store
from support.modelled import modelled


def make(units=2, **memory):
    machine = modelled(
        rows=2, cols=2, block=8, element_bits=(5, 5, 5), data_width=64, memory=Memory(**memory)
    )
    return Store(machine, units=(units, units))


@pytest.mark.parametrize(
    "memory, end",
    [
        ({}, 117),  # the first vector is there in 109, then 4 beats a row
        ({"response_cycles": 7}, 124),
        ({"write_gap_cycles": 3}, 120),  # asked for in 105, 109 to 113, and 116 to 120
    ],
)
def test_two_rows(memory, end):
    store = make(**memory)
    store.tile(EAST, 100, (Span(rows=2, vectors=1, beats=4),))
    assert store.finish() == end
    assert store.beats == 8


def test_vectors_may_take_longer_than_beats():
    store = make()
    store.tile(EAST, 100, (Span(rows=2, vectors=6, beats=4),))
    assert store.finish() == 109 + 2 * 6


def test_columns_are_all_read_before_their_rows_leave():
    """The last one of 16 in 117, its float is there in 122, its row in 125; then 2 beats a row."""
    store = make()
    store.tile(NORTH, 100, (Span(rows=3, vectors=2, beats=2, columns=16),))
    assert store.finish() == 125 + 3 * 2
    assert [store.bank(NORTH) for _ in range(3)] == [0, 0, 118]


def test_a_piece_turns_while_another_one_leaves():
    """Of 10 columns: read until 112, 122 and 132. The first leaves from 119 to 123, the second from
    129, the third from 139."""
    store = make()
    store.tile(NORTH, 100, (Span(rows=2, vectors=1, beats=2, columns=10),) * 3)
    assert store.finish() == 143
    assert [store.bank(NORTH) for _ in range(3)] == [0, 0, 132]


def test_a_fourth_piece_waits_until_the_first_one_has_left():
    """That leaves from 119 to 219; its place is free in the cycle before."""
    store = make()
    store.tile(NORTH, 100, (Span(rows=10, vectors=1, beats=10, columns=10),) * 4)
    assert store.finish() == 119 + 4 * 100 + 3
    assert [store.bank(NORTH) for _ in range(3)] == [0, 0, 218 + 10]


def test_a_row_is_read_between_two_tiles_of_columns():
    """Columns from 102 to 117 and from 119 on: the row in 118."""
    store = make()
    for _ in range(2):
        store.tile(NORTH, 100, (Span(rows=1, vectors=1, beats=1, columns=16),))
    store.tile(EAST, 110, (Span(rows=1, vectors=1, beats=9),))
    store.finish()
    assert list(store.lanes.columns) == [(102, 118), (119, 135)]
    assert store.drains[EAST].queue.free == 118 + 1


def test_columns_are_read_before_the_rows_of_the_other_direction():
    """The columns until 118, then the first row, which is there in 125; the others follow it."""
    store = make()
    store.tile(NORTH, 100, (Span(rows=1, vectors=1, beats=4, columns=16),))
    store.tile(EAST, 100, (Span(rows=5, vectors=1, beats=4),))
    assert store.finish() == 125 + 6 * 4


def test_rows_that_were_read_leave_while_columns_are():
    """Five rows are read from 82 on; the first is there in 89, and the last has left in 109. The
    columns have turned in 125."""
    store = make()
    store.tile(EAST, 80, (Span(rows=5, vectors=1, beats=4),))
    store.tile(NORTH, 100, (Span(rows=1, vectors=1, beats=4, columns=16),))
    assert store.finish() == 125 + 4
    assert store.drains[EAST].ready == 109


def test_the_north_drain_goes_first():
    store = make()
    store.tile(EAST, 100, (Span(rows=1, vectors=1, beats=4),))
    store.tile(NORTH, 100, (Span(rows=1, vectors=1, beats=2),))
    assert store.finish() == 109 + 2 + 4
    assert [store.drains[direction].data for direction in (NORTH, EAST)] == [112, 116]


def test_who_waits_for_its_next_span_keeps_the_writer():
    """Rows of 4 beats leave from 119 on; a piece begins a cycle after the one before, and is asked
    for already, so that dW's rows leave behind both."""
    store = make()
    store.tile(NORTH, 90, (Span(rows=4, vectors=1, beats=4, columns=8),) * 2)
    store.tile(EAST, 100, (Span(rows=3, vectors=1, beats=1),))
    first = 90 + 2 + 8 + 5 + 3 - 1
    assert store.finish() == first + 16 + 1 + 16 + 3


@pytest.mark.parametrize("response, end", [(10, 109 + 17), (40, 110 + 40), (300, 110 + 300)])
def test_sixteen_bursts_are_open(response, end):
    """Rows of a beat: the first ends in 110, and the 17th waits for the response to it."""
    store = make(response_cycles=response)
    store.tile(EAST, 100, (Span(rows=17, vectors=1, beats=1),))
    assert store.finish() == end + response


@pytest.mark.parametrize("start, end", [(50, 109 + 32), (49, 111 + 300 - 1 + 2)])
def test_a_row_of_two_bursts_counts_twice(start, end):
    """Where the eighth row crosses a multiple of 64 beats, the 16th is the 17th burst."""
    store = make(response_cycles=300)
    store.tile(EAST, 100, (Span(rows=16, vectors=1, beats=2, start=start, pitch=2),))
    assert store.finish() == end + 300


def test_two_banks_are_there_at_first():
    store = make()
    assert [store.bank(EAST), store.bank(EAST), store.bank(NORTH)] == [0, 0, 0]


@pytest.mark.parametrize(
    "rows, beats, free",
    [
        (10, 1, 112),  # all are read, one per cycle, when ten cycles have passed
        (10, 4, 112),  # all have room in the queue
        (40, 4, 142),  # the last one when the eighth has left: from 109 on, 4 cycles each
    ],
)
def test_a_bank_is_free_when_its_last_vector_is_read(rows, beats, free):
    store = make()
    store.tile(EAST, 100, (Span(rows=rows, vectors=1, beats=beats),))
    assert [store.bank(EAST) for _ in range(3)] == [0, 0, free]


def test_a_word_of_the_queue_takes_its_beats():
    """Rows of two vectors and 8 beats: the 40th word is read when the eighth has left, the second
    one of the fourth row."""
    store = make()
    store.tile(EAST, 100, (Span(rows=20, vectors=2, beats=8),))
    assert [store.bank(EAST) for _ in range(3)] == [0, 0, 109 + 4 * 8 + 1]


def test_banks_of_the_other_direction_do_not_count():
    store = make()
    store.tile(NORTH, 50, (Span(rows=2, vectors=1, beats=4),))
    store.tile(EAST, 100, (Span(rows=2, vectors=1, beats=4),))
    assert [store.bank(EAST) for _ in range(3)][2] == 104
    assert [store.bank(NORTH) for _ in range(3)][2] == 54


def test_a_burst_ends_with_its_last_word():
    """Its response counts from there."""
    store = make(response_cycles=30)
    responses = deque([5])
    assert store.written(10, [4, 2], 1.0, responses, 0, 50) == 50
    assert list(responses) == [5, 44, 80]
    assert store.written(60, [3], 1.0, responses, 0, 61) == 63


@pytest.mark.parametrize(
    "opened, begins, end",
    [
        (3, 90, 165),  # the first row is read in 150 for 102
        (3, 102, 165),
        (3, 103, 161),  # the second one alone is, then follows in 4 cycles
        (3, 104, 117),  # both are read before
        (2, 90, 117),  # in the other memory
    ],
)
def test_a_drain_waits_while_sums_are_added_in_its_memory(opened, begins, end):
    store = make(units=1)
    store.tile(EAST, 100, (Span(rows=2, vectors=1, beats=4),))
    for _ in range(opened):
        store.bank(EAST)
    store.adds(EAST, begins, 150)
    assert store.finish() == end


def test_tiles_of_two_memories_wait_for_nobody():
    store = make(units=2)
    store.tile(EAST, 100, (Span(rows=2, vectors=1, beats=4),))
    store.bank(EAST)
    store.adds(EAST, 90, 150)
    assert store.finish() == 117
