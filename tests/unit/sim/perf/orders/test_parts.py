"""Layers in parts, for one machine or several."""

from dataclasses import replace

import pytest

from diastole_sim.perf.orders.loops import DW, DX, Y
from diastole_sim.perf.orders.parts import (
    Part,
    cuts,
    parallel,
    part,
    parts,
    sequential,
    shared_elements,
)
from diastole_sim.perf.orders.search import Schedule, Shape, Work
from diastole_sim.perf.orders.systolic import SMALL

MACHINE = replace(SMALL, side=2, element_bytes=1, result_bytes=2, sum_bytes=4)
SHAPE = Shape(10, 6, 4)


def fixed(*works):
    """Every part costs the same."""
    return lambda shape: Schedule("fixed", tuple(Work(*each) for each in works))


def test_part():
    """Whole sides of the array: 10 rows are 5 sides, of which two parts have 3 and 2."""
    assert parts(SHAPE, "m", 2, 2) == [Shape(6, 6, 4), Shape(4, 6, 4)]
    assert part(SHAPE, Part("m", 1, 2), 2) == Shape(4, 6, 4)
    assert part(SHAPE, Part("k", 2, 4), 2) is None
    assert parts(SHAPE, "k", 4, 2) == [Shape(10, 6, 2)] * 2


@pytest.mark.parametrize("axis", "mnk")
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_parts_are_the_whole(axis, count):
    shape = Shape(37, 20, 53)
    found = parts(shape, axis, count, 4)
    assert sum(each._asdict()[axis] for each in found) == shape._asdict()[axis]
    assert all(each._replace(**{axis: 0}) == shape._replace(**{axis: 0}) for each in found)


def test_what_all_parts_add_to():
    assert shared_elements(SHAPE, "m", (DX, DW)) == 4 * 6
    assert shared_elements(SHAPE, "n", (DX, DW)) == 10 * 4
    assert shared_elements(SHAPE, "n", (DW,)) == 0
    assert shared_elements(SHAPE, "k", (DX, DW)) == 0
    assert shared_elements(SHAPE, "k", (Y,)) == 60


def test_in_turn_by_hand():
    """dW, 24 elements: the first part leaves sums of 4 bytes for results of 2, the second takes
    them. dW is the second of two products."""
    found = sequential(MACHINE, SHAPE, ("m", 2), fixed((7, 100), (9, 200)), (DX, DW))
    assert found.work == (Work(7, 100), Work(9, 200 + 24 * 2), Work(7, 100), Work(9, 200 + 24 * 4))
    found = sequential(MACHINE, SHAPE, ("n", 2), fixed((7, 100), (9, 200)), (DX, DW))
    assert found.work[0] == Work(7, 100 + 40 * 2)
    assert found.name == "N in 2"
    found = sequential(MACHINE, SHAPE, ("k", 2), fixed((7, 100)), (DX, DW))
    assert found.work == (Work(7, 100),) * 2


def test_at_once_by_hand():
    """Of 24 sums of dW each of two machines writes 12, reads 12, and writes 12 results, not 24."""
    found = parallel(MACHINE, SHAPE, ("m", 2), fixed((9, 200)), (DX, DW))
    assert found.work == (Work(9, 200 + 24 * 4 - 12 * 2),)
    found = parallel(MACHINE, SHAPE, ("k", 2), fixed((9, 200)), (DX, DW))
    assert found.work == (Work(9, 200),)


def test_cuts():
    """No part is empty."""
    assert list(cuts(SHAPE, (2, 4), 2)) == [("m", 2), ("n", 2), ("k", 2)]
