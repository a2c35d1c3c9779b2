"""Values of losses, by hand."""

import numpy as np
import pytest

from diastole_sim.graph.build import GraphBuilder
from diastole_sim.graph.gradients import evaluate
from diastole_sim.graph.operations.losses import CrossEntropyOp

LOSS_VALUES = [
    ("cross_entropy", {}, [[0, np.log(3)], [1000, 0]], [1, 0], (np.log(4 / 3) + 0) / 2),
    ("mse_loss", {}, [[1, 2]], [[0, 5]], 5),
    ("l1_loss", {}, [[1, 2]], [[0, 5]], 2),
    ("smooth_l1_loss", {"beta": 2}, [[1, 2]], [[0, 5]], (1 / 4 + 2) / 2),
]


@pytest.mark.parametrize("name, attributes, result, target, wanted", LOSS_VALUES)
def test_losses(name, attributes, result, target, wanted):
    builder = GraphBuilder()
    arrays = {"input": np.array(result, np.float64), "target": np.array(target)}
    operands = [builder.input(each, array.shape) for each, array in arrays.items()]
    graph = builder.graph(builder.node(name, operands, attributes))
    assert evaluate(graph, arrays, {}).output == pytest.approx(wanted, rel=1e-14)


def test_cross_entropy_of_large_logits():
    """exp of the largest logit would overflow."""
    logits, labels = np.array([[1e4, -1e4]]), np.array([1])
    made, _ = CrossEntropyOp().value([logits, labels], use=None)
    assert made == 2e4
