"""Build graphs node by node, and read graphs from JSON values."""

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, cast

from diastole_sim.graph.graph import Graph, GraphError, GraphParameter, Node
from diastole_sim.graph.operations.operation import (
    Attribute,
    Attributes,
    GraphOperation,
    Shape,
    ShapeError,
)
from diastole_sim.graph.operations.table import OPERATIONS
from diastole_sim.spec.image import MAX_SIZE
from diastole_sim.spec.require import excerpt


class GraphBuilder:
    """Builder of a graph. Nodes are added in the order of their computation."""

    def __init__(self) -> None:
        self.inputs: dict[str, Shape] = {}
        self.parameters: dict[str, GraphParameter] = {}
        self.nodes: list[Node] = []
        self._shapes: dict[str, Shape] = {}

    def input(self, name: str, shape: Shape) -> str:
        """Add an input and return the name."""
        self.inputs[name] = self._add(name, shape, "input")
        return name

    def parameter(self, parameter: GraphParameter) -> str:
        """Add a parameter, unless the graph has the parameter, and return the name."""
        name = parameter.name
        if self.parameters.get(name) != parameter:
            self._add(name, parameter.shape, "parameter")
            self.parameters[name] = parameter
        return name

    def node(
        self,
        operation: str,
        operands: Sequence[str],
        attributes: Attributes | None = None,
        *,
        name: str | None = None,
    ) -> str:
        """Add an operation and return the name of the result. The name is ``name`` or
        ``operation``, with a number if the graph has the name already.

        GraphError for an unknown operation, operands or attributes that the operation does not
        accept, and shapes that do not fit.
        """
        used = self.free(name or operation)
        where = f"{used} ({operation})"
        described = _described(where, operation)
        values = _attributes(where, described, attributes or {})
        _check_operands(where, described, operands)
        shapes = [self.shape(operand) for operand in operands]
        try:
            shape = described.shape(shapes, values)
        except ShapeError as error:
            raise GraphError(f"{where}: {error}") from None
        made = Node(
            name=used,
            operation=operation,
            operands=tuple(operands),
            attributes=values,
            shape=shape,
        )
        self._shapes[used] = shape
        self.nodes.append(made)
        return used

    def shape(self, name: str) -> Shape:
        """Return the shape of an input, a parameter or a result."""
        return self._shapes[name]

    def graph(self, output: str) -> Graph:
        """Return the graph with this result. GraphError for a parameter, an input or a result that
        nothing uses."""
        read = {operand for node in self.nodes for operand in node.operands} | {output}
        problems = [
            f"{name}: no operation uses the {kind}: leave the {kind} out"
            for kind, names in (
                ("parameter", self.parameters),
                ("input", self.inputs),
                ("result", [node.name for node in self.nodes]),
            )
            for name in names
            if name not in read
        ]
        if problems:
            raise GraphError(*problems)
        return Graph(
            inputs=self.inputs,
            parameters=self.parameters,
            nodes=tuple(self.nodes),
            output=output,
        )

    def _add(self, name: str, shape: Shape, kind: str) -> Shape:
        if name in self._shapes:
            raise GraphError(f"{name}: the graph has this name already: rename the {kind}")
        if not all(1 <= side <= MAX_SIZE for side in shape):
            raise GraphError(
                f"{name}: every side must be an integer in 1..{MAX_SIZE}, not {list(shape)}"
            )
        self._shapes[name] = shape
        return shape

    def free(self, name: str) -> str:
        """Return the name, followed by a number if the graph has the name."""
        number, used = 0, name
        while used in self._shapes:
            number += 1
            used = f"{name}_{number}"
        return used


def _described(where: str, operation: str) -> GraphOperation:
    if operation not in OPERATIONS:
        raise GraphError(f"{where}: the operation must be one of {', '.join(OPERATIONS)}")
    return OPERATIONS[operation]


def _attributes(where: str, operation: GraphOperation, values: Attributes) -> dict[str, Attribute]:
    """Return all attributes of an operation, with defaults for absent attributes."""
    for name, value in values.items():
        if name not in operation.attributes:
            known = ", ".join(operation.attributes) or "no attribute"
            raise GraphError(f"{where}: {operation.name} has {known}, not {excerpt(name)}")
        default = operation.attributes[name]
        accepted = (int, float) if isinstance(default, float) else (type(default),)
        if not isinstance(value, accepted) or isinstance(value, bool) != isinstance(default, bool):
            kind = {float: "a number", int: "an integer", str: "a text", bool: "true or false"}
            raise GraphError(
                f"{where}: {name} must be {kind[type(default)]}, not {excerpt(repr(value))}"
            )
    return {
        name: type(default)(values.get(name, default))
        for name, default in operation.attributes.items()
    }


def _check_operands(where: str, operation: GraphOperation, operands: Sequence[str]) -> None:
    most = len(operation.operands)
    if not most - operation.optional <= len(operands) <= most:
        raise GraphError(
            f"{where}: the operands are {', '.join(operation.operands)}"
            + f" (the last {operation.optional} may be absent)" * bool(operation.optional)
            + f", but {len(operands)} came"
        )


