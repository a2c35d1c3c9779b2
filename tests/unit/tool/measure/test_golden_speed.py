"""Times of the golden model: the cases, and the lines."""

import re

import numpy as np
import pytest

from diastole.measure import golden_speed
from diastole.measure.golden_speed import (
    CASES,
    HEADING,
    STACK_HEADING,
    Case,
    data,
    figures,
    lines,
    seconds,
    stack_line,
    stack_seconds,
)


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
    clock = iter([0, 5, 10, 12])
    assert seconds(lambda: done.append(1), attempts=2) == 2
    assert len(done) == 5


@pytest.fixture
def small(monkeypatch):
    for name in ("STACK", "STACK_SIDE", "STACK_ATTEMPTS"):
        monkeypatch.setattr(golden_speed, name, 3)


def test_a_loop_and_its_stack(small, monkeypatch):
    """Both compute the same products, as often."""
    shapes = []
    forward = golden_speed.GoldenDevice.forward

    def noted(device, x, w):
        shapes.append((x.shape, w.shape))
        return forward(device, x, w)

    monkeypatch.setattr(golden_speed.GoldenDevice, "forward", noted)
    assert all(found > 0 for found in stack_seconds(CASES[0]))
    assert shapes == ([((3, 3), (3, 3))] * 3 + [((3, 3, 3), (3, 3, 3))]) * 3
    pattern = r" +bfp4 +1x1( +\d+\.\d){3}"
    assert re.fullmatch(pattern, stack_line(CASES[0]))
    assert len(stack_line(CASES[0])) == len(STACK_HEADING)


def test_the_figure(small, monkeypatch):
    assert CASES[2] == Case(8, "bfp4")
    for stack, met in ((1.0, True), (1.5, False)):
        monkeypatch.setattr(golden_speed, "stack_seconds", lambda case, s=stack: (4.0, s))
        (figure,) = figures()
        assert (figure.asked, figure.met) == ("at least 3.0 x", met)
        assert figure.measured == f"{4 / stack:.1f} x"
