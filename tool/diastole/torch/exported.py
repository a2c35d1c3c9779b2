"""Turn a PyTorch module into a graph, through ``torch.export``."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diastole.nn.tracing import with_loss
from diastole_sim.graph.build import GraphBuilder
from diastole_sim.graph.graph import Graph, GraphError, GraphParameter
from diastole_sim.graph.operations.operation import Shape
from diastole_sim.graph.perceptron import INPUT
from diastole_sim.program.chains.losses import ElementLoss

_LINE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
Parameters = Mapping[str, NDArray[np.float32]]


def exported_graph(
    module: torch.nn.Module, sample: Shape, *, batch: int, loss: str | ElementLoss
) -> tuple[Graph, Parameters]:
    """Return the graph of a module, and the module's parameters by the names of ``state_dict``.

    - ``sample``: shape of a sample, without the batch.
    - ``loss``: one of :data:`diastole.nn.tracing.LOSSES`, or a loss of the user.

    A parameter without ``requires_grad`` is frozen. GraphError for all operators that have no
    operation, with their lines, and for everything that a graph refuses.
    """
    example = torch.zeros(batch, *sample)
    try:
        program = torch.export.export(module, (example,))
    except Exception as error:  # whatever the module does
        raise GraphError(f"torch.export cannot read the module: {_first_line(error)}") from error
    exported = _Exported(program, module)
    output = exported.build()
    graph = with_loss(exported.builder, output, loss)
    arrays = {
        name: value.detach().numpy().astype(np.float32)
        for name, value in module.named_parameters(remove_duplicate=False)
        if name in graph.parameters
    }
    return graph, arrays


class _Exported:
    """Graph under construction from an exported program."""

    def __init__(self, program: Any, module: torch.nn.Module):
        self.program, self.builder = program, GraphBuilder()
        self.values: dict[str, str] = {}
        self.problems: list[str] = []
        self._parameters = dict(module.named_parameters(remove_duplicate=False))

    def build(self) -> str:
        """Add all nodes, and return the name of the result."""
        signature = self.program.graph_signature
        output = None
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node, signature)
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                results = node.args[0]
                if len(results) != 1:
                    raise GraphError(f"the module must return one tensor, not {len(results)}")
                output = self.values.get(results[0].name)
        if self.problems:
            raise GraphError(*self.problems)
        assert output is not None
        return output

    def _placeholder(self, node: Any, signature: Any) -> None:
        if node.name in signature.inputs_to_parameters:
            name = signature.inputs_to_parameters[node.name]
            value = self._parameters[name]
            self.values[node.name] = self.builder.parameter(
                GraphParameter(
                    name=name, shape=tuple(value.shape), trainable=bool(value.requires_grad)
                )
            )
        elif node.name in signature.user_inputs:
            shape = tuple(int(side) for side in node.meta["val"].shape)
            self.values[node.name] = self.builder.input(INPUT, shape)
        else:
            self.problems.append(f"{node.name}: a module with buffers has no graph")

    def _call(self, node: Any) -> None:
        """Add the operation of a node, or note why the node has none."""
        operator = str(node.target)
        found = OPERATORS.get(operator.replace("_.", "."))
        if found is None:
            self.problems.append(f"{_place(node)}: {operator} has no operation of a graph")
            self.values[node.name] = node.name
            return
        if self.problems:  # the operands may be unknown
            self.values[node.name] = node.name
            return
        name, operands, attributes = found(node)
        missing = [each for each in operands if not isinstance(each, torch.fx.Node)]
        if missing:
            raise GraphError(f"{_place(node)}: {operator} of {missing[0]!r:.60} has no operation")
        self.values[node.name] = self.builder.node(
            name, [self.values[each.name] for each in operands], attributes, name=_path(node)
        )


Operation = tuple[str, list[Any], dict[str, Any]]


def _plain(name: str) -> Callable[[Any], Operation]:
    """Return the operation of an operator whose arguments are all operands."""
    return lambda node: (name, [each for each in node.args if each is not None], {})


def _sum(node: Any) -> Operation:
    if node.kwargs.get("alpha", 1) != 1:
        raise GraphError(f"{_place(node)}: a sum with alpha has no operation")
    return "add", list(node.args), {}


def _product(node: Any) -> Operation:
    first, second = node.args
    if isinstance(second, (int, float)):
        return "mul_scalar", [first], {"other": float(second)}
    return "mul", [first, second], {}


def _leaky(node: Any) -> Operation:
    slope = node.args[1] if len(node.args) > 1 else 0.01
    return "leaky_relu", [node.args[0]], {"negative_slope": float(slope)}


def _gelu(node: Any) -> Operation:
    return "gelu", [node.args[0]], {"approximate": node.kwargs.get("approximate", "none")}


def _dropout(node: Any) -> Operation:
    return "dropout", [node.args[0]], {"p": float(node.args[1])}


def _flatten(node: Any) -> Operation:
    source, *given = node.args
    first, last = [*given, *(0, -1)[len(given) :]]
    return "flatten", [source], {"start_dim": int(first), "end_dim": int(last)}


def _view(node: Any) -> Operation:
    """A view that joins all axes but the batch is a flatten."""
    shape, source = tuple(node.meta["val"].shape), tuple(node.args[0].meta["val"].shape)
    if len(shape) != 2 or shape[0] != source[0]:
        raise GraphError(
            f"{_place(node)}: a view may join all axes but the batch, not give {list(shape)} from "
            f"{list(source)}"
        )
    if shape == source:
        return "mul_scalar", [node.args[0]], {"other": 1.0}
    return "flatten", [node.args[0]], {}


OPERATORS: Mapping[str, Callable[[Any], Operation]] = {
    "aten.linear.default": _plain("linear"),
    "aten.add.Tensor": _sum,
    "aten.mul.Tensor": _product,
    "aten.relu.default": _plain("relu"),
    "aten.leaky_relu.default": _leaky,
    "aten.gelu.default": _gelu,
    "aten.silu.default": _plain("silu"),
    "aten.sigmoid.default": _plain("sigmoid"),
    "aten.tanh.default": _plain("tanh"),
    "aten.flatten.using_ints": _flatten,
    "aten.view.default": _view,
    "aten.reshape.default": _view,
    "aten.dropout.default": _dropout,
}
"""Operation, operands and attributes by operator of PyTorch."""


def _path(node: Any) -> str:
    """Return the name of the module that a node belongs to, or of the node."""
    modules: dict[str, tuple[str, Any]] = node.meta.get("nn_module_stack") or {}
    path = [each for each, _ in modules.values()][-1:]
    return "".join(path) or str(node.name)


def _place(node: Any) -> str:
    """Return the line of the user's code that made a node."""
    lines = str(node.meta.get("stack_trace") or "").splitlines()
    files = [found for line in lines if (found := _LINE.search(line))]
    own = [found for found in files if "/torch/nn/" not in found["file"]]
    return f"{own[-1]['file']}, line {own[-1]['line']}" if own else _path(node)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
