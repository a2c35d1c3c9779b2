"""Special functions of the vector unit: errors over every significand, and over 10^7 of exp.

Judge: double precision, whose errors are 2^-29 of a last place of binary32.
"""

import numpy as np
import pytest

from diastole_sim.spec.functions import LARGEST_ERRORS
from support.special_functions import FUNCTIONS

PART = 1 << 20


def significands(low, high):
    """Every binary32 of low .. high (not included), in parts."""
    first, last = (int(np.float32(bound).view(np.uint32)) for bound in (low, high))
    for start in range(first, last, PART):
        yield np.arange(start, min(start + PART, last), dtype=np.uint32).view(np.float32)


def largest_error(name, exact, parts):
    """In units of the last place of the exact result, and how many numbers there were."""
    largest, count = 0.0, 0
    for x in parts:
        want = exact(x.astype(np.float64))
        place = np.exp2(np.floor(np.log2(np.abs(want))) - 23)
        error = np.abs(FUNCTIONS[name](x).astype(np.float64) - want) / place
        largest, count = max(largest, float(error.max())), count + x.size
    return largest, count


def log_quotient(x):
    d = x - 1
    return np.where(d == 0, 1.0, np.log1p(d) / np.where(d == 0, 1.0, d))


@pytest.mark.parametrize(
    "name, exact, low, high",
    [
        ("rcp", lambda x: 1 / x, 1, 2),
        ("rsq", lambda x: 1 / np.sqrt(x), 1, 4),
        ("lgg", log_quotient, 0.75, 1.5),
    ],
)
def test_every_significand(name, exact, low, high):
    """Results of other binades are these times powers of two."""
    error, count = largest_error(name, exact, significands(low, high))
    assert count == {1.5: 1 << 23, 2: 1 << 23, 4: 1 << 24}[high]
    asked = LARGEST_ERRORS[name]
    assert asked - 0.01 < error < asked


def test_ten_million_exponentials(np_rng):
    """Of all sizes down to 2^-26, both signs, whose result is a number."""
    parts = []
    for _ in range(10):
        x = np.ldexp(np_rng.uniform(1, 2, 10**6), np_rng.integers(-26, 6, 10**6))
        x[::2] = np_rng.uniform(0, 88.7, 5 * 10**5)
        x *= np_rng.choice([-1.0, 1.0], 10**6)
        parts.append(np.clip(x, -87.3, 88.7).astype(np.float32))
    error, count = largest_error("exp", np.exp, parts)
    assert count == 10**7
    assert LARGEST_ERRORS["exp"] - 0.01 < error < LARGEST_ERRORS["exp"]
