"""Sums of three numbers against Python's."""

import pytest

from diastole_hw.carry_save import sum_of_three
from support.pipelines import Function, check_pipeline


@pytest.mark.parametrize("widths", [(5, 3, 3), (5, 5, 2), (4, 1, 4), (3, 5, 2), (40, 22, 19)])
def test_sums(widths, rng):
    """Modulo as many bits as the first has, which may be the shortest."""
    inputs = dict(zip("abc", widths, strict=True))
    unit = Function(inputs, {"o": 64}, lambda m, *numbers: sum_of_three(*numbers))
    cases = []
    for _ in range(300):
        values = [rng.choice((0, (1 << w) - 1, rng.getrandbits(w))) for w in widths]
        want = sum(values) % (1 << widths[0])
        cases.append((dict(zip("abc", values, strict=True)), {"o": want}))
    check_pipeline(unit, cases, 0)
