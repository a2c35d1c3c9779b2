"""What a story is checked with; stories of machines are in tests/product/test_explain.py."""

import numpy as np
import pytest

from diastole.config.presets import PRODUCTS_ONLY
from diastole.explain.shown_run import EAST, NORTH, Pass, WavesDisagree, ways_of
from diastole.explain.story import expected_sums, require_alike, require_sums, signals
from diastole_hw.plan.modes import Mode

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
        (way.direction, way.streaming.name, way.stationary.name, way.t, way.rows, way.cols)
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
    with pytest.raises(WavesDisagree, match="block"):
        require_alike([1, -3, 0], np.array(wanted), "block")


class Sevens:
    """Factors of which a cell adds, for vector t in lane l over block b, 100 t + 10 l + b."""

    block = 2

    def addends(self, vectors, lanes, number):
        t, lane = np.arange(4)[vectors], np.arange(8)[lanes]
        return 100 * t[:, None] + 10 * lane[None, :] + number


PASS = Pass(first=0, loads=0, t0=1, count=2, row=1, col=0, rows=2, cols=3)


def test_sums_grow_along_the_contraction():
    """To the east from column to column of cells, to the north from row to row."""
    east = expected_sums(EAST, PASS, Sevens())
    assert east.shape == (2, 2, 3, 2)
    assert east[0, 0].tolist() == [[120, 130], [241, 261], [363, 393]]
    assert east[1, 1, 2].tolist() == [3 * 240 + 3, 3 * 250 + 3]
    north = expected_sums(NORTH, PASS, Sevens())
    assert north[0, :, 0].tolist() == [[101, 111], [203, 223]]
    assert north[0, 1, 2].tolist() == [2 * 140 + 3, 2 * 150 + 3]


def test_other_sums_are_found():
    """In cells that the pass uses; what others have means nothing."""
    wanted = expected_sums(EAST, PASS, Sevens())
    got = np.zeros((2, 3, 3, 2), np.int64)
    got[:, :2] = wanted
    got[:, 2] = 77
    require_sums(got, wanted, PASS)
    got[1, 0, 2, 1] += 1
    with pytest.raises(
        WavesDisagree,
        match="cell 0, 2 are not those of the operands: vector 2, lane 1: 694, expected 693",
    ):
        require_sums(got, wanted, PASS)


def test_signals_are_told_once():
    names = signals(PLAN)
    assert len(names) == len(set(names))
