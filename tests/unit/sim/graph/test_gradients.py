"""Gradients of every operation and of graphs at random, by central differences."""

import numpy as np
import pytest

from diastole_sim.graph.build import GraphBuilder
from diastole_sim.graph.gradients import differentiate, evaluate
from diastole_sim.graph.graph import GraphError, GraphParameter
from diastole_sim.graph.operations.operation import StepDraws
from diastole_sim.graph.operations.own import attributes_of, loss_attributes
from diastole_sim.graph.operations.table import OPERATIONS
from diastole_sim.program.chains.activations import tanh
from diastole_sim.program.chains.losses import ElementLoss
from support.graphs import LOSSES, check_gradients, random_graph, random_values

CUBED = ElementLoss(
    name="cubed",
    text="""
        r0 = add s0 -s1
        r4 = mul r0 r0
        r1 = mul r0 r4
        r3 = mul r4 K[3]
    """,
    constants={"3": 3.0},
)
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
    "own_activation": attributes_of(tanh()),
    "own_loss": loss_attributes(CUBED),
}
EVERY_LOSS = (*LOSSES, "own_loss")


def of_parameters(name):
    """A graph of one operation of parameters, and of the mean of its squares."""
    builder = GraphBuilder()
    operands = OPERATIONS[name].operands
    count = len(operands) - (name in EVERY_LOSS)
    shapes = SHAPES.get(name, ((5, 3),) * count)
    made = [
        builder.parameter(GraphParameter(name=each, shape=shape))
        for each, shape in zip(operands[:count], shapes, strict=True)
    ]
    if name in EVERY_LOSS:
        shape = shapes[0][:1] if name == "cross_entropy" else shapes[0]
        made.append(builder.input("target", shape))
    result = builder.node(name, made, ATTRIBUTES.get(name))
    if name not in EVERY_LOSS:
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
        weight = GraphParameter(name=f"{number}.weight", shape=(4, 4), trainable=trainable)
        value = builder.node("linear", [value, builder.parameter(weight)], name=str(number))
    graph = builder.graph(builder.node("mse_loss", [value, builder.input("target", (3, 4))]))
    assert graph.differentiated == {"1.weight", "1", "2", "mse_loss"}
    inputs, parameters = random_values(np.random.default_rng(0), graph)
    assert set(differentiate(evaluate(graph, inputs, parameters))) == {
        "1.weight",
        "1",
        "2",
        "mse_loss",
    }
    check_gradients(graph, inputs, parameters)


def test_sums_at_a_fan_out_are_in_the_order_of_the_readers():
    """2^24 + 1 + 1 is 2^24 in float32 from left to right, and 2^24 + 2 from right to left."""
    builder = GraphBuilder()
    value = builder.parameter(GraphParameter(name="p", shape=(1, 1)))
    parts = [builder.node("mul_scalar", [value], {"other": each}) for each in (2.0**24, 1.0, 1.0)]
    ended = builder.node("add", [builder.node("add", [parts[2], parts[1]]), parts[0]])
    graph = builder.graph(ended)
    made = differentiate(evaluate(graph, {}, {"p": np.ones((1, 1), np.float32)}))
    assert made["p"].dtype == np.float32
    assert made["p"] == 2.0**24


def test_a_value_that_one_operation_reads_twice():
    builder = GraphBuilder()
    value = builder.parameter(GraphParameter(name="p", shape=(1, 1)))
    graph = builder.graph(builder.node("mul", [value, value]))
    made = differentiate(evaluate(graph, {}, {"p": np.full((1, 1), 3.0)}), np.full((1, 1), 2.0))
    assert made["p"] == 12


def test_float32_stays_float32():
    rng = np.random.default_rng(5)
    graph = random_graph(rng, 8)
    inputs, parameters = random_values(rng, graph)
    singles = [
        {name: a if a.dtype.kind == "i" else a.astype(np.float32) for name, a in each.items()}
        for each in (inputs, parameters)
    ]
    evaluation = evaluate(graph, *singles, StepDraws(seed=1, step=2))
    kinds = {a.dtype for name, a in evaluation.values.items() if name != "target"}
    assert kinds == {np.dtype(np.float32)}
    assert {a.dtype for a in differentiate(evaluation).values()} == {np.dtype(np.float32)}


def test_arrays_that_do_not_fit():
    builder = GraphBuilder()
    value = builder.input("input", (2, 3))
    graph = builder.graph(
        builder.node("linear", [value, builder.parameter(GraphParameter(name="w", shape=(4, 3)))])
    )
    with pytest.raises(GraphError) as raised:
        evaluate(graph, {"input": np.zeros((3, 2)), "other": np.zeros(1)}, {"w": np.zeros((4, 3))})
    assert raised.value.problems == (
        "input: the input has the shape [3, 2], but the graph needs [2, 3]",
        "other: the graph has no such input",
    )
    with pytest.raises(GraphError, match=r"^w: the parameter is missing$"):
        evaluate(graph, {"input": np.zeros((2, 3))}, {})
