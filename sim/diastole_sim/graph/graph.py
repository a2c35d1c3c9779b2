"""Describe a network as a graph: nodes, each an operation, with parameters by dotted names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from diastole_sim.graph.operations.operation import Attributes, Shape
from diastole_sim.spec.require import require_choice

HE, ZEROS, ONES = "he", "zeros", "ones"
INITIALS = (HE, ZEROS, ONES)
"""Initial values of a parameter: uniform as He et al. draw weights, all 0, or all 1."""


class GraphError(ValueError):
    """Report a network that is no graph. ``problems``: all mistakes, each a sentence that begins
    with the name of the node."""

    def __init__(self, *problems: str):
        self.problems = problems
        super().__init__("; ".join(problems))


@dataclass(frozen=True, kw_only=True)
class GraphParameter:
    """Parameter of a network.

    - ``name``: dotted name, as in PyTorch's ``state_dict``.
    - ``shape``: shape as in PyTorch. A weight has outputs first.
    - ``initial``: one of :data:`INITIALS`.
    - ``trainable``: False for a frozen parameter, which has no gradient.
    """

    name: str
    shape: Shape
    initial: str = HE
    trainable: bool = True

    def __post_init__(self) -> None:
        require_choice("initial", self.initial, INITIALS)


@dataclass(frozen=True, kw_only=True)
class Node:
    """Operation of a graph.

    - ``name``: name of the node and of the result. Names are unique in a graph.
    - ``operation``: name of the operation.
    - ``operands``: names of the inputs, parameters and nodes that the operation reads.
    - ``attributes``: every attribute of the operation.
    - ``shape``: shape of the result; axis 0 is the batch.
    """

    name: str
    operation: str
    operands: tuple[str, ...]
    attributes: Attributes = field(default_factory=dict[str, Any])
    shape: Shape

    def __str__(self) -> str:
        return f"{self.name} ({self.operation})"


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Network with inputs, parameters and nodes in an order in which every operand comes before the
    node that reads the operand.

    - ``inputs``: shapes by name, with the batch as axis 0.
    - ``parameters``: parameters by name, in the order of the modules.
    - ``output``: name of the result.

    :class:`diastole_sim.graph.build.GraphBuilder` makes and checks a graph.
    """

    inputs: Mapping[str, Shape]
    parameters: Mapping[str, GraphParameter]
    nodes: tuple[Node, ...]
    output: str

    def shape(self, name: str) -> Shape:
        """Return the shape of an input, a parameter or a result."""
        if name in self.inputs:
            return self.inputs[name]
        if name in self.parameters:
            return self.parameters[name].shape
        return self._nodes[name].shape

    @property
    def batch(self) -> int:
        """Number of samples."""
        return next(iter(self.inputs.values()))[0]

    @cached_property
    def _nodes(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def differentiated(self) -> frozenset[str]:
        """Names of the trainable parameters, and of all results that depend on a trainable
        parameter. Only these tensors have a gradient: nothing below the lowest trained layer
        has."""
        names = {name for name, each in self.parameters.items() if each.trainable}
        for node in self.nodes:
            if names.intersection(node.operands):
                names.add(node.name)
        return frozenset(names)

    def record(self) -> dict[str, Any]:
        """Return the graph as a JSON value, which :func:`diastole_sim.graph.build.read_graph`
        reads."""
        return {
            "inputs": {name: list(shape) for name, shape in self.inputs.items()},
            "parameters": [
                {
                    "name": each.name,
                    "shape": list(each.shape),
                    "initial": each.initial,
                    "trainable": each.trainable,
                }
                for each in self.parameters.values()
            ],
            "nodes": [
                {
                    "name": node.name,
                    "operation": node.operation,
                    "operands": list(node.operands),
                    "attributes": dict(node.attributes),
                }
                for node in self.nodes
            ],
            "output": self.output,
        }
