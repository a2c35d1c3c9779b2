"""Draws of shift registers: even, and correlated where they are by construction, nowhere else.

Seeds are fixed. Bounds are 5 standard deviations of what ideal draws give.
"""

import math

import numpy as np
import pytest

from diastole_sim.golden.lfsr_draws import lfsr_draws, pair_draws
from diastole_sim.golden.random import DrawKey

SIGMAS = 5.0
ROWS, COLUMNS = 2800, 84


def pairs(seed=1, tag=2, step=3, rows=ROWS, columns=COLUMNS, second=False):
    key = DrawKey(seed=seed, tags=(tag,), step=step, second=second)
    return pair_draws((rows, columns), key)[0]


def register(bits=8, lfsr_bits=16, seed=1, step=3, second=False):
    key = DrawKey(seed=seed, tags=(2,), step=step, second=second)
    return lfsr_draws((ROWS, COLUMNS), key, bits=bits, lfsr_bits=lfsr_bits)[0]


def correlation(a, b):
    return float(np.corrcoef(a.ravel(), b.ravel())[0, 1])


def chi_squared(counts, expected):
    """In standard deviations from its mean."""
    freedom = np.size(counts) - 1
    return (((counts - expected) ** 2 / expected).sum() - freedom) / math.sqrt(2 * freedom)


def test_every_place_of_a_pair_draws_evenly_over_rows():
    """0 and 7 once in 14 draws, 1 to 6 twice: whatever the column, even or odd."""
    draws = pairs()
    expected = ROWS / 14 * np.array([1, 2, 2, 2, 2, 2, 2, 1])
    for column in range(COLUMNS):
        counts = np.bincount(draws[:, column], minlength=8)
        assert abs(chi_squared(counts, expected)) < SIGMAS, column


def test_every_place_draws_evenly_over_steps():
    draws = np.stack([pairs(step=step, rows=3, columns=6) for step in range(1400)])
    expected = 100 * np.array([1, 2, 2, 2, 2, 2, 2, 1])
    for place in np.ndindex(3, 6):
        counts = np.bincount(draws[:, *place], minlength=8)
        assert abs(chi_squared(counts, expected)) < SIGMAS, place


def test_a_row_has_every_draw_of_its_period_as_often():
    draws = pairs(columns=28)
    for row in draws[:100]:
        assert np.bincount(row, minlength=8).tolist() == [2, 4, 4, 4, 4, 4, 4, 2]


def test_pairs_correlate_by_construction():
    """-1 inside a pair and at 14 columns, +1 at 28."""
    draws = pairs()
    assert (draws[:, 0::2] + draws[:, 1::2] == 7).all()
    assert (draws[:, :-14] + draws[:, 14:] == 7).all()
    assert (draws[:, :-28] == draws[:, 28:]).all()


@pytest.mark.parametrize("lag", [2, 4, 6, 8, 10, 12])
def test_other_columns_of_pairs_correlate_little(lag):
    """Over a period of states and the exchange: what the order 1 2 5 3 7 6 4 gives."""
    order = np.array([1, 2, 5, 3, 7, 6, 4]) - 3.5
    shift = lag // 2
    sign = (-1) ** (shift % 2)  # from pair to pair the inverse changes sides
    want = sign * (order * np.roll(order, -shift)).mean() / (order**2).mean()
    draws = pairs()[:, ::2]
    got = correlation(draws[:, :-shift], draws[:, shift:])
    assert abs(got - want) < SIGMAS / math.sqrt(ROWS)


@pytest.mark.parametrize("lag", [1, 2, 7, 8])
def test_rows_are_independent(lag):
    for draws in (pairs(columns=28), register()[:, ::24]):
        columns = draws.shape[1]
        got = correlation(draws[:-lag], draws[lag:])
        # a row is one draw of its state, whatever its columns
        assert abs(got) < SIGMAS / math.sqrt(ROWS - lag), columns


@pytest.mark.parametrize("other", [{"step": 4}, {"seed": 2}, {"second": True}, {"step": 1 << 31}])
def test_steps_seeds_and_copies_are_independent(other):
    for kind in (pairs, register):
        assert abs(correlation(kind()[:, 0], kind(**other)[:, 0])) < SIGMAS / math.sqrt(ROWS)


@pytest.mark.parametrize("bits, lfsr_bits", [(8, 16), (3, 24), (4, 9)])
def test_a_register_draws_evenly(bits, lfsr_bits):
    """In every column, over rows."""
    draws = register(bits, lfsr_bits)
    states = 2**lfsr_bits - 1
    expected = np.full(2**bits, ROWS * 2.0 ** (lfsr_bits - bits) / states)
    expected[0] -= ROWS / states  # the state 0 never is
    for column in (0, 1, 7, 40, 83):
        counts = np.bincount(draws[:, column], minlength=2**bits)
        assert abs(chi_squared(counts, expected)) < SIGMAS, column


def test_successive_draws_of_a_register_share_all_but_one_bit():
    """So neighbours correlate by a half, those two apart by a quarter, and so on."""
    draws = register(8, 16)
    assert (draws[:, 1:] >> 1 == draws[:, :-1] & 127).all()
    for lag in (1, 2, 3):
        got = correlation(draws[:, :-lag], draws[:, lag:])
        assert abs(got - 0.5**lag) < SIGMAS / math.sqrt(ROWS * 8)