def read_graph(record: Any) -> Graph:
    """Return the graph of a JSON value in the form of :meth:`Graph.record`. Nodes may come in any
    order.

    GraphError for every unknown operation at once, a cycle, an operand that does not exist, and
    everything that :class:`GraphBuilder` refuses.
    """
    form = cast(Mapping[str, Any], _of_kind("the graph", record, dict))
    for key in ("inputs", "parameters", "nodes", "output"):
        if key not in form:
            raise GraphError(f"the graph: the key {key} is missing")
    nodes = [_node_form(each) for each in _of_kind("nodes", form["nodes"], list)]
    unknown = [
        f"{node['name']} ({node['operation']}): the operation must be one of "
        f"{', '.join(OPERATIONS)}"
        for node in nodes
        if node["operation"] not in OPERATIONS
    ]
    if unknown:
        raise GraphError(*unknown)
    builder = GraphBuilder()
    for name, shape in _of_kind("inputs", form["inputs"], dict).items():
        builder.input(str(name), _shape_form(str(name), shape))
    for each in _of_kind("parameters", form["parameters"], list):
        builder.parameter(_parameter_form(each))
    for node in _in_order(nodes, {*builder.inputs, *builder.parameters}):
        made = builder.node(
            node["operation"], node["operands"], node.get("attributes", {}), name=node["name"]
        )
        if made != node["name"]:
            raise GraphError(f"{node['name']}: the graph has this name already: rename the node")
    if form["output"] not in {node["name"] for node in nodes}:
        raise GraphError(f"the graph: output must name a node, not {excerpt(form['output'])}")
    return builder.graph(form["output"])


def with_batch(graph: Graph, batch: int) -> Graph:
    """Return a graph for ``batch`` samples, with every shape inferred again."""
    record = graph.record()
    inputs = {name: [batch, *shape[1:]] for name, shape in record["inputs"].items()}
    return read_graph(record | {"inputs": inputs})


def _of_kind(what: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
        raise GraphError(f"{what} must be {names[kind]}, not {excerpt(repr(value))}")
    return value


def _shape_form(name: str, shape: Any) -> Shape:
    sides = _of_kind(f"{name}: the shape", shape, list)
    if not all(isinstance(side, int) and not isinstance(side, bool) for side in sides):
        raise GraphError(f"{name}: the shape must be integers, not {excerpt(repr(shape))}")
    return tuple(sides)


def _parameter_form(value: Any) -> GraphParameter:
    form = _of_kind("a parameter", value, dict)
    name = _of_kind("a parameter: name", form.get("name"), str)
    trainable = _of_kind(f"{name}: trainable", form.get("trainable", True), bool)
    try:
        return GraphParameter(
            name=name,
            shape=_shape_form(name, form.get("shape")),
            initial=form.get("initial", GraphParameter.initial),
            trainable=trainable,
        )
    except GraphError:
        raise
    except ValueError as error:
        raise GraphError(f"{name}: {error}") from None


def _node_form(value: Any) -> dict[str, Any]:
    form = _of_kind("a node", value, dict)
    for key in ("name", "operation"):
        _of_kind(f"a node: {key}", form.get(key), str)
    operands = _of_kind(f"{form['name']}: operands", form.get("operands"), list)
    for each in operands:
        _of_kind(f"{form['name']}: an operand", each, str)
    _of_kind(f"{form['name']}: attributes", form.get("attributes", {}), dict)
    return form


def _in_order(nodes: Sequence[dict[str, Any]], first: set[str]) -> list[dict[str, Any]]:
    """Return the nodes with every operand before its reader. Nodes keep their order where that
    order is possible."""
    known = first | {node["name"] for node in nodes}
    for node in nodes:
        for operand in node["operands"]:
            if operand not in known:
                raise GraphError(
                    f"{node['name']} ({node['operation']}): no input, parameter or node has the "
                    f"name {excerpt(operand)}"
                )
    by_name = {node["name"]: node for node in nodes}
    if len(by_name) < len(nodes):
        names = [node["name"] for node in nodes]
        twice = next(name for name in names if names.count(name) > 1)
        raise GraphError(f"{twice}: the graph has this name already: rename the node")
    numbers = {name: number for number, name in enumerate(by_name)}
    needs = {
        name: [each for each in node["operands"] if each in by_name]
        for name, node in by_name.items()
    }
    sorter = TopologicalSorter(needs)
    try:
        sorter.prepare()
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        raise GraphError(f"the nodes {circle} are a cycle, but a network has none") from None
    ordered: list[dict[str, Any]] = []
    ready: set[str] = set()
    while sorter.is_active():
        ready.update(sorter.get_ready())
        name = min(ready, key=numbers.__getitem__)
        ready.remove(name)
        sorter.done(name)
        ordered.append(by_name[name])
    return ordered
