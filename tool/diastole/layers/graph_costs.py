"""Split the modelled cycles of a training step of a graph by layer."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import prod
from typing import Any

from diastole_sim.lowering.recipe import TrainingRecipe
from diastole_sim.perf.step import StepEstimate
from diastole_sim.program.program import TrainingProgram
from diastole_sim.spec.command_table import MULTIPLYING, Opcode

REST = "rest"
"""Name of the commands that belong to no layer: samples, loss, and updates apart from products."""


@dataclass(kw_only=True)
class GraphLayerCost:
    """Cost of a linear layer in a training step, or of the rest of the step.

    - ``shape``: inputs and outputs, None for the rest. ``parameters``: number of weights and
      biases.
    - ``macs``: multiplications of the products of a step, without padding.
    - ``phases``: cycles by product, from the end of the command before to the end of the product.
    - ``causes``: the same cycles by cause, as the counters of a machine have them.
    - ``bytes``: bytes over the bus, without those that conversions read.
    """

    name: str
    shape: tuple[int, int] | None = None
    parameters: int = 0
    macs: int = 0
    phases: Counter[str] = field(default_factory=Counter[str])
    causes: Counter[str] = field(default_factory=Counter[str])
    bytes: int = 0

    @property
    def cycles(self) -> int:
        return sum(self.phases.values())

    def utilisation(self, multipliers: int) -> float:
        """Return the share of multiplier cycles with a multiplication of the layer."""
        return self.macs / (self.cycles * multipliers) if self.cycles else 0.0

    def record(self, multipliers: int) -> dict[str, Any]:
        """Return the cost as plain values."""
        values = asdict(self) | {"phases": dict(self.phases), "causes": dict(self.causes)}
        shape = None if self.shape is None else list(self.shape)
        used = self.utilisation(multipliers)
        return values | {"shape": shape, "cycles": self.cycles, "utilisation": used}


def graph_costs(
    recipe: TrainingRecipe,
    program: TrainingProgram,
    step: StepEstimate,
    *,
    beat_bytes: int,
) -> list[GraphLayerCost]:
    """Return the costs of all linear layers in order, and of the rest of a step. A parameter of
    several layers counts for the first."""
    costs = _layers(recipe)
    rest = GraphLayerCost(name=REST)
    before = 0
    for times, causes in zip(step.commands, step.command_causes(), strict=True):
        layer = program.layers[times.number]
        cost = rest if layer is None else costs[layer]
        command, opcode = program.training[times.number], Opcode(times.opcode)
        phase = MULTIPLYING[opcode].name if opcode in MULTIPLYING else REST
        cost.phases[phase] += times.done - before
        cost.causes.update(causes)
        cost.bytes += times.beats * beat_bytes
        if opcode in MULTIPLYING:
            products = len(MULTIPLYING[opcode].products)
            cost.macs += products * command.m * command.n * command.k
        before = times.done
    rest.phases[REST] += step.cycles - before
    rest.causes["wait_command"] += step.cycles - before
    return [*costs, rest]


def _layers(recipe: TrainingRecipe) -> list[GraphLayerCost]:
    """Return the linear layers without costs."""
    graph, counted = recipe.graph, set[str]()
    costs: list[GraphLayerCost] = []
    for node in recipe.linears:
        names = [name for name in node.operands[1:] if name not in counted]
        counted.update(names)
        outputs, inputs = graph.parameters[node.operands[1]].shape
        parameters = sum(prod(graph.parameters[name].shape) for name in names)
        costs.append(GraphLayerCost(name=node.name, shape=(inputs, outputs), parameters=parameters))
    return costs


def total_of(costs: Sequence[GraphLayerCost]) -> GraphLayerCost:
    """Return the sum of all costs."""
    total = GraphLayerCost(name="step")
    for cost in costs:
        total.parameters += cost.parameters
        total.macs += cost.macs
        total.bytes += cost.bytes
        total.phases.update(cost.phases)
        total.causes.update(cost.causes)
    return total
