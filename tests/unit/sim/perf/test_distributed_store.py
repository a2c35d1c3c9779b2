"""The store unit of two ports: rows by turns, on paper."""

import pytest

from diastole_sim.perf.chunk_walk import Span
from diastole_sim.perf.distributed_store import DistributedStore
from diastole_sim.perf.modelled_machine import Memory
from diastole_sim.perf.result_store import EAST, NORTH
from support.modelled import modelled


def make(data_width=256, cells=2, **memory):
    """Words of two vectors, of a beat each; 12 of them wait in front of a port, in registers."""
    machine = modelled(
        rows=cells, cols=cells, block=8, element_bits=(5, 5, 5), data_width=data_width, ports=2,
        memory=Memory(**memory),
    )  # fmt: skip
    return DistributedStore(machine, units=(2, 2))


def test_the_machine():
    machine = make().machine
    assert [machine.drain_vectors(north=north) for north in (False, True)] == [2, 2]
    assert machine.fused_blocks_n == 32
    assert machine.queued_words(2) == 12


@pytest.mark.parametrize(
    "memory, end",
    [
        # Words in 109 and 110, 111 and 112. Rows are asked for in the next cycle, and have their
        # first beat in the one after it: the second port from 113 on, 4 beats.
        ({}, 117),
        ({"response_cycles": 7}, 124),
        ({"write_gap_cycles": 3}, 120),
    ],
)
def test_two_rows_side_by_side(memory, end):
    store = make(**memory)
    store.tile(EAST, 100, (Span(rows=2, vectors=4, beats=4),))
    assert store.finish() == end
    assert store.beats == 8


def test_one_row_has_one_port():
    store = make()
    store.tile(EAST, 100, (Span(rows=1, vectors=4, beats=4),) * 3)
    assert store.finish() == 111 + 3 * 4 + 2, "a cycle is lost between two spans"
    assert [writer.free for writer in store.writers] == [124, 0]


def test_long_rows_keep_both_ports_busy():
    """16 rows of 8 words: each port has 8 rows of 16 beats; the second begins 8 cycles later."""
    store = make()
    store.tile(EAST, 100, (Span(rows=16, vectors=16, beats=16),))
    assert store.finish() == 111 + 8 + 8 * 16


def test_a_queue_that_is_full_holds_up_the_words_of_both_ports():
    """Rows of 32 words and 64 beats: the last word comes when the one 12 before it has left, the
    20th. The row of port 1 begins to come then."""
    store = make()
    store.tile(EAST, 100, (Span(rows=2, vectors=64, beats=64),))
    last = 111 + 2 * 20 + 1
    assert store.finish() == last + 1 + 2 + 64


def test_a_bank_is_free_when_its_last_word_is_read():
    """All of them in ten cycles."""
    store = make()
    store.tile(EAST, 100, (Span(rows=10, vectors=2, beats=2),))
    assert [store.bank(EAST) for _ in range(3)] == [0, 0, 112]


def test_rows_that_turn_are_dealt_too():
    """Read until 116, turned in 124; rows of a word and 2 beats."""
    store = make()
    store.tile(NORTH, 100, (Span(rows=4, vectors=2, beats=2, columns=16),))
    assert store.finish() == 125 + 2 + 1 + 2 * 2


def test_the_north_goes_first_at_either_port():
    store = make()
    store.tile(EAST, 100, (Span(rows=2, vectors=2, beats=2),))
    store.tile(NORTH, 100, (Span(rows=2, vectors=2, beats=2),))
    assert store.finish() == 111 + 1 + 2 + 2
    assert [[row.first for row in dealer.queues[0].leaving.rows] for dealer in store.dealers] == [
        [113],
        [111],
    ]
