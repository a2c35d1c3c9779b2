# amaranth: UnusedElaboratable=no
"""Small helpers of floats."""

from itertools import product

import numpy as np
import pytest

from diastole_hw.binary32 import negated, nonzero, not_a_number
from diastole_hw.carry_save import quick_sum
from diastole_sim.golden.vector import numbers
from support.pipelines import Function, check_pipeline
from support.vector_operands import SPECIALS, as_floats


def test_signs_and_kinds():
    """All helpers, side by side."""

    def helpers(m, value, flag):
        return negated(value, flag), not_a_number(value), nonzero(value)

    dut = Function({"value": 32, "flag": 1}, {"negative": 32, "nan": 1, "available": 1}, helpers)
    values = as_floats(np.array(SPECIALS, np.uint32))
    flipped = numbers.negate(values).view(np.uint32).tolist()
    found = zip(SPECIALS, flipped, np.isnan(values), numbers.is_zero(values), strict=True)
    cases = [
        (
            {"value": value, "flag": flag},
            {"negative": other if flag else value, "nan": bool(nan), "available": not zero},
        )
        for value, other, nan, zero in found
        for flag in (0, 1)
    ]
    check_pipeline(dut, cases, 0)


def check_sums(width, cases):
    inputs = {"a": width, "b": width, "carry": 1}
    results = ({"o": sum(case) % 2**width} for case in cases)
    given = (dict(zip(inputs, case, strict=True)) for case in cases)
    check_pipeline(Function(inputs, {"o": width}, quick_sum), zip(given, results, strict=True), 0)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_all_short_sums(width):
    check_sums(width, [*product(range(2**width), range(2**width), (0, 1))])


@pytest.mark.parametrize("width", [26, 28, 33])
def test_long_sums(width, rng):
    """Carries of every length."""
    cases = []
    for number in range(300):
        a, carry = rng.getrandbits(width), rng.getrandbits(1)
        near = a ^ (2**width - 1) ^ (1 << rng.randrange(width))
        cases.append((a, rng.getrandbits(width) if number % 2 else near, carry))
    check_sums(width, cases)
