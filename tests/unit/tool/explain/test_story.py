"""What a story is checked with; stories of machines are in tests/product/test_explain.py."""

import numpy as np
import pytest

from diastole.config.presets import PRODUCTS_ONLY
from diastole.explain.story import (
    EAST,
    NORTH,
    Untrue,
    require_alike,
    require_powers,
    signals,
    stored_copy,
    ways_of,
)
from diastole_hw.plan.uses import Mode
from diastole_sim.spec.operations import FORWARD, INPUT_GRADIENT, W, X

PLAN = PRODUCTS_ONLY["pico"].plan


@pytest.mark.parametrize(
    "mode, expected",
    [
        (Mode.FORWARD, [(EAST, "X", "W", "m", "n", "k")]),
        (Mode.DX, [(NORTH, "dY", "W", "m", "n", "k")]),
        (Mode.DW, [(EAST, "X", "dY", "k", "n", "m")]),
        (Mode.FUSED, [(EAST, "X", "dY", "k", "n", "m"), (NORTH, "W", "dY", "k", "n", "m")]),
    ],
)
def test_ways_of_squares(mode, expected):
    """Of blocks that lie as they are stored: rows and columns of cells count the same axes for both
    directions, which is why one held block serves both."""
    found = [
        (way.direction, way.streamed.name, way.held.name, way.t, way.rows, way.cols)
        for way in ways_of(PLAN, mode)
    ]
    assert found == expected


def test_groups_may_have_any_scale_of_their_own():
    got = [[1, -3, 0], [0, 0, 0], [2, 2, -4]]
    require_alike(got, np.array([[0.25, -0.75, 0], [0, 0, 0], [12, 12, -24.0]]), "block")
    require_alike(got[0], np.array([3, -9, 0.0]), "vector")


@pytest.mark.parametrize(
    "wanted",
    [[0.25, -0.75, 1], [0.25, 0, 0], [0.25, 0.75, 0], [0.25, -0.5, 0], [-0.25, 0.75, 0]],
)
def test_other_numbers_are_found(wanted):
    with pytest.raises(Untrue, match="block"):
        require_alike([1, -3, 0], np.array(wanted), "block")


def test_sums_may_differ_by_powers_of_two():
    require_powers(np.array([3.0, -6, 0, 5]), np.array([0.75, -3, 0, 80]), "sums")


@pytest.mark.parametrize("wanted", [[3.0, 3], [0.0, 4], [-3.0, 4], [4.5, 4]])
def test_other_sums_are_found(wanted):
    with pytest.raises(Untrue, match="sums"):
        require_powers(np.array([3.0, 4]), np.array(wanted), "sums")


def test_the_copy_that_a_product_reads():
    one, two = np.zeros((1, 1)), np.ones((1, 1))
    both = {("X", 0): one, ("W", 0): one, ("W", 1): two}
    assert stored_copy(both, FORWARD, X) is one
    assert stored_copy(both, FORWARD, W) is two
    assert stored_copy(both, INPUT_GRADIENT, W) is one


def test_signals_are_told_once():
    names = signals(PLAN)
    assert len(names) == len(set(names))
