"""The order of blocks, and tensors in blocks and back."""

import numpy as np
import pytest

from diastole_sim.golden.vector.order import Order
from diastole_sim.spec.stream_table import Walk


def test_by_rows_and_by_columns():
    rows = Order.of_walk(Walk(rows=3, cols=5, block=2))
    assert list(zip(rows.i, rows.j, strict=True)) == [(i, j) for i in range(2) for j in range(3)]
    assert rows.first.tolist() == [True, False, False] * 2
    assert rows.last.tolist() == [False, False, True] * 2
    columns = Order.of_walk(Walk(rows=3, cols=5, block=2, by_columns=True))
    assert list(zip(columns.i, columns.j, strict=True)) == [
        (i, j) for j in range(3) for i in range(2)
    ]
    assert columns.first.tolist() == [True, False] * 3
    assert rows.lines_are_whole
    assert columns.lines_are_whole


def test_lines_of_tiles_are_not_whole():
    walk = Walk(rows=2, cols=4, block=2)
    assert not Order.of_lines(walk, [[(0, 0)], [(0, 1)]]).lines_are_whole


@pytest.mark.parametrize("by_columns", [False, True], ids=["rows", "columns"])
def test_tensors_are_split_and_joined(by_columns, np_rng):
    walk = Walk(rows=5, cols=7, block=4, by_columns=by_columns)
    order = Order.of_walk(walk)
    tensor = np_rng.normal(size=(5, 7)).astype(np.float32)
    blocks = order.split(tensor)
    assert np.array_equal(order.join(blocks), tensor)
    for number, (i, j) in enumerate(zip(order.i, order.j, strict=True)):
        part = tensor[4 * i : 4 * i + 4, 4 * j : 4 * j + 4]
        high, wide = part.shape
        assert np.array_equal(blocks[number, :high, :wide], part)
        assert not blocks[number, high:].any()
        assert not blocks[number, :, wide:].any()
        assert np.array_equal(order.inside[number, 0], np.arange(4 * j, 4 * j + 4) < 7)
        assert order.row_numbers[number].tolist() == list(range(4 * i, 4 * i + 4))
        assert order.column_numbers[number].tolist() == list(range(4 * j, 4 * j + 4))
    column = np.arange(7, dtype=np.float32)[None, :]
    assert np.array_equal(order.join(order.split(column)), np.broadcast_to(column, (5, 7)))
