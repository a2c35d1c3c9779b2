"""Values of fully connected layers, by hand."""

import numpy as np

from diastole_sim.graph.operations.linear import LinearOp


def test_values():
    x, weight = np.array([[1.0, 2], [3, 4], [5, 6]]), np.array([[1.0, 0], [1, -1]])
    made, _ = LinearOp().value([x, weight, np.array([10.0, 20])], use=None)
    assert made.tolist() == [[11, 19], [13, 19], [15, 19]]
    made, _ = LinearOp().value([x, weight], use=None)
    assert made.tolist() == [[1, -1], [3, -1], [5, -1]]


def test_gradients():
    x, weight = np.array([[1.0, 2], [3, 4], [5, 6]]), np.array([[1.0, 0], [1, -1]])
    _, kept = LinearOp().value([x, weight, np.zeros(2)], use=None)
    above = np.array([[1.0, 0], [0, 1], [1, 1]])
    by_x, by_weight, by_bias = LinearOp().gradient(above, kept, use=None)
    assert by_x.tolist() == [[1, 0], [1, -1], [2, -1]]
    assert by_weight.tolist() == [[6, 8], [8, 10]]
    assert by_bias.tolist() == [2, 2]
