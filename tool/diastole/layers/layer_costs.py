"""Cost of layers by the model of a machine: cycles and bytes of every product, and of the
conversions of the operands."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

from diastole.config.keys import Config
from diastole.files.layers import NamedLayer
from diastole.layers.bounds import added_shares, bound_of, cycles_by_cause, shares_of
from diastole_sim.perf import Estimate, Memory, ModelledMachine
from diastole_sim.perf.choose import choose_nest
from diastole_sim.perf.conversion_estimate import ConversionEstimate, estimate_conversion
from diastole_sim.perf.long import estimate_long
from diastole_sim.perf.modelled_machine import LATENCY
from diastole_sim.spec.command import DEFAULT_NEST
from diastole_sim.spec.nest import Nest, ProductNests
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.operations import OPERANDS
from diastole_sim.spec.sizes.uses import WIDEST, Widths

Product: TypeAlias = tuple[str, int, int, int]
"""An operation, M, N and K; or the class of a converted tensor, and M, N and K of its layer."""
NestEstimate: TypeAlias = tuple[Nest, Estimate | ConversionEstimate]


class Mapped(Protocol):
    """Interface of ``map`` for a function and products."""

    def __call__(
        self, function: Callable[[Product], NestEstimate], products: list[Product], /
    ) -> Iterable[NestEstimate]: ...


CONVERT = "convert"
PHASES = ("forward", "dx", "dw", "backward", CONVERT)
OPERAND = {tensor.tensor_class: tensor for tensor in OPERANDS}
USUAL = 512
"""Side of a product of usual size."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Work in time. ``tops``: 10^12 multiplications and additions of unpadded products per second.
    ``gb_per_s``: 10^9 bytes read or written per second."""

    seconds: float
    gb_per_s: float
    tops: float

    @classmethod
    def of(cls, cycles: int, macs: int, moved: int, clock_mhz: float) -> "Rates":
        """Return the pace of ``cycles`` cycles with ``moved`` bytes of traffic."""
        seconds = cycles / (clock_mhz * 1e6)
        return cls(seconds=seconds, gb_per_s=moved / seconds / 1e9, tops=2 * macs / seconds / 1e12)


@dataclass(frozen=True, kw_only=True)
class LayerCost:
    """Cost of a phase of a layer. ``estimate`` is the estimate of one of ``repeats``."""

    name: str
    phase: str
    repeats: int
    nest: Nest
    ports: int
    estimate: Estimate | ConversionEstimate

    @property
    def product(self) -> Estimate | None:
        """Estimate of the product, None for a conversion."""
        return None if isinstance(self.estimate, ConversionEstimate) else self.estimate

    @property
    def what(self) -> str:
        """Name of the work, for people."""
        if isinstance(self.estimate, ConversionEstimate):
            return f"convert {OPERAND[self.estimate.tensor_class].name}"
        return "fused" if self.estimate.fused else self.phase

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes by axis."""
        estimate = self.estimate
        if isinstance(estimate, ConversionEstimate):
            return dict(
                zip(
                    OPERAND[estimate.tensor_class].axes, (estimate.rows, estimate.cols), strict=True
                )
            )
        return {"m": estimate.m, "k": estimate.k, "n": estimate.n}

    @property
    def cycles(self) -> int:
        return self.repeats * self.estimate.cycles

    @property
    def macs(self) -> int:
        return 0 if self.product is None else self.repeats * self.product.macs

    @property
    def passes(self) -> float | None:
        """Mean pairs of planes per multiplication; None for a conversion."""
        return None if self.product is None else self.product.passes

    @property
    def multiplications(self) -> int:
        """Multiplications of the array, counted for every pair of planes."""
        return 0 if self.product is None else self.repeats * self.product.multiplications

    @property
    def utilisation(self) -> float:
        return 0.0 if self.product is None else self.product.utilisation

    @property
    def cycles_by_cause(self) -> dict[str, float]:
        """Cycles of one of the repeats, by cause."""
        return cycles_by_cause(self.estimate)

    @property
    def shares(self) -> dict[str, float]:
        """Causes as parts of all cycles."""
        return shares_of(self.cycles_by_cause)

    @property
    def bound(self) -> str:
        """The multipliers for nine tenths of the cycles or more, or the largest remaining cause."""
        return bound_of(self.shares)

    def pace(self, clock_mhz: float) -> Rates:
        """Return the pace of the layer at a clock."""
        moved = self.repeats * (self.estimate.read_bytes + self.estimate.write_bytes)
        return Rates.of(self.cycles, self.macs, moved, clock_mhz)

    @property
    def _order(self) -> str | None:
        if self.product is None:
            return None
        return "fused" if self.product.fused else str(self.nest)

    def record(self, clock_mhz: float | None = None) -> dict[str, Any]:
        """Return the record for ``--json``: sums of all repeats, and with a clock seconds and
        rates."""
        estimate = self.estimate
        return {
            "name": self.name,
            "phase": self.phase,
            **dict.fromkeys("mkn"),
            **self.sizes,
            "repeats": self.repeats,
            "order": self._order,
            "cycles": self.cycles,
            "macs": self.macs,
            "passes": self.passes,
            "utilisation": self.utilisation,
            "dram_read_bytes": self.repeats * estimate.read_bytes,
            "dram_write_bytes": self.repeats * estimate.write_bytes,
            "bound": self.bound,
            "shares": self.shares,
            **({} if clock_mhz is None else asdict(self.pace(clock_mhz))),
        }


