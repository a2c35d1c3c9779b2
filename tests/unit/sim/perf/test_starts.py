"""Start states of rows: bounds of when they are there."""

from diastole_sim.perf.starts import FIRST_START, RowStarts
from diastole_sim.spec.sizes.draws import STARTS_AHEAD


def test_rows_that_are_long_enough_wait_for_the_first_only():
    starts = RowStarts(10, 5)
    assert starts.delay(10, 20, 5) == FIRST_START
    assert starts.delay(300, 20, 6) == 0


def test_short_rows_come_as_often_as_states():
    """20 rows of 2 words take 5 cycles each, 8 of them ahead where there was time for these."""
    assert RowStarts(0, 5).delay(FIRST_START, 20, 2) == 19 * 3
    late = RowStarts(0, 5).delay(1000, 20, 2)
    assert 19 * 3 - 5 * (STARTS_AHEAD + 1) <= late <= 19 * 3 - 5 * (STARTS_AHEAD - 4)


def test_later_is_later():
    one, other = RowStarts(0, 4), RowStarts(7, 4)
    one.delay(3, 11, 2)
    other.delay(10, 11, 2)
    one.later(7)
    assert one.times == other.times
    assert one.delay(60, 5, 1) == other.delay(60, 5, 1)
