"""Gradients of every operation and of graphs at random, by central differences."""

import numpy as np
import pytest

from diastole_sim.graph.build import GraphBuilder
from diastole_sim.graph.gradients import evaluate, gradients
from diastole_sim.graph.graph import GraphError, Parameter
from diastole_sim.graph.operations.operation import Draws
from diastole_sim.graph.operations.table import LOSSES, OPERATIONS
from support.graphs import check_gradients, random_graph, random_values

SHAPES = {
    "linear": ((5, 3), (4, 3), (4,)),
    "flatten": ((2, 3, 4),),
    "cross_entropy": ((5, 3),),
}
"""Shapes of the operands with a gradient, where these are not all 5 x 3."""
ATTRIBUTES = {
    "leaky_relu": {"negative_slope": 0.3},
    "mul_scalar": {"other": -2.5},
    "dropout": {"p": 0.375},
    "smooth_l1_loss": {"beta": 0.7},
}


def of_parameters(name):
    """A graph of one operation of parameters, and of the mean of its squares."""
    builder = GraphBuilder()
    operands = OPERATIONS[name].operands
    count = len(operands) - (name in LOSSES)
    shapes = SHAPES.get(name, ((5, 3),) * count)
    made = [
        builder.parameter(Parameter(name=each, shape=shape))
        for each, shape in zip(operands[:count], shapes, strict=True)
    ]
    if name in LOSSES:
        shape = shapes[0][:1] if name == "cross_entropy" else shapes[0]
        made.append(builder.input("target", shape))
    result = builder.node(name, made, ATTRIBUTES.get(name))
    if name not in LOSSES:
        result = builder.node("mse_loss", [result, builder.input("target", builder.shape(result))])
    return builder.graph(result)


@pytest.mark.parametrize("name", OPERATIONS)
def test_gradient_of_an_operation(name):
    rng = np.random.default_rng(len(name))
    graph = of_parameters(name)
    for _ in range(3):
        inputs, parameters = random_values(rng, graph)
        check_gradients(graph, inputs, parameters)


@pytest.mark.parametrize("depth", range(1, 9))
@pytest.mark.parametrize("seed", range(4))
def test_gradient_of_a_graph(depth, seed):
    rng = np.random.default_rng([depth, seed])
    graph = random_graph(rng, depth)
    check_gradients(graph, *random_values(rng, graph))


def test_a_frozen_layer_ends_the_gradients():
    """Nothing below the lowest trained layer has a gradient."""
    builder = GraphBuilder()
    value = builder.input("input", (3, 4))
    for number, trainable in enumerate((False, True, False)):
        weight = Parameter(name=f"{number}.weight", shape=(4, 4), trainable=trainable)
        value = builder.node("linear", [value, builder.parameter(weight)], name=str(number))
    graph = builder.graph(builder.node("mse_loss", [value, builder.input("target", (3, 4))]))
    assert graph.differentiated == {"1.weight", "1", "2", "mse_loss"}
    inputs, parameters = random_values(np.random.default_rng(0), graph)
    assert set(gradients(evaluate(graph, inputs, parameters))) == {"1.weight", "1", "2", "mse_loss"}
    check_gradients(graph, inputs, parameters)


def test_sums_at_a_fan_out_are_in_the_order_of_the_readers():
    """2^24 + 1 + 1 is 2^24 in float32 from left to right, and 2^24 + 2 from right to left."""
    builder = GraphBuilder()
    value = builder.parameter(Parameter(name="p", shape=(1, 1)))
    parts = [builder.node("mul_scalar", [value], {"other": each}) for each in (2.0**24, 1.0, 1.0)]
    ended = builder.node("add", [builder.node("add", [parts[2], parts[1]]), parts[0]])
    graph = builder.graph(ended)
    made = gradients(evaluate(graph, {}, {"p": np.ones((1, 1), np.float32)}))
    assert made["p"].dtype == np.float32
    assert made["p"] == 2.0**24


