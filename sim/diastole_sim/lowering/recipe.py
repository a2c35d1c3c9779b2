"""Describe a training: the graph, the optimiser, the order of the samples, and the options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from diastole_sim.graph.graph import Graph, GraphError, Node
from diastole_sim.graph.operations.linear import LinearOp
from diastole_sim.graph.operations.operation import ElementOperation, LossOperation
from diastole_sim.graph.operations.table import OPERATIONS
from diastole_sim.program.chain import Chain
from diastole_sim.program.chains.updates import Options
from diastole_sim.program.recipe import Lars, Optimiser
from diastole_sim.spec.require import require_int
from diastole_sim.train.gradient import require_gradient
from diastole_sim.train.loss_scaling import LossScaling
from diastole_sim.train.master import FLOAT32, Master
from diastole_sim.train.precision import Precision

LONGEST_WITH_SUM = 8
"""Most lines of the update of a bias, for an update in one chain with the sum of the gradient."""


class NoParameterError(ValueError):
    """Report a group without a parameter."""


@dataclass(frozen=True, kw_only=True)
class ParameterGroup:
    """Parameters with an optimiser of their own. ``pattern``: pattern of names as in a shell, such
    as ``*.bias``. The optimiser has the state of the recipe's optimiser."""

    pattern: str
    optimiser: Optimiser


@dataclass(frozen=True, kw_only=True)
class TrainingRecipe:
    """Recipe for the training of a network.

    - ``graph``: graph whose result is a loss, with the batch of a microbatch.
    - ``batches``: rows of the training samples for each step, (steps, samples of a step). A step
      adds the gradients of all its microbatches, in their order.
    - ``groups``: parameters with an optimiser of their own. A parameter belongs to the first group
      that matches the name.
    - ``clip``: largest norm of all gradients together.
    - ``precision``: rule for the widths of the named classes; None for the widest.
    - ``master``: format of the parameters in memory. ``gradient``: format of the gradients of
      weights. Only a machine without a vector unit has formats other than float32.
    - ``seed``: seed of the initial weights.
    - ``first``: initial parameters by name, with shapes as in the graph; None for those that the
      graph names.

    GraphError for a graph that no machine can train. NoParameterError for a group without a
    parameter. ValueError without a step.
    """

    graph: Graph
    optimiser: Optimiser
    batches: NDArray[np.int64]
    groups: Sequence[ParameterGroup] = ()
    clip: float | None = None
    loss_scaling: LossScaling | None = None
    precision: Precision | None = None
    master: Master = FLOAT32
    gradient: str = "float32"
    seed: int = 0
    first: Mapping[str, NDArray[np.float32]] | None = None

    def __post_init__(self) -> None:
        _check(self.graph)
        require_int("steps", self.steps, 1, 2**32 - 2)
        require_gradient(self.gradient)
        if self.samples_of_step % self.batch:
            raise GraphError(
                f"the graph is for batches of {self.batch} samples, but a step has "
                f"{self.samples_of_step}"
            )
        trained = [name for name, each in self.graph.parameters.items() if each.trainable]
        matched = {self.group(name) for name in trained}
        for number, group in enumerate(self.groups, 1):
            if number not in matched:
                raise NoParameterError(
                    f"no trained parameter belongs to the group {group.pattern}: the trained "
                    f"parameters are {', '.join(trained)}"
                )

    @property
    def optimisers(self) -> tuple[Optimiser, ...]:
        """Optimiser of the parameters without a group, and optimisers of the groups."""
        return (self.optimiser, *(group.optimiser for group in self.groups))

    def group(self, name: str) -> int:
        """Return the number of a parameter's optimiser in :attr:`optimisers`."""
        matches = (
            number
            for number, group in enumerate(self.groups, 1)
            if fnmatchcase(name, group.pattern)
        )
        return next(matches, 0)

    @property
    def steps(self) -> int:
        return self.batches.shape[0]

    @property
    def samples_of_step(self) -> int:
        return self.batches.shape[1]

    @property
    def batch(self) -> int:
        """Samples of a microbatch."""
        return self.graph.batch

    @property
    def microbatches(self) -> int:
        """Microbatches of a step."""
        return self.samples_of_step // self.batch

    @cached_property
    def linears(self) -> tuple[Node, ...]:
        """Linear layers in order. The number of a layer is the place in this order."""
        return tuple(node for node in self.graph.nodes if node.operation == LinearOp.name)

    @property
    def depth(self) -> int:
        """Number of linear layers."""
        return len(self.linears)

    @property
    def layers_of_step(self) -> int:
        """Number of layers with random bits of their own: the linear layers of all microbatches."""
        return self.depth * self.microbatches

    @property
    def loss_node(self) -> Node:
        """Node of the loss."""
        return next(node for node in self.graph.nodes if node.name == self.graph.output)

    @property
    def loss(self) -> LossOperation:
        operation = OPERATIONS[self.loss_node.operation]
        assert isinstance(operation, LossOperation)
        return operation

    @property
    def result(self) -> str:
        """Name of the network's result, which the loss compares with the target."""
        return self.loss_node.operands[0]

    @property
    def samples(self) -> str:
        """Name of the input that receives samples."""
        target = self.loss_node.operands[1]
        return next(name for name in self.graph.inputs if name != target)

    @property
    def decides(self) -> bool:
        """True if the counts of the monitor decide widths."""
        return self.precision is not None and self.precision.kind == "fast"

    @property
    def waits(self) -> bool:
        """True if updates wait for all gradients."""
        lars = any(isinstance(each, Lars) for each in self.optimisers)
        rounds = self.gradient != "float32"
        return self.clip is not None or self.loss_scaling is not None or lars or rounds

    @property
    def rounds(self) -> bool:
        """True if parameters are rounded when they are stored."""
        return self.master.format is not None

    @property
    def scaled(self) -> bool:
        """True if the gradient of the loss is multiplied by a scale."""
        return self.loss_scaling is not None

    @property
    def sums_first(self) -> bool:
        """True if the gradient of a bias is summed first, and the bias is then updated as a tensor
        of whole blocks.

        An update of one row uses little of a block, so only a short update is done together with
        the sum. Under loss scaling the sum must be known before the first update, since the sum may
        overflow. If gradients are clipped, the sum of all squares shows the overflow.
        """
        if self.scaled and self.clip is None:
            return True
        return self.update(bias=True).text.count("\n") > LONGEST_WITH_SUM

    def update(self, *, bias: bool, image: bool = True, group: int = 0) -> Chain:
        """Return the chain of an optimiser. ``group``: number in :attr:`optimisers`."""
        return self.optimisers[group].chain(
            Options(
                bias=bias,
                image=image,
                clipped=self.clip is not None,
                scaled=self.scaled,
            )
        )

    def columns(self, name: str) -> int:
        """Return the elements of a sample's part of an input or result."""
        return prod(self.graph.shape(name)[1:])


