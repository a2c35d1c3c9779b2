"""The choice of one value by a bit for each."""

import pytest

from diastole_hw.choice import one_hot_select
from support.pipelines import Function, check_pipeline


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_chosen_one_or_nothing(count, rng):
    names = [f"value_{n}" for n in range(count)]
    inputs = dict.fromkeys(names, 9) | {"chosen": count}
    unit = Function(inputs, {"o": 9}, lambda m, *given: one_hot_select([*given[:-1]], given[-1]))
    cases = []
    for _ in range(20):
        values = [rng.getrandbits(9) for _ in range(count)]
        for number, want in enumerate([0, *values]):
            given = dict(zip(names, values, strict=True))
            cases.append((given | {"chosen": 1 << number >> 1}, {"o": want}))
    check_pipeline(unit, cases, 0)
