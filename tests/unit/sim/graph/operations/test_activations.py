"""Values of activations, by closed forms and by hand."""

import numpy as np
import pytest

from diastole_sim.graph.build import GraphBuilder
from diastole_sim.graph.gradients import evaluate
from diastole_sim.graph.operations.activations import ActivationOp
from diastole_sim.graph.operations.table import OPERATIONS

VALUES = [
    ("relu", {}, [-1, 0, 2], [0, 0, 2]),
    ("leaky_relu", {}, [-100, 0, 2], [-1, 0, 2]),
    ("sigmoid", {}, [-800, 0, np.log(3), 800], [0, 0.5, 0.75, 1]),
    ("silu", {}, [0, np.log(3)], [0, 0.75 * np.log(3)]),
    ("tanh", {}, [0, np.log(2), -40], [0, 0.6, -1]),
    ("gelu", {}, [-1, 0, 1, 3], [-0.1588080093917, 0, 0.8411919906083, 2.9963626079182]),
]


@pytest.mark.parametrize("name, attributes, arguments, wanted", VALUES)
def test_values(name, attributes, arguments, wanted):
    builder = GraphBuilder()
    value = builder.input("input", (1, len(arguments)))
    graph = builder.graph(builder.node(name, [value], attributes))
    made = evaluate(graph, {"input": np.array([arguments], np.float64)}, {}).output
    np.testing.assert_allclose(made[0], wanted, rtol=1e-11, atol=1e-12)


def test_every_activation_has_values():
    names = {name for name, each in OPERATIONS.items() if isinstance(each, ActivationOp)}
    assert names == {name for name, *_ in VALUES}
