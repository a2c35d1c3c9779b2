"""Conditions of several, against Python's."""

from diastole_hw.conditions import among, any_of
from support.pipelines import Function, check_pipeline


def test_any_of_bits():
    unit = Function({"a": 1, "b": 1, "c": 1}, {"o": 1}, lambda m, *bits: any_of(bits))
    cases = []
    for n in range(8):
        values = dict(zip("abc", (n & 1, n >> 1 & 1, n >> 2), strict=True))
        cases.append((values, {"o": int(n > 0)}))
    check_pipeline(unit, cases, 0)


def test_among():
    unit = Function({"a": 3}, {"o": 1}, lambda m, a: among(a, (1, 4, 6)))
    check_pipeline(unit, [({"a": a}, {"o": int(a in (1, 4, 6))}) for a in range(8)], 0)


def test_none():
    unit = Function({"a": 3}, {"o": 1}, lambda m, a: among(a, ()))
    check_pipeline(unit, [({"a": a}, {"o": 0}) for a in range(8)], 0)
