"""Trace a network: call the network with symbols and record every operation as a graph."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from diastole.nn.module import Module, Parameter
from diastole.nn.symbol import TRACER, Symbol
from diastole_sim.graph.build import GraphBuilder
from diastole_sim.graph.graph import Graph, GraphError, GraphParameter
from diastole_sim.graph.operations.operation import Attribute, Shape
from diastole_sim.graph.operations.own import loss_attributes
from diastole_sim.graph.perceptron import INPUT, TARGET
from diastole_sim.program.chains.losses import ElementLoss

LOSSES = {
    "cross-entropy": "cross_entropy",
    "mse": "mse_loss",
    "l1": "l1_loss",
    "smooth-l1": "smooth_l1_loss",
}
"""Operation of each loss, by the names that users give."""


def trace(
    network: Module | Callable[[Symbol], Symbol],
    sample: Shape,
    *,
    batch: int,
    loss: str | ElementLoss | None = None,
) -> Graph:
    """Return the graph of a network.

    - ``network``: a module, or a function of one symbol.
    - ``sample``: shape of a sample, without the batch.
    - ``loss``: one of :data:`LOSSES` or a loss of a user, which is then the result of the graph;
      None for the result of the network itself.

    GraphError for shapes that do not fit, and for parameters and results that nothing uses.
    """
    traced = _Trace(network if isinstance(network, Module) else None)
    token = TRACER.set(traced)
    try:
        output: Any = network(traced.symbol(traced.builder.input(INPUT, (batch, *sample))))
    finally:
        TRACER.reset(token)
    if not isinstance(output, Symbol):
        raise GraphError(f"the network must return one tensor, not {output!r:.60}")
    if loss is not None:
        return with_loss(traced.builder, output.name, loss)
    return traced.builder.graph(output.name)


def is_labelled(loss: str | ElementLoss) -> bool:
    """Return whether the targets of a loss are labels."""
    return not isinstance(loss, ElementLoss) and LOSSES[loss] == "cross_entropy"


def with_loss(builder: GraphBuilder, output: str, loss: str | ElementLoss) -> Graph:
    """Return the graph with a loss between the result ``output`` and a further input, the target.
    GraphError for an unknown loss."""
    if isinstance(loss, ElementLoss):
        target = builder.input(builder.free(TARGET), builder.shape(output))
        return builder.graph(builder.node("own_loss", [output, target], loss_attributes(loss)))
    if loss not in LOSSES:
        raise GraphError(f"the loss must be one of {', '.join(LOSSES)}, not {loss}")
    operation, shape = LOSSES[loss], builder.shape(output)
    name = builder.free(TARGET)
    target = builder.input(name, shape[:1] if operation == "cross_entropy" else shape)
    return builder.graph(builder.node(operation, [output, target]))


class _Trace:
    """Trace of a network. ``network``: the outermost module, None for a function."""

    def __init__(self, network: Module | None):
        self.builder = GraphBuilder()
        self._paths: dict[int, str] = {}
        self._names: dict[int, str] = {}
        self._modules: list[Module] = []  # so that no identity is used twice
        self._calls: list[str] = []
        if network is not None:
            self._add("", network)

    def _add(self, path: str, module: Module) -> None:
        """Note the names of a module, of all modules within, and of their parameters."""
        self._modules.append(module)
        for inner, each in module.named_modules():
            self._paths.setdefault(id(each), ".".join(filter(None, (path, inner))))
        for name, parameter in module.named_parameters():
            if id(parameter) in self._names:
                continue
            self._names[id(parameter)] = self.builder.parameter(
                GraphParameter(
                    name=".".join(filter(None, (path, name))),
                    shape=parameter.shape,
                    initial=parameter.initial,
                    trainable=parameter.requires_grad,
                )
            )

    def call(self, module: Module, inputs: Sequence[Symbol]) -> Symbol:
        if id(module) not in self._paths:
            self._add(self._new_path(module), module)
        self._calls.append(self._paths[id(module)])
        try:
            return module.forward(*inputs)
        finally:
            self._calls.pop()

    def _new_path(self, module: Module) -> str:
        """Return a name for a module that belongs to no module: the class, with a number if the
        name is in use."""
        kind, number = type(module).__name__.lower(), 0
        paths = set(self._paths.values())
        while (path := f"{kind}{number or ''}") in paths:
            number += 1
        return path

    def symbol(self, name: str) -> Symbol:
        return Symbol(name, self.builder.shape(name), self.record)

    def record(
        self, operation: str, operands: Sequence[Any], attributes: Mapping[str, Attribute]
    ) -> Symbol:
        """Add an operation to the graph. The name of the node is the name of the module that has
        only this operation."""
        names = [self._operand(operation, each) for each in operands]
        path = self._calls[-1] if self._calls else ""
        return self.symbol(self.builder.node(operation, names, attributes, name=path or None))

    def _operand(self, operation: str, operand: Any) -> str:
        if isinstance(operand, Symbol):
            return operand.name
        if isinstance(operand, Parameter):
            if id(operand) not in self._names:
                raise GraphError(
                    f"{operation}: a parameter belongs to no module: make the parameter an "
                    "attribute of a module"
                )
            return self._names[id(operand)]
        raise GraphError(f"{operation}: an operand must be a tensor, not {operand!r:.60}")
