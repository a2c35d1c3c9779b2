"""What layers cost on a machine: cycles and bytes of every product, by the model of the machine."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

from diastole.config.keys import Config
from diastole.files.layers import NamedLayer
from diastole_sim.perf import Estimate, Memory, ModelledMachine
from diastole_sim.perf.choose import choose_nest
from diastole_sim.perf.long import estimate_long
from diastole_sim.perf.machine import LATENCY
from diastole_sim.spec.command import MACHINES_OWN
from diastole_sim.spec.nest import Nest, ProductNests

Product: TypeAlias = tuple[str, int, int, int]
"""An operation, M, N and K."""


class Mapped(Protocol):
    """What ``map`` does with a function and products."""

    def __call__(
        self, function: Callable[[Product], tuple[Nest, Estimate]], products: list[Product], /
    ) -> Iterable[tuple[Nest, Estimate]]: ...


PHASES = ("forward", "dx", "dw", "backward")
USUAL = 512
"""Side of a product of usual size."""
BINDS = 0.9
"""Of the cycles, from which on what is busy so long is what a product is bound by."""


@dataclass(frozen=True, kw_only=True)
class LayerCost:
    """A phase of a layer. ``found`` is of one of ``repeats``."""

    name: str
    phase: str
    repeats: int
    nest: Nest
    ports: int
    found: Estimate

    @property
    def cycles(self) -> int:
        return self.repeats * self.found.cycles

    @property
    def macs(self) -> int:
        return self.repeats * self.found.macs

    @property
    def bound(self) -> str:
        """What keeps the machine busy: its multipliers, which are not all used where a shape does
        not fill them, reading, writing; or none of these, but the wait for them."""
        busy = {
            "multipliers": self.found.slots,
            "reading": self.found.read_beats / self.ports,
            "writing": self.found.write_beats / self.ports,
        }
        name = max(busy, key=lambda each: busy[each])
        if busy[name] < BINDS * self.found.cycles:
            return "start and end"
        if name != "multipliers":
            return name
        used = self.found.macs / (self.found.slots * self.found.multipliers)
        return "multipliers" if used >= BINDS else "shape"

    def record(self) -> dict[str, Any]:
        """For ``--json``: sums of all repeats."""
        found = self.found
        return {
            "name": self.name,
            "phase": self.phase,
            "m": found.m,
            "k": found.k,
            "n": found.n,
            "repeats": self.repeats,
            "order": "fused" if found.fused else str(self.nest),
            "cycles": self.cycles,
            "macs": self.macs,
            "utilisation": found.utilisation,
            "dram_read_bytes": self.repeats * found.read_bytes,
            "dram_write_bytes": self.repeats * found.write_bytes,
            "bound": self.bound,
        }


def modelled(config: Config, latency: int) -> ModelledMachine:
    """The machine of a configuration, behind a memory of ``latency`` cycles."""
    sizes = {"rows": config.array.rows, "cols": config.array.cols} | config.bus.model_dump()
    in_place = config.array.transpose == "in_place"
    memory = Memory.axi(latency)
    return ModelledMachine.of(config.numerics, in_place=in_place, memory=memory, **sizes)


def layer_costs(
    config: Config,
    layers: Iterable[NamedLayer],
    phases: Sequence[str],
    latency: int,
    mapped: Mapped = map,
) -> list[LayerCost]:
    """Of every layer the phases, each alone. Products of the same sizes are looked at once;
    ``mapped``: as ``map``, whoever does the work."""
    machine = modelled(config, latency)
    asked = [
        (layer, (op, layer.m, layer.n, layer.k))
        for layer in layers
        for phase in phases
        for op in parts_of(machine, phase, layer)
    ]
    products = list(dict.fromkeys(key for _, key in asked))
    found = mapped(partial(_cost, machine, config.plan.nests), products)
    known = dict(zip(products, found, strict=True))
    return [
        LayerCost(
            name=layer.name,
            phase=key[0],
            repeats=layer.repeats,
            nest=known[key][0],
            ports=machine.ports,
            found=known[key][1],
        )
        for layer, key in asked
    ]


def usual_use(config: Config) -> str:
    """How busy the machine is with a product of usual size, in words."""
    layer = NamedLayer(name="usual", m=USUAL, k=USUAL, n=USUAL)
    (cost,) = layer_costs(config, [layer], ("forward",), LATENCY)
    return (
        f"model: forward of {USUAL} x {USUAL} x {USUAL} keeps {cost.found.utilisation:.1%} of the "
        f"multipliers busy, bound by {cost.bound}"
    )


def parts_of(machine: ModelledMachine, phase: str, layer: NamedLayer) -> Iterator[str]:
    """The products that a phase is: both gradients apart where they do not go together."""
    if phase == "backward" and not machine.fuses(layer.m, layer.n):
        yield from ("dx", "dw")
    else:
        yield phase


def _cost(machine: ModelledMachine, nests: ProductNests, product: Product) -> tuple[Nest, Estimate]:
    op, m, n, k = product
    limits = nests.of(op)
    nest = MACHINES_OWN if limits is None else choose_nest(machine, limits, op, m, n, k)
    return nest, estimate_long(machine, op, m, n, k, nest)


def total(costs: Sequence[LayerCost]) -> dict[str, Any]:
    """Of all layers, one after the other."""
    cycles, macs = sum(cost.cycles for cost in costs), sum(cost.macs for cost in costs)
    return {
        "cycles": cycles,
        "macs": macs,
        "utilisation": macs / (cycles * costs[0].found.multipliers),
        "dram_read_bytes": sum(cost.repeats * cost.found.read_bytes for cost in costs),
        "dram_write_bytes": sum(cost.repeats * cost.found.write_bytes for cost in costs),
        "bound": {
            bound: sum(cost.cycles for cost in costs if cost.bound == bound) / cycles
            for bound in sorted({cost.bound for cost in costs})
        },
    }
