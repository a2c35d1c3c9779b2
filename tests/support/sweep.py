"""Configurations that ``make sweeps`` tries, and ``make test`` does not."""

from collections.abc import Iterable, Mapping

import pytest


def sweep(*values):
    """A parameter set of a test of which others are always run."""
    return pytest.param(*values, marks=pytest.mark.sweep)


def alternating(cases: Iterable, ways: Mapping[str, tuple]) -> list:
    """Parameter sets: every case in every way. ``make test`` runs each case in one way, the next
    case in the next; tuples are several parameters of a case."""
    sets = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        name = "-".join(str(getattr(value, "name", value)) for value in values)
        for turn, (way, more) in enumerate(ways.items()):
            marks = [] if (number - turn) % len(ways) == 0 else [pytest.mark.sweep]
            sets.append(pytest.param(*values, *more, marks=marks, id=f"{way}-{name}"))
    return sets