def _check(graph: Graph) -> None:
    """GraphError for a graph that no machine can train: every problem at once."""
    last = next((node for node in graph.nodes if node.name == graph.output), None)
    if last is None or not isinstance(OPERATIONS[last.operation], LossOperation):
        raise GraphError(f"{graph.output}: the result of a training must be a loss")
    target = last.operands[1]
    if target not in graph.inputs or len(graph.inputs) != 2:
        names = ", ".join(graph.inputs)
        raise GraphError(
            f"{last}: a training reads samples and targets, two inputs, and the loss reads the "
            f"targets, but the inputs are {names}"
        )
    problems = [
        problem for node in graph.nodes for problem in _problems(graph, node) if node is not last
    ]
    problems += [
        f"{node}: only the loss reads {target}"
        for node in graph.nodes
        if node is not last and target in node.operands
    ]
    if last.name not in graph.differentiated:
        problems.append(f"{last}: the loss depends on no trainable parameter")
    if problems:
        raise GraphError(*problems)


def _problems(graph: Graph, node: Node) -> Sequence[str]:
    """Return why a machine cannot compute a node."""
    operation = OPERATIONS[node.operation]
    if isinstance(operation, LinearOp):
        x, *parameters = node.operands
        wrong = [each for each in parameters if each not in graph.parameters]
        wrong += [x] if x in graph.parameters else []
        return [
            f"{node}: weight and bias must be parameters and the input a tensor, unlike {each}"
            for each in wrong
        ]
    if not isinstance(operation, ElementOperation):
        kind = node.operation
        return [f"{node}: the machine has no program for {kind} here: leave {kind} out"]
    return [
        f"{node}: only a linear layer reads a parameter such as {each}"
        for each in node.operands
        if each in graph.parameters
    ]
