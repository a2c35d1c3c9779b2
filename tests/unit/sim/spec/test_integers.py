"""Arithmetic of sizes, by hand."""

import pytest

from diastole_sim.spec.integers import ceil_div, log2, pow2ceil, pow2floor
from support.texts import exactly


def test_arithmetic():
    assert [ceil_div(value, 4) for value in (0, 1, 4, 5)] == [0, 1, 1, 2]
    values = (1, 2, 3, 4, 5, 8, 9)
    assert [pow2ceil(value) for value in values] == [1, 2, 4, 4, 8, 8, 16]
    assert [pow2floor(value) for value in values] == [1, 2, 2, 4, 4, 8, 8]
    assert [log2(value) for value in (1, 2, 4, 1024)] == [0, 1, 2, 10]


@pytest.mark.parametrize("value", [0, -2, 3, 12])
def test_no_power_of_two(value):
    with pytest.raises(ValueError, match=exactly(f"{value} is not a power of two")):
        log2(value)
