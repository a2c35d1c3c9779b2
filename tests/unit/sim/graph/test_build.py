"""Graphs built node by node and read from JSON values: order, names, and what is refused."""

import copy
import json

import numpy as np
import pytest

from diastole_sim.graph.build import GraphBuilder, read_graph, with_batch
from diastole_sim.graph.graph import GraphError, GraphParameter
from support.graphs import random_graph


def two_layers():
    builder = GraphBuilder()
    value = builder.input("input", (4, 3))
    for number in range(2):
        weight = builder.parameter(GraphParameter(name=f"{number}.weight", shape=(3, 3)))
        value = builder.node("linear", [value, weight], name=str(number))
    return builder.graph(value)


@pytest.mark.parametrize("seed", range(20))
def test_a_record_is_read_back(seed):
    graph = random_graph(np.random.default_rng(seed), 1 + seed % 9)
    assert read_graph(json.loads(json.dumps(graph.record()))) == graph


@pytest.mark.parametrize("seed", range(20))
def test_another_batch(seed):
    """Only the first side of inputs and results changes."""
    graph = random_graph(np.random.default_rng(seed), 1 + seed % 9)
    other = with_batch(graph, 3 * graph.batch)
    assert other.batch == 3 * graph.batch
    assert other.parameters == graph.parameters
    for node, before in zip(other.nodes[:-1], graph.nodes[:-1], strict=True):
        assert node.shape == (3 * before.shape[0], *before.shape[1:])
    assert with_batch(other, graph.batch) == graph


def test_nodes_may_come_in_any_order():
    graph = two_layers()
    record = graph.record()
    record["nodes"].reverse()
    assert read_graph(record) == graph


def test_names_are_numbered():
    builder = GraphBuilder()
    value = builder.input("relu", (4, 3))
    names = [value := builder.node("relu", [value]) for _ in range(3)]
    assert names == ["relu_1", "relu_2", "relu_3"]


def test_shapes():
    builder = GraphBuilder()
    value = builder.input("input", (4, 2, 3, 5))
    assert builder.shape(builder.node("flatten", [value])) == (4, 30)
    assert builder.shape(builder.node("flatten", [value], {"end_dim": 2})) == (4, 6, 5)
    assert builder.shape(builder.node("flatten", [value], {"start_dim": -2})) == (4, 2, 15)
    weight = builder.parameter(GraphParameter(name="w", shape=(7, 30)))
    flat = builder.node("flatten", [value])
    assert builder.shape(builder.node("linear", [flat, weight])) == (4, 7)


NODES = {
    ("linear", (4, 2, 3), (7, 6)): "m (linear): the input has the shape 4 x 2 x 3, but a linear "
    "layer reads batch x features: flatten the input first",
    ("linear", (4, 3), (7, 6)): "m (linear): the input has 3 features, but the weight has the "
    "shape 7 x 6: a weight of outputs x 3 is needed",
    ("linear", (4, 3), (7, 3), (3,)): "m (linear): the bias has the shape 3, but the layer has 7 "
    "outputs",
    ("linear", (4, 3)): "m (linear): the operands are input, weight, bias (the last 1 may be "
    "absent), but 1 came",
    ("add", (4, 3), (4, 1)): "m (add): input has the shape 4 x 3 and other has the shape 4 x 1, "
    "but both shapes must be equal",
    ("mul", (4, 3)): "m (mul): the operands are input, other, but 1 came",
    ("flatten", (4,)): "m (flatten): start_dim and end_dim must name axes from 1 on, in order, of "
    "4, not 1 and -1",
    ("cross_entropy", (4, 3), (3,)): "m (cross_entropy): the input has the shape 4 x 3 and the "
    "target has the shape 3, but cross-entropy reads batch x classes and a label for each sample",
    ("mse_loss", (4, 3), (4,)): "m (mse_loss): input has the shape 4 x 3 and target has the shape "
    "4, but both shapes must be equal",
    (
        "conv9",
        (4, 3),
    ): "m (conv9): the operation must be one of linear, add, mul, mul_scalar, relu, "
    "leaky_relu, gelu, silu, sigmoid, tanh, own_activation, flatten, dropout, cross_entropy, "
    "mse_loss, l1_loss, smooth_l1_loss, own_loss",
}
ATTRIBUTES = {
    ("relu", "slope", 1.0): "m (relu): relu has no attribute, not slope",
    ("leaky_relu", "slope", 1.0): "m (leaky_relu): leaky_relu has negative_slope, not slope",
    ("leaky_relu", "negative_slope", "a"): "m (leaky_relu): negative_slope must be a number, not "
    "'a'",
    ("leaky_relu", "negative_slope", True): "m (leaky_relu): negative_slope must be a number, not "
    "True",
    ("flatten", "start_dim", 1.5): "m (flatten): start_dim must be an integer, not 1.5",
    ("flatten", "start_dim", 0): "m (flatten): start_dim and end_dim must name axes from 1 on, in "
    "order, of 4 x 3, not 0 and -1",
    ("dropout", "p", 1.0): "m (dropout): p must be a number from 0, below 1, not 1.0",
    ("gelu", "approximate", "none"): "m (gelu): approximate must be tanh, not none: the machine "
    'computes GELU in the tanh form only, so write GELU(approximate="tanh")',
    ("smooth_l1_loss", "beta", 0.0): "m (smooth_l1_loss): beta must be a number above 0, not 0.0; "
    "l1_loss is the loss with a beta of 0",
}


