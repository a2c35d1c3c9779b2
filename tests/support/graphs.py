"""Graphs at random, and gradients by central differences."""

import numpy as np

from diastole_sim.graph.build import GraphBuilder
from diastole_sim.graph.gradients import differentiate, evaluate
from diastole_sim.graph.graph import GraphParameter
from diastole_sim.graph.operations.operation import StepDraws

STEP = 1e-6
ONE_OPERAND = (
    ("relu", {}),
    ("leaky_relu", {"negative_slope": 0.2}),
    ("gelu", {}),
    ("silu", {}),
    ("sigmoid", {}),
    ("tanh", {}),
    ("dropout", {"p": 0.25}),
    ("mul_scalar", {"other": -1.5}),
)
LOSSES = ("cross_entropy", "mse_loss", "l1_loss", "smooth_l1_loss")


def random_graph(rng, depth, *, dropout=True):
    """A graph of some layers, with values that several operations read, frozen parameters, a
    parameter that two layers share, and a loss. ``dropout``: whether elements may be dropped."""
    builder, batch = GraphBuilder(), int(rng.integers(1, 6))
    values = [builder.input("input", (batch, int(rng.integers(1, 8))))]
    weights = []

    def linear(value, outputs):
        number, inputs = len(weights), builder.shape(value)[1]
        shared = [name for name, shape in weights if shape == (outputs, inputs)]
        if shared and rng.random() < 0.5:
            weight = shared[0]
        else:
            frozen = rng.random() < 0.25
            weight = builder.parameter(
                GraphParameter(
                    name=f"{number}.weight", shape=(outputs, inputs), trainable=not frozen
                )
            )
        weights.append((weight, (outputs, inputs)))
        if rng.random() < 0.5:
            return builder.node("linear", [value, weight])
        bias = builder.parameter(GraphParameter(name=f"{number}.bias", shape=(outputs,)))
        return builder.node("linear", [value, weight, bias])

    for _ in range(depth):
        value = values[int(rng.integers(max(0, len(values) - 3), len(values)))]
        kind = int(rng.integers(4))
        same = [each for each in values if builder.shape(each) == builder.shape(value)]
        if kind == 0:
            made = linear(value, int(rng.integers(1, 8)))
        elif kind == 1:
            other = same[int(rng.integers(len(same)))]
            made = builder.node(("add", "mul")[int(rng.integers(2))], [value, other])
        else:
            choices = [each for each in ONE_OPERAND if dropout or each[0] != "dropout"]
            operation, attributes = choices[int(rng.integers(len(choices)))]
            made = builder.node(operation, [value], attributes)
        values.append(made)
    read = {operand for node in builder.nodes for operand in node.operands}
    classes = int(rng.integers(2, 5))
    total = None
    for value in (each for each in values if each not in read):
        ended = linear(value, classes)
        total = ended if total is None else builder.node("add", [total, ended])
    loss = LOSSES[int(rng.integers(len(LOSSES)))]
    shape = builder.shape(total)
    target = builder.input("target", shape[:1] if loss == "cross_entropy" else shape)
    return builder.graph(builder.node(loss, [total, target]))


def random_values(rng, graph):
    """Inputs, labels and parameters for a graph, by name, in float64."""
    inputs = {name: rng.standard_normal(shape) for name, shape in graph.inputs.items()}
    last = graph.nodes[-1]
    if last.operation == "cross_entropy":
        inputs["target"] = rng.integers(0, graph.shape(last.operands[0])[1], graph.batch)
    parameters = {name: rng.standard_normal(each.shape) for name, each in graph.parameters.items()}
    return inputs, parameters


def check_gradients(graph, inputs, parameters, draws=None, tolerance=2e-7):
    """Compare the gradient by every element of every trainable parameter with the central
    difference of the output, a single number."""
    draws = draws or StepDraws(seed=3, step=5)
    made = differentiate(evaluate(graph, inputs, parameters, draws))
    for name, parameter in graph.parameters.items():
        if not parameter.trainable:
            assert name not in made, f"{name} is frozen, but has a gradient"
            continue
        for place in np.ndindex(parameter.shape):
            ends = []
            for side in (STEP, -STEP):
                moved = {**parameters, name: parameters[name].copy()}
                moved[name][place] += side
                ends.append(float(evaluate(graph, inputs, moved, draws).output))
            slope = (ends[0] - ends[1]) / (2 * STEP)
            error = abs(slope - made[name][place])
            scale = max(1, abs(slope), abs(ends[0]))
            assert error <= tolerance * scale, f"{name}{list(place)}: {made[name][place]}, {slope}"
