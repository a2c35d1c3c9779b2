# amaranth: UnusedElaboratable=no
"""Sums of floats of accumulators against MPFR."""

import pytest

from diastole_hw.memory.add_floats import AddFloats
from support.bench import design
from support.floats import encoded, nearest
from support.pipelines import check_pipeline


def check(mantissa, cases):
    """In a row, one per cycle."""
    pipelined = []
    for a, b in cases:
        want = nearest(a + b, mantissa)
        results = {"result": encoded(want, mantissa), "inexact": want != a + b}
        pipelined.append(({"a": encoded(a, mantissa), "b": encoded(b, mantissa)}, results))
    check_pipeline(design(AddFloats, mantissa=mantissa), pipelined, 2)


def test_all_pairs_of_short_ones():
    """Every significand of 3 bits, up to ten binades apart, all signs; and zeros."""
    numbers = [0, *(s << e for e in range(10) for s in (4, 5, 6, 7)), 1, 2, 3]
    some = [0, *(s << e for e in (0, 3, 7) for s in (4, 5, 6, 7)), 1, 3]
    cases = [(x * a, y * b) for a in numbers for b in some for x, y in ((1, 1), (-1, 1))]
    cases += [(-b, a) for a, b in cases]
    check(2, cases)


@pytest.mark.parametrize("mantissa", [3, 9, 23])
def test_any_numbers(mantissa, rng):
    """Near one another, so that they cancel; near ties; and far apart, up to 2^61."""
    cases = []
    for _ in range(1500):
        length = rng.randrange(1, 62)
        a = nearest(rng.getrandbits(length), mantissa)
        kind = rng.randrange(3)
        if kind == 0:
            b = nearest(rng.getrandbits(rng.randrange(1, 62)), mantissa)
        elif kind == 1:
            b = nearest(max(0, a + rng.randrange(-9, 10) * max(1, a >> mantissa)), mantissa)
        else:
            b = nearest(max(1, a >> rng.randrange(mantissa + 4)) + rng.randrange(2), mantissa)
        cases.append((a * rng.choice((-1, 1)), b * rng.choice((-1, 1))))
    cases += [(a, -a) for a, _ in cases[:50]]
    check(mantissa, cases)


def test_the_largest():
    """2^62 and a bit less: rounded up to 2^62, or to twice that."""
    top = 2**62 - 2**52
    check(9, [(top, 2**52), (top, 2**51), (top, 2**51 - 2**41), (top, top), (-top, -(2**52))])
