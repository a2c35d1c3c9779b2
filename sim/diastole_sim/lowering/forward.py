"""Lower the forward pass of a network to products and parts."""

from collections.abc import Callable

from diastole_sim.graph.gradients import draws_tag
from diastole_sim.graph.graph import Node
from diastole_sim.graph.operations.linear import LinearOp
from diastole_sim.graph.operations.operation import ElementOperation
from diastole_sim.graph.operations.table import OPERATIONS
from diastole_sim.lowering.parameters import Parameters
from diastole_sim.lowering.recipe import TrainingRecipe
from diastole_sim.lowering.samples import StoredSamples
from diastole_sim.lowering.schedule import Multiplication, ProgramSchedule
from diastole_sim.lowering.tensors import named
from diastole_sim.program.chains.inputs import add_bias_alone, input_bytes, input_floats
from diastole_sim.program.fusion import ChainPart, Source
from diastole_sim.program.memory_plan import BoundStream
from diastole_sim.spec.stream_table import Descriptor, Kind


def input_part(
    samples: StoredSamples,
    stream: BoundStream,
    value: str,
    rows: int,
    row_list: BoundStream | None = None,
) -> ChainPart:
    """Return the part that reads samples from memory. ``row_list``: list of the rows to gather."""
    shape = rows, samples.inputs.shape[1]
    if samples.are_bytes:
        chain, name = input_bytes().with_values(scale=samples.scale), "bytes"
    else:
        chain, name = input_floats(), "values"
    return ChainPart(
        chain=chain, shape=shape, inputs={name: stream}, outputs={"x": value}, row_list=row_list
    )


class ForwardPass:
    """Forward pass for a number of samples.

    - ``rows``: number of samples.
    - ``microbatch``: number of the microbatch, which names of values contain.
    - ``first_layer``: number of the first linear layer. Layers of an evaluation are numbered after
      the layers of the training.
    - ``bias_of``: function that returns the place of a bias, from the name.
    - ``training``: False for an evaluation, in which nothing is random.

    ``value`` gives the value that holds the result of a node. The result of an operation that
    changes nothing is the operand.
    """

    def __init__(
        self,
        recipe: TrainingRecipe,
        parameters: Parameters,
        schedule: ProgramSchedule,
        *,
        rows: int,
        first_layer: int,
        bias_of: Callable[[str], BoundStream],
        microbatch: int = 0,
        training: bool = True,
    ):
        self.training = training
        self.recipe, self.parameters, self.schedule = recipe, parameters, schedule
        self.rows, self.first_layer, self.bias_of = rows, first_layer, bias_of
        self.microbatch = microbatch
        self.value = self._values()

    def named(self, name: str) -> str:
        """Return the name of a value of this microbatch."""
        return named(name, self.microbatch)

    def _values(self) -> dict[str, str]:
        """Return the value of the samples and of every node but the loss."""
        values = {self.recipe.samples: self.named(self.recipe.samples)}
        for node in self.recipe.graph.nodes:
            alias = self._changes_nothing(node)
            values[node.name] = values[node.operands[0]] if alias else self.named(node.name)
        return values

    def kept(self, node: Node) -> str:
        """Return the value that a node keeps for the gradient."""
        return self.named(f"{node.name} kept")

    def write(self) -> None:
        """Append all nodes but the loss."""
        layer = self.first_layer
        for node in self.recipe.graph.nodes:
            if node.operation == LinearOp.name:
                self._linear(node, layer)
                layer += 1
            elif node.name != self.recipe.graph.output:
                self._elements(node)

    def _linear(self, node: Node, layer: int) -> None:
        x, weight, *bias = node.operands
        placed = self.parameters.weights[weight]
        own = self.value[node.name]
        result = self.named(f"{node.name} product") if bias else own
        self.schedule.multiply(
            Multiplication(
                layer=layer,
                operation="forward",
                m=self.rows,
                n=placed.outputs,
                k=placed.inputs,
                operands={"x": self.value[x], "w": placed.image},
                result=result,
            )
        )
        if bias:
            part = ChainPart(
                chain=add_bias_alone(),
                shape=(self.rows, placed.outputs),
                inputs={"y": result, "b": self.bias_of(bias[0])},
                outputs={"z": own},
            )
            self.schedule.add(part)

    def _elements(self, node: Node) -> None:
        if self._changes_nothing(node):
            return
        operation = OPERATIONS[node.operation]
        assert isinstance(operation, ElementOperation)
        chain = operation.forward_chain(node.attributes)
        assert chain is not None
        outputs = {"value": self.value[node.name]}
        if "kept" in chain.outputs:
            outputs["kept"] = self.kept(node)
        names = zip(operation.operands, node.operands, strict=False)
        inputs: dict[str, Source] = {name: self.value[operand] for name, operand in names}
        if operation.random:
            inputs["draws"] = self.draws(node)
        part = ChainPart(
            chain=chain,
            shape=(self.rows, self.recipe.columns(node.name)),
            inputs=inputs,
            outputs=outputs,
        )
        self.schedule.add(part)

    def draws(self, node: Node) -> BoundStream:
        """Return the random numbers of a node in this microbatch."""
        graph = self.recipe.graph
        number = graph.nodes.index(node) + self.microbatch * len(graph.nodes)
        stream = Descriptor(kind=Kind.DRAWS, pitch=draws_tag(number))
        return BoundStream(name=self.named(f"draws of {node.name}"), descriptor=stream)

    def _changes_nothing(self, node: Node) -> bool:
        """Return whether the result of a node is the first operand."""
        operation = OPERATIONS[node.operation]
        if not isinstance(operation, ElementOperation):
            return False
        idle = operation.random and not self.training
        return idle or operation.forward_chain(node.attributes) is None
