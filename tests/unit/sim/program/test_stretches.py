"""Rows that a host sends: which rows, in which order, before which step."""

import numpy as np

from diastole_sim.program.stretches import TrainingStretches


def test_rows_of_a_stretch():
    rows = np.arange(20, dtype=np.uint8).reshape(5, 4)
    order = np.array([3, 1, 3]), np.array([0])
    sent = TrainingStretches(order=order, tensors={"a": rows, "b": rows + 100}, steps=3)
    found = dict(sent.of(0))
    assert found["a"].tolist() == [*range(12, 16), *range(4, 8), *range(12, 16)]
    assert found["b"].tolist() == [100 + each for each in found["a"]]
    assert dict(sent.of(1))["a"].tolist() == [0, 1, 2, 3]


def test_steps_of_a_stretch():
    sent = TrainingStretches(order=(), tensors={}, steps=3)
    assert [sent.number(step) for step in range(7)] == [0, 0, 0, 1, 1, 1, 2]
    assert [sent.end(step) for step in range(7)] == [3, 3, 3, 6, 6, 6, 9]
