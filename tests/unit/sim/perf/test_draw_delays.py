"""Delays by draws, against what hashes there must be."""

import pytest

from diastole_sim.perf.draw_delays import (
    draws_ahead,
    hashed_together,
    line_delay,
    max_slack,
    row_delay,
)


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16])
def test_rows_that_begin_with_a_hash_take_no_longer(lanes):
    together = hashed_together(lanes)
    for block in (4, 8):
        assert line_delay(lanes, block, 0, (0, 8 * block)) == 0
        assert line_delay(lanes, block, 0, (together, 8 * block)) == 0
    assert row_delay(lanes, 0, 0, 5, 64) == 0


@pytest.mark.parametrize("rows, first", [(1, 1), (8, 3), (5, 2)])
def test_a_row_between_two_hashes_needs_one_more(rows, first):
    """Of words that are a hash each: in the first block of a line, or in each row."""
    assert line_delay(4, 8, 0, (first, 64)) == 8
    assert row_delay(4, first, 0, rows, 64) == rows
    assert row_delay(8, 2 * first, 0, rows, 64) == rows


def test_only_rows_that_begin_so():
    """Those of 33 elements, by 4: three of four."""
    assert row_delay(4, 0, 1, 8, 32) == 6
    assert row_delay(4, 3, 0, 0, 32) == 0


def test_words_beside_the_tensor_draw_too():
    """Of blocks of 8, those of one column as those of eight."""
    assert line_delay(4, 8, 1, (1, 0)) == 0
    assert line_delay(4, 8, 1, (1, 1)) == line_delay(4, 8, 1, (1, 8)) > 0


def test_hashes_may_be_ahead_only_so_far():
    """A lane and blocks of 8: eight rows that begin off a hash ask for those of two rows at once,
    then have enough for more words than may be under way."""
    assert draws_ahead(1) == 33
    assert line_delay(1, 8, 1, (1, 64), max_slack(1)) > 0
    assert line_delay(1, 8, 0, (0, 64)) == line_delay(1, 2, 1, (1, 16), max_slack(1)) == 0


def test_words_that_wait_ask_earlier():
    """A lane and blocks of 2: both rows begin off a hash, three words before their second one, and
    two hashes are 3 cycles apart."""
    delays = [line_delay(1, 2, 0, (3, 16), slack) for slack in range(max_slack(1) + 1)]
    assert delays == sorted(delays, reverse=True)
    assert delays[0] > delays[-1] == 0


def test_what_came_before_keeps_the_hashes_busy():
    """Rows of blocks of 8 that follow each other, a lane and an odd pitch: 64 words need more
    hashes than were begun while they waited."""
    alone = line_delay(1, 8, 1, (1, 8), max_slack(1))
    assert line_delay(1, 8, 1, (1, 8), max_slack(1), ((1, 8), (1, 8))) > alone


def test_tiles_side_by_side_keep_them_busy_too():
    """Of 57 columns, in tiles of 32 and 25: each of 4 rows takes one hash more in every tile, a
    block's words later than they could be asked for; 12 cycles, as the hardware counts them."""
    before = ((0, 32), (32, 25), (4 * 57, 32))
    assert line_delay(1, 4, 57, (4 * 57 + 32, 25), max_slack(1), before) == 12
    assert line_delay(1, 4, 57, (8 * 57, 32), max_slack(1), (*before[1:], (4 * 57 + 32, 25))) == 12
