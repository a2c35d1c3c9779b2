"""Groups of elements: their sizes, what is reduced over them, and what is spread over them."""

import numpy as np
import pytest

from diastole_sim.golden.partition import Partition, nonzeros, transpose
from diastole_sim.spec.formats import parse_grouping


@pytest.mark.parametrize(
    "grouping, groups, cells",
    [("8x8", (8, 8), (4, 4)), ("1x16", (1, 16), (1, 16)), ("tensor", (4, 4), (4, 4))],
)
def test_sizes(grouping, groups, cells):
    """In blocks of 4: squares larger than a block have an exponent for each block."""
    chosen = parse_grouping(grouping)
    whole, stored = (make(chosen, 4) for make in (Partition.groups, Partition.cells))
    assert (whole.rows, whole.columns) == groups
    assert (stored.rows, stored.columns) == cells
    over = whole.over(stored)
    assert (over.rows, over.columns) == (groups[0] // cells[0], groups[1] // cells[1])


def test_reduced_and_spread():
    partition = Partition(rows=2, columns=3)
    elements = np.arange(2 * 4 * 6).reshape(2, 4, 6)
    largest = partition.reduce(np.maximum, elements)
    assert largest.tolist() == [[[8, 11], [20, 23]], [[32, 35], [44, 47]]]
    wide = partition.spread(largest)
    assert wide.shape == elements.shape
    assert wide[0, :2].tolist() == [[8, 8, 8, 11, 11, 11]] * 2


def test_matrices_of_a_stack():
    stack = np.array([[[0, 1, 2], [3, 0, 0]], [[0, 0, 0], [0, 0, 5]]])
    assert transpose(stack).tolist() == [[[0, 3], [1, 0], [2, 0]], [[0, 0], [0, 0], [0, 5]]]
    assert nonzeros(stack).tolist() == [3, 1]
