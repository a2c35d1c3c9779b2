"""Traced networks: names of nodes and parameters, shapes, refusals."""

import numpy as np
import pytest

from diastole import nn
from diastole.nn import functional as F
from diastole_sim.graph.build import read_graph
from diastole_sim.graph.graph import GraphError
from support.graphs import check_gradients, random_values


def lines(graph):
    return [(str(node), *node.operands, node.shape) for node in graph.nodes]


def test_a_sequence():
    net = nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.GELU(), nn.Linear(4, 3, bias=False))
    graph = nn.trace(net, (2, 3), batch=5, loss="cross-entropy")
    assert lines(graph) == [
        ("0 (flatten)", "input", (5, 6)),
        ("1 (linear)", "0", "1.weight", "1.bias", (5, 4)),
        ("2 (gelu)", "1", (5, 4)),
        ("3 (linear)", "2", "3.weight", (5, 3)),
        ("cross_entropy (cross_entropy)", "3", "target", ()),
    ]
    assert {name: (p.shape, p.initial) for name, p in graph.parameters.items()} == {
        "1.weight": ((4, 6), "he"),
        "1.bias": ((4,), "zeros"),
        "3.weight": ((3, 4), "he"),
    }
    assert graph.inputs == {"input": (5, 2, 3), "target": (5,)}
    assert read_graph(graph.record()) == graph


class Own(nn.Module):
    """Two layers that share a weight, one that is frozen, a list of layers, a product."""

    def __init__(self):
        self.first = nn.Linear(4, 4)
        self.again = self.first
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.more = [nn.Linear(4, 4, bias=False), nn.Tanh()]
        self.scale = nn.Parameter((4, 4), initial="ones")

    def forward(self, x):
        y = self.again(F.silu(self.first(x)))
        for layer in self.more:
            y = layer(y)
        return F.linear(0.5 * y, self.scale) * self.frozen(x)


def test_a_module_of_ones_own():
    graph = nn.trace(Own(), (4,), batch=2, loss="l1")
    assert [str(node) for node in graph.nodes] == [
        "first (linear)",
        "silu (silu)",
        "first_1 (linear)",
        "more.0 (linear)",
        "more.1 (tanh)",
        "mul_scalar (mul_scalar)",
        "linear (linear)",
        "frozen (linear)",
        "mul (mul)",
        "l1_loss (l1_loss)",
    ]
    assert {name: p.trainable for name, p in graph.parameters.items()} == {
        "scale": True,
        "first.weight": True,
        "first.bias": True,
        "frozen.weight": False,
        "frozen.bias": False,
        "more.0.weight": True,
    }
    assert graph.nodes[0].operands[1:] == graph.nodes[2].operands[1:]
    check_gradients(graph, *random_values(np.random.default_rng(1), graph))


def test_a_function():
    first, second = nn.Linear(3, 8), nn.Linear(8, 3)
    graph = nn.trace(lambda x: second(F.relu(first(x))) + x, (3,), batch=2, loss="mse")
    assert lines(graph)[:2] == [
        ("linear (linear)", "input", "linear.weight", "linear.bias", (2, 8)),
        ("relu (relu)", "linear", (2, 8)),
    ]
    assert list(graph.parameters) == [
        "linear.weight",
        "linear.bias",
        "linear1.weight",
        "linear1.bias",
    ]


def twice(x):
    return x if x else x * 2


REFUSED = {
    "0 (linear): the input has the shape 2 x 3 x 4, but a linear layer reads batch x features: "
    "flatten the input first": (nn.Sequential(nn.Linear(4, 4)), (3, 4)),
    "input: a network cannot decide by the numbers of a tensor: the machine runs the same commands "
    "for all samples": (twice, (3,)),
    "input: a network cannot walk through the samples of a tensor": (sum, (3,)),
    "the network must return one tensor, not (1, 2)": (lambda x: (1, 2), (3,)),
    "a network can add two tensors of one shape, not a tensor and 1": (lambda x: x + 1, (3,)),
    "a network can multiply two tensors of one shape, not a tensor and [2]": (
        lambda x: x * [2],
        (3,),
    ),
    "linear: a parameter belongs to no module: make the parameter an attribute of a module": (
        lambda x: F.linear(x, nn.Parameter((2, 3))),
        (3,),
    ),
    "linear: an operand must be a tensor, not 3": (lambda x: F.linear(x, 3), (3,)),
    "1.weight: no operation uses the parameter: leave the parameter out; 1.bias: no operation uses "
    "the parameter: leave the parameter out": (None, (3,)),
    "1 (gelu): approximate must be tanh, not none: the machine computes GELU in the tanh form "
    'only, so write GELU(approximate="tanh")': (
        nn.Sequential(nn.Linear(3, 3), nn.GELU("none")),
        (3,),
    ),
}


class Unused(nn.Sequential):
    def forward(self, x):
        return self[0](x)


@pytest.mark.parametrize("message, case", REFUSED.items())
def test_refused_networks(message, case):
    network, sample = case
    network = network or Unused(nn.Linear(3, 3), nn.Linear(3, 3))
    with pytest.raises(GraphError) as raised:
        nn.trace(network, sample, batch=2)
    assert str(raised.value) == message


def test_refused_losses():
    with pytest.raises(GraphError, match=r"^the loss must be one of cross-entropy, mse, l1, "):
        nn.trace(nn.Linear(3, 3), (3,), batch=2, loss="hinge")
    assert Own().frozen.weight.requires_grad is False


def test_a_layer_may_have_the_name_of_the_targets():
    class Own(nn.Module):
        def __init__(self):
            self.target = nn.Linear(3, 2)

        def forward(self, x):
            return self.target(x)

    graph = nn.trace(Own(), (3,), batch=4, loss="mse")
    assert list(graph.inputs) == ["input", "target_1"]
    assert graph.nodes[-1].operands == ("target", "target_1")
