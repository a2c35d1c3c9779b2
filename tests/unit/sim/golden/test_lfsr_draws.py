"""Registers that start anew in every row, against quotients of polynomials over GF(2)."""

import numpy as np
import pytest

from diastole_sim.golden.lfsr_draws import lfsr_draws, pair_draws
from diastole_sim.golden.random import DrawKey
from oracle.lfsr import row_draw

WHERE = {"seed": 0xDEADBEEF, "step": 11}
TAGS = (5, 0x80000005, 0xFFFFFFFF)


@pytest.mark.parametrize("n", range(3, 25))
@pytest.mark.parametrize("second", [False, True])
@pytest.mark.sampled(3)
def test_every_length(n, second):
    bits = max(1, n - 2 * second)
    draws = lfsr_draws((3, 70), DrawKey(tags=TAGS, second=second, **WHERE), bits=bits, lfsr_bits=n)
    assert draws.shape == (3, 3, 70)
    for place in np.ndindex(draws.shape):
        tag, row, column = TAGS[place[0]], *place[1:]
        where = WHERE | {"tag": tag, "row": row, "column": column, "second": second}
        want = row_draw(kind="lfsr", n=n, bits=bits, **where)
        assert draws[place] == want, where


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (9, 2), (7, 61)])
def test_pairs(shape, second):
    draws = pair_draws(shape, DrawKey(tags=TAGS[:2], second=second, **WHERE))
    assert draws.shape == (2, *shape)
    for place in np.ndindex(draws.shape):
        where = WHERE | {"tag": TAGS[place[0]], "row": place[1], "column": place[2]}
        want = row_draw(kind="lfsr3", n=3, bits=3, second=second, **where)
        assert draws[place] == want, where


def test_starts_are_spread_evenly():
    """7 states over 2^31 hashes: the shares of 40 000 rows differ by chance alone; 0 never is."""
    draws = lfsr_draws((40_000, 1), DrawKey(tags=(0,), **WHERE), bits=3, lfsr_bits=3)
    counts = np.bincount(draws.ravel(), minlength=8)
    assert counts[0] == 0
    expected = 40_000 / 7
    assert ((counts[1:] - expected) ** 2 / expected).sum() < 6 + 5 * np.sqrt(12)