def test_a_value_that_one_operation_reads_twice():
    builder = GraphBuilder()
    value = builder.parameter(Parameter(name="p", shape=(1, 1)))
    graph = builder.graph(builder.node("mul", [value, value]))
    made = gradients(evaluate(graph, {}, {"p": np.full((1, 1), 3.0)}), np.full((1, 1), 2.0))
    assert made["p"] == 12


def test_float32_stays_float32():
    rng = np.random.default_rng(5)
    graph = random_graph(rng, 8)
    inputs, parameters = random_values(rng, graph)
    singles = [
        {name: a if a.dtype.kind == "i" else a.astype(np.float32) for name, a in each.items()}
        for each in (inputs, parameters)
    ]
    evaluation = evaluate(graph, *singles, Draws(seed=1, step=2))
    kinds = {a.dtype for name, a in evaluation.values.items() if name != "target"}
    assert kinds == {np.dtype(np.float32)}
    assert {a.dtype for a in gradients(evaluation).values()} == {np.dtype(np.float32)}


def test_dropout_is_of_seed_step_and_node():
    builder = GraphBuilder()
    value = builder.input("input", (64, 64))
    first = builder.node("dropout", [value], {"p": 0.25})
    graph = builder.graph(builder.node("dropout", [first], {"p": 0.25}))
    ones = {"input": np.ones((64, 64))}

    def zeros(seed, step):
        values = evaluate(graph, ones, {}, Draws(seed=seed, step=step)).values
        return values[first] == 0, values[graph.output] == 0

    one, both = zeros(1, 1)
    assert abs(one.mean() - 0.25) < 0.02
    assert abs(both.mean() - (1 - 0.75**2)) < 0.02
    assert (zeros(1, 1)[0] == one).all()
    assert (zeros(1, 2)[0] != one).any()
    assert (zeros(2, 1)[0] != one).any()
    alone = evaluate(graph, ones, {}).output
    assert (alone == 1).all(), "an evaluation drops nothing"
    left = evaluate(graph, ones, {}, Draws(seed=1, step=1)).values[first]
    assert set(np.unique(left)) == {0, 1 / 0.75}


VALUES = [
    ("relu", {}, [-1, 0, 2], [0, 0, 2]),
    ("leaky_relu", {}, [-100, 0, 2], [-1, 0, 2]),
    ("sigmoid", {}, [-800, 0, np.log(3), 800], [0, 0.5, 0.75, 1]),
    ("silu", {}, [0, np.log(3)], [0, 0.75 * np.log(3)]),
    ("tanh", {}, [0, np.log(2), -40], [0, 0.6, -1]),
    ("gelu", {}, [-1, 0, 1, 3], [-0.1588080093917, 0, 0.8411919906083, 2.9963626079182]),
    ("mul_scalar", {"other": 3}, [-1, 2], [-3, 6]),
]


@pytest.mark.parametrize("name, attributes, arguments, wanted", VALUES)
def test_values(name, attributes, arguments, wanted):
    builder = GraphBuilder()
    value = builder.input("input", (1, len(arguments)))
    graph = builder.graph(builder.node(name, [value], attributes))
    made = evaluate(graph, {"input": np.array([arguments], np.float64)}, {}).output
    np.testing.assert_allclose(made[0], wanted, rtol=1e-11, atol=1e-12)


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


def test_arrays_that_do_not_fit():
    builder = GraphBuilder()
    value = builder.input("input", (2, 3))
    graph = builder.graph(
        builder.node("linear", [value, builder.parameter(Parameter(name="w", shape=(4, 3)))])
    )
    with pytest.raises(GraphError) as raised:
        evaluate(graph, {"input": np.zeros((3, 2)), "other": np.zeros(1)}, {"w": np.zeros((4, 3))})
    assert raised.value.problems == (
        "input: the input has the shape [3, 2], but the graph needs [2, 3]",
        "other: the graph has no such input",
    )
    with pytest.raises(GraphError, match=r"^w: the parameter is missing$"):
        evaluate(graph, {"input": np.zeros((2, 3))}, {})
