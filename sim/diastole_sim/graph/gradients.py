"""Compute a graph and its gradients in floating point, without a machine.

The same rules run in float64, as a judge of the machine's programs, and in float32, as the training
without quantisation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from diastole_sim.graph.graph import Graph, GraphError, Node
from diastole_sim.graph.operations.operation import Array, OperationUse, Shape, StepDraws
from diastole_sim.graph.operations.table import OPERATIONS

RANDOM_CLASS = 3
"""Class in the tag 4 * node + class of a node's random numbers. Tensors of products have the
classes 0 to 2."""


def draws_tag(number: int) -> int:
    """Return the tag of the random numbers of a graph's node, from the node's number."""
    return 4 * number + RANDOM_CLASS


def step_draws(graph: Graph, *, seed: int, step: int, microbatches: int = 1) -> StepDraws:
    """Return the random numbers of a step. A node of a further microbatch has a tag of its own,
    behind the tags of all nodes."""
    distance = draws_tag(len(graph.nodes)) - draws_tag(0)
    return StepDraws(seed=seed, step=step, microbatches=microbatches, tags=distance)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Result of a forward pass.

    - ``values``: all inputs, parameters and results by name.
    - ``kept``: everything that the gradient of a node needs, by name of the node.
    """

    graph: Graph
    values: Mapping[str, Array]
    kept: Mapping[str, Any]
    draws: StepDraws | None

    @property
    def output(self) -> Array:
        return self.values[self.graph.output]


def evaluate(
    graph: Graph,
    inputs: Mapping[str, Array],
    parameters: Mapping[str, Array],
    draws: StepDraws | None = None,
) -> Evaluation:
    """Compute a graph.

    - ``inputs``, ``parameters``: arrays by name, with the shapes of the graph. Results have the
      arrays' floating-point type.
    - ``draws``: random numbers of a training step; None for an evaluation, in which nothing is
      random.

    GraphError for an absent array or a different shape.
    """
    values = dict(_checked("input", graph.inputs, inputs))
    shapes = {name: each.shape for name, each in graph.parameters.items()}
    values |= _checked("parameter", shapes, parameters)
    kept: dict[str, Any] = {}
    for number, node in enumerate(graph.nodes):
        operands = [values[name] for name in node.operands]
        operation = OPERATIONS[node.operation]
        values[node.name], kept[node.name] = operation.value(operands, _use(node, number, draws))
    return Evaluation(graph=graph, values=values, kept=kept, draws=draws)


def differentiate(evaluation: Evaluation, above: Array | None = None) -> dict[str, Array]:
    """Return the gradients of the output by name, for everything in ``graph.differentiated``.

    ``above``: gradient by the output, 1 without the argument. Gradients of a tensor that several
    operands read are added in ascending order of the readers.
    """
    graph = evaluation.graph
    output = evaluation.output
    parts: dict[str, dict[tuple[int, int], Array]] = {}
    found: dict[str, Array] = {}
    if graph.output in graph.differentiated:
        found[graph.output] = np.ones_like(output) if above is None else above
    for number, node in reversed(list(enumerate(graph.nodes))):
        if node.name not in graph.differentiated:
            continue
        if node.name not in found:
            found[node.name] = _sum(parts.pop(node.name))
        use = _use(node, number, evaluation.draws)
        rule = OPERATIONS[node.operation].gradient
        by_operand = rule(found[node.name], evaluation.kept[node.name], use)
        for place, (operand, part) in enumerate(zip(node.operands, by_operand, strict=True)):
            if operand in graph.differentiated and part is not None:
                parts.setdefault(operand, {})[number, place] = part
    for name, parameter in graph.parameters.items():
        if parameter.trainable:
            found[name] = _sum(parts.pop(name))
    return found


def _sum(parts: Mapping[tuple[int, int], Array]) -> Array:
    """Return the sum in ascending order of the keys."""
    first, *more = (parts[place] for place in sorted(parts))
    total = first
    for part in more:
        total = total + part
    return total


def _use(node: Node, number: int, draws: StepDraws | None) -> OperationUse:
    return OperationUse(attributes=node.attributes, tag=draws_tag(number), draws=draws)


def _checked(
    kind: str, shapes: Mapping[str, Shape], arrays: Mapping[str, Array]
) -> Mapping[str, Array]:
    """Return the arrays by name. GraphError for an absent array or a different shape."""
    problems: list[str] = []
    for name, shape in shapes.items():
        if name not in arrays:
            problems.append(f"{name}: the {kind} is missing")
        elif arrays[name].shape != shape:
            problems.append(
                f"{name}: the {kind} has the shape {list(arrays[name].shape)}, but the graph needs "
                f"{list(shape)}"
            )
    problems += [f"{name}: the graph has no such {kind}" for name in arrays if name not in shapes]
    if problems:
        raise GraphError(*problems)
    return arrays
