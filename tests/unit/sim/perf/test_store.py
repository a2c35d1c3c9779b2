"""The store unit: rows and banks of one or two tiles, on paper."""

import pytest

from diastole_sim.perf.machine import Memory, ModelledMachine
from diastole_sim.perf.store import EAST, NORTH, Store
from diastole_sim.perf.walk import Span


def make(fused=False, **memory):
    machine = ModelledMachine(
        rows=2, cols=2, block=8, element_bits=(5, 5, 5), data_width=64, memory=Memory(**memory)
    )
    return Store(machine, fused)


@pytest.mark.parametrize(
    "memory, end",
    [
        ({}, 115),  # the first vector is there in 107, then 4 beats a row
        ({"response_cycles": 7}, 122),
        ({"write_gap_cycles": 3}, 119),  # asked for in 105, 108 to 112, and 115 to 119
    ],
)
def test_two_rows(memory, end):
    store = make(**memory)
    store.tile(EAST, 100, (Span(rows=2, whole=2, vectors=1, beats=4),))
    assert store.finish() == end
    assert store.beats == 8


def test_vectors_may_take_longer_than_beats():
    store = make()
    store.tile(EAST, 100, (Span(rows=2, whole=2, vectors=6, beats=4),))
    assert store.finish() == 107 + 2 * 6


@pytest.mark.parametrize("direction, end", [(EAST, 111), (NORTH, 119)])
def test_the_fused_pass_turns_what_leaves_to_the_north(direction, end):
    store = make(fused=True)
    store.tile(direction, 100, (Span(rows=1, whole=1, vectors=1, beats=4),))
    assert store.finish() == end


def test_the_north_drain_goes_first():
    store = make()
    store.tile(EAST, 100, (Span(rows=1, whole=1, vectors=1, beats=4),))
    store.tile(NORTH, 100, (Span(rows=1, whole=1, vectors=1, beats=2),))
    assert store.finish() == 107 + 2 + 4
    assert [store.drains[direction].ready for direction in (NORTH, EAST)] == [110, 114]


def test_two_banks_are_there_at_first():
    store = make()
    assert [store.bank(EAST), store.bank(EAST), store.bank(NORTH)] == [0, 0, 0]


@pytest.mark.parametrize(
    "rows, whole, beats, free",
    [
        (10, 10, 1, 112),  # all are read, one per cycle, when ten cycles have passed
        (10, 10, 4, 127),  # the last five are in the pipeline when the fifth row is written
        (2, 2, 4, 104),  # all fit in the pipeline
        (2, 10, 4, 119),  # 8 more are dropped, until 124; five of them are in the pipeline
    ],
)
def test_a_bank_is_free_when_its_last_vector_is_read(rows, whole, beats, free):
    store = make()
    store.tile(EAST, 100, (Span(rows=rows, whole=whole, vectors=1, beats=beats),))
    assert [store.bank(EAST) for _ in range(3)] == [0, 0, free]


def test_a_vector_of_the_pipeline_takes_its_beats():
    """Rows of two vectors and 8 beats: the third ends in 131, and its second vector is one more
    than had to be read."""
    store = make()
    store.tile(EAST, 100, (Span(rows=5, whole=5, vectors=2, beats=8),))
    assert [store.bank(EAST) for _ in range(3)] == [0, 0, 127]


def test_the_turning_array_holds_vectors_too():
    """Ten of them are in the pipeline of 5 and in the array of 8."""
    store = make(fused=True)
    store.tile(NORTH, 100, (Span(rows=10, whole=10, vectors=1, beats=4),))
    assert [store.bank(NORTH) for _ in range(3)] == [0, 0, 112]


def test_banks_of_the_other_direction_do_not_count():
    store = make()
    store.tile(NORTH, 50, (Span(rows=2, whole=2, vectors=1, beats=4),))
    store.tile(EAST, 100, (Span(rows=2, whole=2, vectors=1, beats=4),))
    assert [store.bank(EAST) for _ in range(3)][2] == 104
    assert [store.bank(NORTH) for _ in range(3)][2] == 54
