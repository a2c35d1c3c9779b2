"""When words are read, on paper: rows beside columns, and as many as have room."""

from diastole_sim.perf.lanes import Departures, Lanes, Queue
from diastole_sim.spec.sizes.queues import FLOAT_WORDS


def test_a_word_per_cycle():
    lanes, queue = Lanes(), Queue()
    assert lanes.rows(queue, 5, 100, 5) == (100, 104)
    assert lanes.rows(queue, 2, 100, 2) == (105, 106)
    assert lanes.rows(queue, 1, 200, 1) == (200, 200)
    assert (queue.read, queue.free) == (8, 201)


def test_columns_go_first():
    """They take 102 to 104 and 106: five words are read in 100, 101, 105, 107 and 108."""
    lanes, queue = Lanes(), Queue()
    lanes.column(102, 3)
    lanes.column(106, 1)
    assert lanes.rows(queue, 5, 100, 5) == (100, 108)
    assert lanes.begins(Queue(), 103) == 105


def test_words_wait_in_the_middle_of_a_row():
    """None is read from 102 to 109, nor in 111 and 112: of five words those of 100, 101, 110, 113
    and 114."""
    lanes, pauses = Lanes(), [(50, 60), (102, 110), (111, 113), (115, 130)]
    assert lanes.rows(Queue(), 5, 100, 5, pauses) == (100, 114)
    assert lanes.rows(Queue(), 2, 100, 2, pauses) == (100, 101)
    assert lanes.rows(Queue(), 6, 100, 6, pauses) == (100, 130)


def test_no_more_words_than_have_room():
    """Words of 4 beats from 110 on: the first one has left in 114, the second in 118."""
    lanes, queue = Lanes(), Queue()
    assert lanes.rows(queue, FLOAT_WORDS, 100, FLOAT_WORDS) == (100, 99 + FLOAT_WORDS)
    queue.left(FLOAT_WORDS, 110, 4 * FLOAT_WORDS)
    assert queue.free == 100 + FLOAT_WORDS
    assert lanes.begins(queue, 0) == 100 + FLOAT_WORDS
    assert lanes.rows(queue, 2, 0, 2) == (132, 133)
    queue.left(2, 110 + 4 * FLOAT_WORDS, 8)
    assert lanes.rows(queue, 10, 0, 10) == (134, 110 + 4 * 12)


def test_a_row_longer_than_the_queue():
    """Of 40 words of 10 cycles, the last is read when the eighth has left."""
    lanes, queue = Lanes(), Queue()
    assert lanes.rows(queue, 40, 100, 40) == (100, 139)
    queue.left(40, 110, 400)
    assert queue.free == 110 + 80 + 1


def test_directions_have_queues_of_their_own():
    lanes, east, north = Lanes(), Queue(), Queue()
    lanes.rows(east, FLOAT_WORDS, 0, FLOAT_WORDS)
    east.left(FLOAT_WORDS, 1000, 1000)
    assert lanes.begins(north, 50) == 50


def test_departures():
    """Three words of 2 cycles from 10 on, then two of 5 from 20 on."""
    leaving = Departures()
    leaving.add(0, 3, 10, 6)
    leaving.add(3, 2, 20, 10)
    assert [leaving.left(number) for number in range(5)] == [12, 14, 16, 25, 30]


def test_words_in_parts():
    """A word of two parts takes two cycles, the last one of a row perhaps one."""
    lanes, queue = Lanes(), Queue()
    assert lanes.rows(queue, 5, 100, 9) == (101, 108)
    assert lanes.rows(queue, 5, 100, 10) == (110, 118)
    lanes.column(119, 2)
    assert lanes.rows(queue, 2, 100, 4) == (122, 124)