@pytest.mark.parametrize("case, message", NODES.items())
def test_refused_nodes(case, message):
    operation, *shapes = case
    builder = GraphBuilder()
    operands = [builder.input(f"p{n}", shape) for n, shape in enumerate(shapes)]
    with pytest.raises(GraphError) as raised:
        builder.node(operation, operands, name="m")
    assert str(raised.value) == message


@pytest.mark.parametrize("case, message", ATTRIBUTES.items())
def test_refused_attributes(case, message):
    operation, name, value = case
    builder = GraphBuilder()
    operands = [builder.input("a", (4, 3))]
    operands += [builder.input("b", (4, 3))] * operation.endswith("loss")
    with pytest.raises(GraphError) as raised:
        builder.node(operation, operands, {name: value}, name="m")
    assert str(raised.value) == message


def test_nothing_is_left_over():
    builder = GraphBuilder()
    value = builder.input("input", (4, 3))
    builder.input("second", (4, 3))
    builder.parameter(GraphParameter(name="w", shape=(3, 3)))
    left = builder.node("relu", [value])
    with pytest.raises(GraphError) as raised:
        builder.graph(builder.node("tanh", [value]))
    assert raised.value.problems == (
        "w: no operation uses the parameter: leave the parameter out",
        "second: no operation uses the input: leave the input out",
        f"{left}: no operation uses the result: leave the result out",
    )


def test_names_and_sides():
    builder = GraphBuilder()
    builder.input("a", (4, 3))
    with pytest.raises(GraphError, match=r"^a: the graph has this name already: rename the input$"):
        builder.input("a", (4, 3))
    with pytest.raises(GraphError, match=r"^w: every side must be an integer in 1\.\."):
        builder.parameter(GraphParameter(name="w", shape=(4, 0)))
    with pytest.raises(ValueError, match=r"^initial must be one of he, zeros, ones, not 'he2'$"):
        GraphParameter(name="w", shape=(4,), initial="he2")


def change(path, value):
    def changed(record):
        *outer, last = path
        for key in outer:
            record = record[key]
        if value is None:
            del record[last]
        else:
            record[last] = value

    return changed


RECORDS = {
    "the graph: the key nodes is missing": change(["nodes"], None),
    "nodes must be a list, not 3": change(["nodes"], 3),
    "a node must be an object, not 7": change(["nodes", 0], 7),
    "a node: name must be a text, not None": change(["nodes", 0, "name"], None),
    "0: operands must be a list, not 'input'": change(["nodes", 0, "operands"], "input"),
    "0: an operand must be a text, not 4": change(["nodes", 0, "operands", 0], 4),
    "0: attributes must be an object, not []": change(["nodes", 0, "attributes"], []),
    "input: the shape must be a list, not 4": change(["inputs", "input"], 4),
    "input: the shape must be integers, not [4, '3']": change(["inputs", "input"], [4, "3"]),
    "input: every side must be an integer in 1..16777215, not [4, -3]": change(
        ["inputs", "input"], [4, -3]
    ),
    "a parameter: name must be a text, not None": change(["parameters", 0, "name"], None),
    "0.weight: trainable must be true or false, not 1": change(["parameters", 0, "trainable"], 1),
    "0.weight: initial must be one of he, zeros, ones, not 5": change(
        ["parameters", 0, "initial"], 5
    ),
    "1 (linear): no input, parameter or node has the name 7": change(
        ["nodes", 1, "operands", 0], "7"
    ),
    "0: the graph has this name already: rename the node": change(["nodes", 1, "name"], "0"),
    "the graph: output must name a node, not 9": change(["output"], "9"),
    "the nodes 0 -> 1 -> 0 are a cycle, but a network has none": change(
        ["nodes", 0, "operands", 0], "1"
    ),
}


@pytest.mark.parametrize("message, changed", RECORDS.items())
def test_refused_records(message, changed):
    record = copy.deepcopy(two_layers().record())
    changed(record)
    with pytest.raises(GraphError) as raised:
        read_graph(record)
    assert str(raised.value) == message


def test_all_unknown_operations_at_once():
    record = two_layers().record()
    record["nodes"][0]["operation"], record["nodes"][1]["operation"] = "conv9", "norm9"
    with pytest.raises(GraphError) as raised:
        read_graph(record)
    first, second = raised.value.problems
    assert first.startswith("0 (conv9): the operation must be one of linear, ")
    assert second.startswith("1 (norm9): the operation must be one of linear, ")
