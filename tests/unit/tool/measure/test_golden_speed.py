"""Times of the golden model: the cases, and the lines."""

import re

import numpy as np
import pytest

from diastole.measure import golden_speed
from diastole.measure.golden_speed import CASES, HEADING, Case, data, lines, seconds


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_case_has_numbers(case):
    numerics = case.numerics
    assert (numerics.block, numerics.fraction) == (case.block, case.fraction)
    assert {numerics.x.format.name, numerics.dy.format.name} == {case.format}
    assert (numerics.x.rounding, numerics.dy.rounding) == ("nearest", "stochastic-b")
    if case.window == 0:
        assert not numerics.is_windowed("x", "w")


def test_cases_differ():
    assert len(set(CASES)) == len(CASES)


def test_data():
    arrays = data(16)
    assert {array.shape for array in arrays.values()} == {(16, 16)}
    spread = {name: np.ptp(np.frexp(array)[1]) for name, array in arrays.items()}
    assert spread["plain"] < 20 < 80 < spread["wide"]


def test_lines():
    found = list(lines(Case(4, "bfp4", fraction=2), data(8)))
    pattern = r" +4 +bfp4 +4x4 +8 +2 +(plain|wide)( +\d+\.\d{3}){3} (True|False)"
    assert [re.fullmatch(pattern, line).group(1, 3) for line in found] == [
        ("plain", "True"),
        ("wide", "False"),
    ]
    assert {len(line.rsplit(" ", 1)[0]) for line in found} == {len(HEADING.rsplit(" ", 1)[0])}


def test_the_best_counts(monkeypatch):
    clock = iter([0, 5, 10, 12, 20, 29])
    monkeypatch.setattr(golden_speed.time, "perf_counter", lambda: next(clock))
    done = []
    assert seconds(lambda: done.append(1)) == 2
    assert len(done) == 3
