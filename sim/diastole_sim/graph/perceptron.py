"""Make the graph of a perceptron: linear layers with activations between them."""

from collections.abc import Sequence
from itertools import pairwise

from diastole_sim.graph.build import GraphBuilder
from diastole_sim.graph.graph import ZEROS, Graph, GraphParameter
from diastole_sim.graph.operations.own import attributes_of
from diastole_sim.program.chains.activations import Activation

INPUT, TARGET = "input", "target"
"""Names of the inputs of a graph: the samples, and the labels or numbers to learn."""


def perceptron_graph(
    widths: Sequence[int],
    *,
    batch: int,
    activation: str | Activation = "relu",
    loss: str = "cross_entropy",
) -> Graph:
    """Return a perceptron with the names of torch.nn.Sequential.

    - ``widths``: features, units of each hidden layer, and size of the result.
    - ``activation``: operation between two layers, or an activation of
      the user.
    - ``loss``: operation of the loss.
    """
    builder, number = GraphBuilder(), 0
    last = builder.input(INPUT, (batch, widths[0]))
    for layer, (inputs, outputs) in enumerate(pairwise(widths)):
        if layer and isinstance(activation, Activation):
            attributes = attributes_of(activation)
            last = builder.node("own_activation", [last], attributes, name=str(number))
        elif layer:
            last = builder.node(str(activation), [last], name=str(number))
        number += bool(layer)
        parameters = [
            builder.parameter(GraphParameter(name=f"{number}.weight", shape=(outputs, inputs))),
            builder.parameter(
                GraphParameter(name=f"{number}.bias", shape=(outputs,), initial=ZEROS)
            ),
        ]
        last = builder.node("linear", [last, *parameters], name=str(number))
        number += 1
    labels = loss == "cross_entropy"
    target = builder.input(TARGET, (batch,) if labels else (batch, widths[-1]))
    return builder.graph(builder.node(loss, [last, target]))
