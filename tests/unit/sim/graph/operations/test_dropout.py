"""Random numbers and values of dropout."""

import numpy as np

from diastole_sim.graph.build import GraphBuilder
from diastole_sim.graph.gradients import evaluate
from diastole_sim.graph.operations.dropout import DropoutOp
from diastole_sim.graph.operations.operation import OperationUse, StepDraws


def test_dropout_is_of_seed_step_and_node():
    builder = GraphBuilder()
    value = builder.input("input", (64, 64))
    first = builder.node("dropout", [value], {"p": 0.25})
    graph = builder.graph(builder.node("dropout", [first], {"p": 0.25}))
    ones = {"input": np.ones((64, 64))}

    def zeros(seed, step):
        values = evaluate(graph, ones, {}, StepDraws(seed=seed, step=step)).values
        return values[first] == 0, values[graph.output] == 0

    one, both = zeros(1, 1)
    assert abs(one.mean() - 0.25) < 0.02
    assert abs(both.mean() - (1 - 0.75**2)) < 0.02
    assert (zeros(1, 1)[0] == one).all()
    assert (zeros(1, 2)[0] != one).any()
    assert (zeros(2, 1)[0] != one).any()
    alone = evaluate(graph, ones, {}).output
    assert (alone == 1).all(), "an evaluation drops nothing"
    left = evaluate(graph, ones, {}, StepDraws(seed=1, step=1)).values[first]
    assert set(np.unique(left)) == {0, 1 / 0.75}


def test_a_probability_of_zero_drops_nothing():
    use = OperationUse(attributes={"p": 0.0}, tag=3, draws=StepDraws(seed=0, step=0))
    x = np.arange(600.0).reshape(20, 30)
    made, _ = DropoutOp().value([x], use)
    assert np.array_equal(made, x)