def modelled(config: Config, latency: int) -> ModelledMachine:
    """Return the model of a configuration's machine, with a memory of ``latency`` cycles."""
    memory = Memory.axi(latency)
    return ModelledMachine.of(config.numerics, memory=memory, **config.modelled_sizes)


def layer_costs(
    config: Config,
    layers: Iterable[NamedLayer],
    phases: Sequence[str],
    latency: int,
    mapped: Mapped = map,
    widths: Widths = WIDEST,
) -> list[LayerCost]:
    """Return the costs of the phases of every layer, each phase alone.

    Products of equal sizes are modelled once. ``mapped`` is a function like ``map``, which may work
    in processes. ``widths`` are the widths of all tensors of the classes x, w and dy.
    """
    machine = modelled(config, latency)
    requests = [
        (layer, (op, layer.m, layer.n, layer.k))
        for layer in layers
        for phase in phases
        for op in parts_of(machine, phase, layer, widths)
    ]
    products = list(dict.fromkeys(key for _, key in requests))
    cost = partial(_cost, machine, config.numerics, config.plan.nests, widths)
    results = mapped(cost, products)
    result_of = dict(zip(products, results, strict=True))
    return [
        LayerCost(
            name=layer.name,
            phase=CONVERT if key[0] in OPERAND else key[0],
            repeats=layer.repeats,
            nest=result_of[key][0],
            ports=machine.ports,
            estimate=result_of[key][1],
        )
        for layer, key in requests
    ]


def usual_use(config: Config) -> str:
    """Return how busy the machine is with a product of usual size, in words."""
    layer = NamedLayer(name="usual", m=USUAL, k=USUAL, n=USUAL)
    (cost,) = layer_costs(config, [layer], ("forward",), LATENCY)
    return (
        f"model: forward of {USUAL} x {USUAL} x {USUAL} keeps {cost.utilisation:.1%} of the "
        f"multipliers busy, bound by {cost.bound}"
    )


def parts_of(
    machine: ModelledMachine, phase: str, layer: NamedLayer, widths: Widths = WIDEST
) -> Iterator[str]:
    """Yield the products of a phase, or the classes of the converted tensors. The gradients of
    `backward` are two products where the machine cannot fuse them."""
    if phase == CONVERT:
        yield from OPERAND
    elif phase == "backward" and not machine.fuses(layer.m, layer.n, widths):
        yield from ("dx", "dw")
    else:
        yield phase


def _cost(
    machine: ModelledMachine,
    numerics: Numerics,
    nests: ProductNests,
    widths: Widths,
    product: Product,
) -> NestEstimate:
    op, m, n, k = product
    if op in OPERAND:
        sizes = {"m": m, "n": n, "k": k}
        rows, cols = (sizes[axis] for axis in OPERAND[op].axes)
        return DEFAULT_NEST, estimate_conversion(
            numerics, op, rows, cols, data_width=machine.data_width, memory=machine.memory,
            width=widths[CLASS_NAMES.index(op)],
        )  # fmt: skip
    limits = nests.of(op)
    nest = DEFAULT_NEST if limits is None else choose_nest(machine, limits, op, m, n, k, widths)
    return nest, estimate_long(machine, op, m, n, k, nest, widths)


def total(
    costs: Sequence[LayerCost], multipliers: int, clock_mhz: float | None = None
) -> dict[str, Any]:
    """Return the costs of all layers in sequence, on a machine with ``multipliers`` multipliers."""
    cycles, macs = sum(cost.cycles for cost in costs), sum(cost.macs for cost in costs)
    multiplications = sum(cost.multiplications for cost in costs)
    read = sum(cost.repeats * cost.estimate.read_bytes for cost in costs)
    written = sum(cost.repeats * cost.estimate.write_bytes for cost in costs)
    shares = shares_of(added_shares((cost.repeats, cost.cycles_by_cause) for cost in costs))
    pace = None if clock_mhz is None else Rates.of(cycles, macs, read + written, clock_mhz)
    return {
        "cycles": cycles,
        "macs": macs,
        "passes": multiplications / macs if macs else None,
        "utilisation": multiplications / (cycles * multipliers),
        "dram_read_bytes": read,
        "dram_write_bytes": written,
        "bound": bound_of(shares),
        "shares": shares,
        **({} if pace is None else asdict(pace)),
    }
