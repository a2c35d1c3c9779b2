# amaranth: UnusedElaboratable=no
"""Integers to floats of accumulators against MPFR."""

import pytest

from diastole_hw.memory.round_sum import RoundSum
from support.bench import design
from support.floats import encoded, near_ties, nearest
from support.pipelines import check_pipeline


def check(sum_bits, mantissa, cases):
    """In a row, one per cycle."""
    wants = [(value, nearest(value, mantissa)) for value in cases]
    pipelined = [
        ({"sum": value}, {"result": encoded(want, mantissa), "inexact": want != value})
        for value, want in wants
    ]
    check_pipeline(design(RoundSum, sum_bits=sum_bits, mantissa=mantissa), pipelined, 1)


@pytest.mark.parametrize("sum_bits", [9, 10, 11])
@pytest.mark.parametrize("mantissa", [2, 3, 8, 23])
@pytest.mark.sampled(3)
def test_every_sum(sum_bits, mantissa):
    """Of lengths that are a power of two, one more and one less; shorter than the mantissa."""
    half = 1 << (sum_bits - 1)
    check(sum_bits, mantissa, range(1 - half, half))


@pytest.mark.parametrize("sum_bits", [33, 38, 49, 63])
@pytest.mark.parametrize("mantissa", [2, 9, 23])
@pytest.mark.sampled(3)
def test_long_ones(sum_bits, mantissa, rng):
    cases = [0, 1, -1, 2 ** (sum_bits - 1) - 1, 1 - 2 ** (sum_bits - 1)]
    for _ in range(700):
        value = near_ties(rng, rng.randrange(sum_bits), mantissa)
        cases.append(value * rng.choice((-1, 1)))
    limit = 2 ** (sum_bits - 1)
    check(sum_bits, mantissa, [value for value in cases if abs(value) < limit])
