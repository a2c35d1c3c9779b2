"""Layers with the names of torch.nn."""

import numpy as np
import pytest

from diastole import nn
from diastole.nn.layers import Linear
from diastole_sim.graph.gradients import evaluate
from support.graphs import random_values


def lines(graph):
    return [(str(node), *node.operands, node.shape) for node in graph.nodes]


def test_a_residual():
    body = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    graph = nn.trace(nn.Residual(body, nn.Linear(3, 3)), (3,), batch=2)
    assert lines(graph) == [
        ("body.0 (linear)", "input", "body.0.weight", "body.0.bias", (2, 3)),
        ("body.1 (relu)", "body.0", (2, 3)),
        ("shortcut (linear)", "input", "shortcut.weight", "shortcut.bias", (2, 3)),
        ("add (add)", "body.1", "shortcut", (2, 3)),
    ]
    graph = nn.trace(nn.Sequential(nn.Residual(nn.Tanh())), (3,), batch=2)
    assert lines(graph) == [
        ("0.body (tanh)", "input", (2, 3)),
        ("0 (add)", "0.body", "input", (2, 3)),
    ]


@pytest.mark.parametrize(
    "layer",
    [
        nn.ReLU(),
        nn.LeakyReLU(0.5),
        nn.GELU(),
        nn.GELU("tanh"),
        nn.SiLU(),
        nn.Sigmoid(),
        nn.Tanh(),
        nn.Dropout(0.5),
        nn.Identity(),
    ],
)
def test_layers_keep_the_shape(layer):
    graph = nn.trace(nn.Sequential(nn.Linear(3, 3), layer), (3,), batch=2)
    assert graph.shape(graph.output) == (2, 3)
    values = random_values(np.random.default_rng(0), graph)
    made = evaluate(graph, *values)
    slope = {"LeakyReLU": 0.5, "Identity": 1, "Dropout": 1}.get(type(layer).__name__)
    if slope is not None:
        z = made.values["0"]
        np.testing.assert_array_equal(made.output, np.where(z > 0, z, slope * z))


def test_sizes_of_a_layer():
    with pytest.raises(
        ValueError, match=r"^in_features must be an integer in 1\.\.16777215, not 0$"
    ):
        Linear(0, 3)
    assert Linear(3, 4, bias=False).bias is None
