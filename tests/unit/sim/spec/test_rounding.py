"""Rounding rules against exact fractions, and the bias of each."""

from fractions import Fraction

import numpy as np
import pytest

from diastole_sim.spec.rounding import (
    RULES,
    SHIFT_LIMIT,
    is_stochastic,
    round_magnitude,
    round_quotient,
)
from oracle.rounding import round_fraction

STOCHASTIC = [rule for rule in RULES if is_stochastic(rule)]


def test_rules_are_the_four():
    assert STOCHASTIC == ["stochastic-a", "stochastic-b", "stochastic-c"]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("bits", [1, 2, 3, 4])
@pytest.mark.sampled(4)
def test_every_small_case_against_fractions(rule, bits):
    magnitudes, draws = np.meshgrid(np.arange(256), np.arange(2**bits), indexing="ij")
    for shift in range(10):
        got = round_magnitude(rule, magnitudes, shift, draws, bits)
        for magnitude in range(256):
            value = Fraction(magnitude, 2**shift)
            for draw in range(2**bits):
                want = round_fraction(rule, value, draw, bits)
                assert got[magnitude, draw] == want, (magnitude, shift, draw)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("bits", [1, 5, 8, 12, 16, 23, 24])
@pytest.mark.sampled(4)
def test_wide_cases_against_fractions(rule, bits, np_rng):
    """Significands of binary32, shifts up to beyond the clamp, draws at their ends."""
    shifts = [*range(16, 48), 100, 276]
    edges = [2**23, 2**23 + 1, 2**24 - 1, 2**23 + 2**22, 3 * 2**21, 2**23 + 2**15, 2**23 + 2**16]
    for shift in shifts:
        for magnitude in [*edges, *(int(v) for v in np_rng.integers(2**23, 2**24, 6))]:
            for draw in {0, 1, 2**bits - 1, 2**bits // 2, int(np_rng.integers(2**bits))}:
                draw = min(draw, 2**bits - 1)
                want = round_fraction(rule, Fraction(magnitude, 2**shift), draw, bits)
                got = round_magnitude(rule, magnitude, shift, draw, bits)
                assert got == want, (magnitude, shift, draw)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("bits", [1, 3, 16, 24])
def test_quotients_against_fractions(rule, bits, np_rng):
    """Every divisor of four bits, alone and far up; exact quotients and ties among them."""
    for divisor in range(1, 16):
        for shift in (0, 1, 5, 18, 42, 50):
            wide = np_rng.integers(2**23, 2**24, 4)
            halves = [divisor * odd << shift >> 1 for odd in (1, 2, 3, 4, 5)]
            for numerator in {0, 1, *map(int, wide), *(half for half in halves if half < 2**24)}:
                for random in {0, 1, 2**bits - 1, int(np_rng.integers(2**bits))}:
                    want = round_fraction(rule, Fraction(numerator, divisor << shift), random, bits)
                    got = round_quotient(rule, numerator, divisor << shift, random, bits)
                    assert got == want, (numerator, divisor, shift, random)


@pytest.mark.parametrize("rule", STOCHASTIC)
def test_bias_over_all_draws(rule):
    """Summed over every draw and every fraction: A is 2^-(r+1) low, up to the fractions' own grain,
    B a half of that grain high, C exact."""
    bits, shift = 4, 7
    fractions, draws = np.meshgrid(np.arange(2**shift), np.arange(2**bits))
    rounded = round_magnitude(rule, fractions, shift, draws, bits)
    bias = Fraction(int(rounded.sum()), rounded.size) - Fraction(
        int(fractions.sum()), rounded.size << shift
    )
    grain = Fraction(1, 2 ** (shift + 1))
    want = {
        "stochastic-a": -Fraction(1, 2 ** (bits + 1)) + grain,
        "stochastic-b": grain,
        "stochastic-c": Fraction(0),
    }
    assert bias == want[rule]


def test_shifts_beyond_the_limit_give_zero():
    for rule in RULES:
        for shift in (SHIFT_LIMIT, SHIFT_LIMIT + 1, 62, 63, 64, 300):
            assert round_magnitude(rule, 2**24 - 1, shift, 2**24 - 1, 24) == 0
