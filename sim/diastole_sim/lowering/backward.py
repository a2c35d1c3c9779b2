"""Lower the backward pass of a network: gradients from the loss to the samples, and updates."""

from collections import defaultdict
from collections.abc import Callable

from diastole_sim.graph.graph import Node
from diastole_sim.graph.operations.linear import LinearOp
from diastole_sim.graph.operations.operation import ElementOperation
from diastole_sim.graph.operations.table import OPERATIONS
from diastole_sim.lowering.forward import ForwardPass
from diastole_sim.lowering.schedule import Multiplication, ProgramSchedule
from diastole_sim.lowering.updates import Updates
from diastole_sim.program.chains.elementwise import added
from diastole_sim.program.chains.sums import panel_sums
from diastole_sim.program.fusion import ChainPart, Source

Place = tuple[int, int]
"""Place of a reader: number of the node, and number of the operand."""


class BackwardPass:
    """Backward pass of a microbatch, with the updates of a step if the microbatch is the last.

    Gradients by a tensor that several nodes read are added in ascending order of the readers. dX of
    a linear layer comes before dW, since the update makes a new W and dX reads the old W. The bias
    of a layer is updated after the next dW, which loads operands in the meantime.
    """

    def __init__(self, forward: ForwardPass, schedule: ProgramSchedule, updates: Updates):
        self.forward, self.schedule, self.updates = forward, schedule, updates
        self.recipe, self.microbatch = forward.recipe, forward.microbatch
        self.graph = self.recipe.graph
        self._parts: dict[str, dict[Place, str]] = defaultdict(dict)
        self._layer = forward.first_layer + self.recipe.depth
        self._readers = _last_readers(self.recipe.linears)
        self._summed: set[str] = set()
        self._later: Callable[[], None] | None = None

    @property
    def gradient(self) -> str:
        """Value of the gradient by the network's result, which the loss computes."""
        return self._name(self.recipe.result, self.recipe.loss_node)

    def write(self) -> None:
        """Append all nodes from the last to the first."""
        self._parts[self.recipe.result][len(self.graph.nodes), 0] = self.gradient
        for number, node in reversed(list(enumerate(self.graph.nodes))):
            if node.operation == LinearOp.name:
                self._layer -= 1
            if node.name == self.graph.output or node.name not in self.graph.differentiated:
                continue
            above = self._sum(node.name)
            if node.operation == LinearOp.name:
                self._linear(node, number, above)
            else:
                self._elements(node, number, above)
        self._update_bias(None)

    def _sum(self, name: str) -> str:
        """Append the sum of all gradients by a tensor, and return the value of the sum."""
        parts = self._parts.pop(name)
        total, *more = (parts[place] for place in sorted(parts))
        for count, part in enumerate(more, 1):
            text = f"{name} gradient" + f", {count + 1} parts" * (count < len(more))
            value = self.forward.named(text)
            part = ChainPart(
                chain=added(),
                shape=self.schedule.shapes[part],
                inputs={"input": total, "other": part},
                outputs={"value": value},
            )
            self.schedule.add(part)
            total = value
        return total

    def _linear(self, node: Node, number: int, above: str) -> None:
        x, weight, *biases = node.operands
        placed = self.forward.parameters.weights[weight]
        sizes = {
            "layer": self._layer,
            "m": self.recipe.batch,
            "n": placed.outputs,
            "k": placed.inputs,
        }
        for bias in biases:
            self._sum_columns(bias, above)
        if x in self.graph.differentiated:
            gradient = self._name(x, node)
            operands = {"w": placed.image, "dy": above}
            self.schedule.multiply(
                Multiplication(operation="dx", operands=operands, result=gradient, **sizes)
            )
            self._parts[x][number, 0] = gradient
        if placed.trainable:
            gradient = self._name(weight, node)
            operands = {"x": self.forward.value[x], "dy": above}
            self.schedule.multiply(
                Multiplication(operation="dw", operands=operands, result=gradient, **sizes)
            )
            self._parts[weight][number, 1] = gradient
            if self._readers[weight] == node.name:
                self.updates.add(placed, self._sum(weight), microbatch=self.microbatch)
        for bias in biases:
            if self._is_last and self._trains(bias) and self._readers[bias] == node.name:
                self._update_bias(bias)

    def _update_bias(self, bias: str | None) -> None:
        """Append the update of the bias that waits, and let another bias wait."""
        if self._later is not None:
            self._later()
        placed = bias and self.forward.parameters.biases[bias]
        self._later = (lambda: self.updates.bias(placed)) if placed else None

    def _sum_columns(self, bias: str, above: str) -> None:
        """Append the sums over the columns of a gradient."""
        placed = self.forward.parameters.biases[bias]
        if placed.sums is None:
            return
        first = self.microbatch == 0 and bias not in self._summed
        before = placed.sums_before if first else placed.sums
        self._summed.add(bias)
        part = ChainPart(
            chain=panel_sums(),
            shape=self.schedule.shapes[above],
            inputs={"values": above, "sums": before},
            outputs={"sums": self.updates.watch(placed.sums)},
        )
        self.schedule.add(part)

    def _elements(self, node: Node, number: int, above: str) -> None:
        operation = OPERATIONS[node.operation]
        assert isinstance(operation, ElementOperation)
        chain = operation.backward_chain(node.attributes)
        operands = dict(zip(operation.operands, node.operands, strict=False))
        wanted = {
            name: operand
            for name, operand in operands.items()
            if operand in self.graph.differentiated
        }
        if chain is None:
            for place, name in enumerate(operands):
                if name in wanted:
                    self._parts[wanted[name]][number, place] = above
            return
        sources: dict[str, Source] = {"above": above, "kept": self.forward.kept(node)}
        if operation.random:
            sources["draws"] = self.forward.draws(node)
        sources |= {name: self.forward.value[operand] for name, operand in operands.items()}
        targets = {name: self._name(operand, node, name) for name, operand in wanted.items()}
        part = ChainPart(
            chain=chain,
            shape=self.schedule.shapes[above],
            inputs={name: sources[name] for name in chain.inputs},
            outputs=targets,
        )
        self.schedule.add(part)
        for place, name in enumerate(operands):
            if name in targets:
                self._parts[wanted[name]][number, place] = targets[name]

    def _name(self, tensor: str, reader: Node, operand: str = "input") -> str:
        """Return the name of the gradient by a tensor that one operand of a node gives."""
        alone = sum(node.operands.count(tensor) for node in self.graph.nodes) == 1
        return self.forward.named(
            f"{tensor} gradient" if alone else f"{tensor} gradient of {reader.name} {operand}"
        )

    @property
    def _is_last(self) -> bool:
        """True for the last microbatch of a step."""
        return self.microbatch == self.recipe.microbatches - 1

    def _trains(self, bias: str) -> bool:
        return bias in self.forward.parameters.sums


def _last_readers(linears: tuple[Node, ...]) -> dict[str, str]:
    """Return the layer whose gradient by a parameter comes last: the first layer that reads the
    parameter."""
    readers: dict[str, str] = {}
    for node in linears:
        for name in node.operands[1:]:
            readers.setdefault(name, node.name)
    return readers
