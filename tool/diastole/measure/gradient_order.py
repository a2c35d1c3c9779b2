"""Orders of loops of the backward pass, beside those of the paper that named them.

"Interleaved Gradient Order", Kim, Na, Lee, Lee, Huh, MICRO 2023, DOI 10.1145/3613424.3614299. The
machines and the batches are the paper's, the shapes those of :mod:`diastole.measure.networks`.
The paper does not say these; they are assumed:

- Operands, results and sums of 4 bytes. Of 1, 2 and 4 bytes, 4 comes nearest to what the paper says
  of its baseline: how much faster it would be without loads of dY, the share of dY in all traffic
  (:func:`calibration`). One width for all, as in SCALE-Sim, on which the paper's simulator stands.
- The square tiles that are compared with are the largest that fit (``backward.square_side``).
- A piece of work takes the longer of array and memory (double buffering). Products apart are two
  pieces, products that share dY are one.
- Depthwise convolutions are left out. SCALE-Sim's topology, too, has but a channel of each;
  channel by channel they would keep a systolic array busy for longer than all else.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from diastole.measure.figure import Figure, at_most, shown
from diastole.measure.networks import NETWORKS, Layer, Network
from diastole_sim.perf.orders.backward import square, square_bytes
from diastole_sim.perf.orders.layer import (
    SEPARATE,
    SQUARE,
    backward_pass,
    best_at_once,
    best_in_turn,
    by_batch,
    forward_pass,
    separate_in_turn,
)
from diastole_sim.perf.orders.loops import INPUT_GRADIENT, WEIGHT_GRADIENT
from diastole_sim.perf.orders.search import Shape, Work
from diastole_sim.perf.orders.systolic import LARGE, SMALL, SystolicMachine

BYTES = 4
MACHINES = tuple(
    replace(each, element_bytes=BYTES, result_bytes=BYTES, sum_bytes=BYTES)
    for each in (SMALL, LARGE)
)
MOST = {"small": 0.70, "large": 0.85}
"""Asked of the time with the best order, in parts, over square tiles; the mean of the networks."""
SHARED = ("interleaved", "dX-major", "dW-major", "dY held")
IN_PARTS, BEST, PARTS = "its parts", "best order", "and parts"
COLUMNS = {
    SQUARE: (SEPARATE, IN_PARTS, *SHARED, BEST, PARTS),
    SEPARATE: (IN_PARTS, *SHARED, BEST, PARTS),
}
"""By what it is compared with; "its parts" are those of the separate products."""
PUBLISHED = {
    "small": {"interleaved": 0.992, BEST: 0.762, PARTS: 0.707},
    "large": {"interleaved": 0.926, BEST: 0.891, PARTS: 0.855},
}
"""Means of the paper's nine networks, over its square tiles."""
PUBLISHED_DY = {
    "small": {"faster without dY": 1.70},
    "large": {"faster without dY": 1.43, "dY of reads": 0.514, "dY of traffic": 0.388},
}


@dataclass(frozen=True)
class Product:
    """A layer at a machine's batch, and how often a step has it."""

    sizes: Shape
    times: int
    has_dx: bool


def step_products(network: Network, batch: int, depthwise: bool = False) -> Iterator[Product]:
    """Layers that differ, with ``depthwise`` convolutions if wanted."""
    for layer in network.layers:
        if depthwise or not layer.depthwise:
            yield product(layer, batch)


def product(layer: Layer, batch: int) -> Product:
    rows, apart = (batch, 1) if layer.weights else (1, batch)
    sizes = Shape(layer.m * rows, layer.n, layer.k)
    return Product(sizes, layer.products * layer.repeats * apart, layer.has_dx)


def step_cycles(
    machine: SystolicMachine, wanted: Iterable[Product], against: str
) -> dict[str, float]:
    """Of forward and backward pass, by order; ``against``: SQUARE or SEPARATE, of which the forward
    passes are in every column, and the backward pass where the order is slower or cannot be."""
    total = dict.fromkeys((against, *COLUMNS[against]), 0.0)
    for each in wanted:
        both = backward_pass(machine, each.sizes, each.has_dx)
        cycles = {name: found.cycles(machine) for name, found in both.items()}
        cycles[BEST] = min(cycles.values())
        cycles[IN_PARTS] = separate_in_turn(machine, each.sizes, each.has_dx).cycles(machine)
        cycles[PARTS] = best_in_turn(machine, each.sizes, each.has_dx).cycles(machine)
        before = forward_pass(machine, each.sizes, against).cycles(machine)
        for name in total:
            least = min(cycles[against], cycles.get(name, cycles[against]))
            total[name] += each.times * (before + least)
    return total


def ratios(
    machine: SystolicMachine, against: str, networks: Sequence[Network], depthwise: bool = False
) -> dict[str, dict[str, float]]:
    """Time over that of ``against``, by network and order; the mean of the networks at last."""
    found: dict[str, dict[str, float]] = {}
    for network in networks:
        cycles = step_cycles(machine, step_products(network, machine.batch, depthwise), against)
        found[network.name] = {name: cycles[name] / cycles[against] for name in COLUMNS[against]}
    found["mean"] = mean(found.values())
    return found


def mean(rows: Iterable[dict[str, float]]) -> dict[str, float]:
    """By key, of rows that have the same keys."""
    listed = list(rows)
    return {key: sum(row[key] for row in listed) / len(listed) for key in listed[0]}


def calibration(machine: SystolicMachine, networks: Sequence[Network]) -> dict[str, float]:
    """Of backward passes over square tiles, means of the networks: how much faster they are if dY
    is never loaded, and the share of dY in what is read, and in all traffic."""
    return mean(_without_dy(machine, each) for each in networks)


def _without_dy(machine: SystolicMachine, network: Network) -> dict[str, float]:
    cycles = ideal = 0.0
    dy = reads = traffic = 0
    for each in step_products(network, machine.batch):
        for tensors in (INPUT_GRADIENT, WEIGHT_GRADIENT)[0 if each.has_dx else 1 :]:
            moved = square_bytes(machine, each.sizes, tensors)
            total = sum(moved.values())
            array = square(machine, each.sizes, tensors).array_cycles
            cycles += each.times * Work(array, total).cycles(machine)
            ideal += each.times * Work(array, total - moved["dY"]).cycles(machine)
            dy += each.times * moved["dY"]
            reads += each.times * (total - moved.get("dX", 0) - moved.get("dW", 0))
            traffic += each.times * total
    return {
        "faster without dY": cycles / ideal,
        "dY of reads": dy / reads,
        "dY of traffic": dy / traffic,
    }


def several(machine: SystolicMachine, count: int, networks: Sequence[Network]) -> dict[str, float]:
    """Time of ``count`` machines, each with its batch, that choose axis and order of every backward
    pass; over M cut and the products apart, SQUARE or SEPARATE; means of the networks.

    Forward passes cut M. Layers without weights are not cut: every machine has its own samples.
    """
    return mean(_several(machine, count, each) for each in networks)


def _several(machine: SystolicMachine, count: int, network: Network) -> dict[str, float]:
    found: dict[str, float] = {}
    layers = [layer for layer in network.layers if not layer.depthwise]
    for way in (SQUARE, SEPARATE):
        apart = best = 0.0
        for layer in layers:
            if layer.weights:
                before, after, chosen = _cut(machine, count, layer, way)
            else:
                alone = step_cycles(machine, [product(layer, machine.batch)], way)
                before, after, chosen = 0.0, alone[way], alone[BEST]
            apart += before + after
            best += before + min(after, chosen)
        found[way] = best / apart
    return found


def _cut(
    machine: SystolicMachine, count: int, layer: Layer, way: str
) -> tuple[float, float, float]:
    """Cycles of the forward pass, of the backward pass with M cut, and with the best axis."""
    each = product(layer, machine.batch * count)
    before, after = by_batch(machine, each.sizes, each.has_dx, count, way)
    chosen = best_at_once(machine, each.sizes, each.has_dx, count)
    cycles = (each.times * one.cycles(machine) for one in (before, after, chosen))
    return next(cycles), next(cycles), next(cycles)


def wins(machine: SystolicMachine, networks: Sequence[Network]) -> dict[str, int]:
    """How many different layers have each order as their best, the first of equals."""
    found: dict[str, int] = dict.fromkeys((SQUARE, SEPARATE, *SHARED), 0)
    for network in networks:
        for each in step_products(network, machine.batch):
            both = backward_pass(machine, each.sizes, each.has_dx)
            best = min(both.values(), key=lambda one: (one.cycles(machine), one.moved_bytes))
            found[best.name] += 1
    return found


def order_record(
    machine: SystolicMachine, networks: Sequence[Network], counts: Sequence[int], depthwise: bool
) -> dict[str, Any]:
    """All of one machine, as plain values."""
    return {
        "machine": machine.name,
        "depthwise": depthwise,
        "bytes": {key: getattr(machine, f"{key}_bytes") for key in ("element", "result", "sum")},
        "time_over": {way: ratios(machine, way, networks, depthwise) for way in COLUMNS},
        "published": PUBLISHED[machine.name] if len(networks) == len(NETWORKS) else {},
        "dy": calibration(machine, networks),
        "published_dy": PUBLISHED_DY[machine.name],
        "layers_best_with": wins(machine, networks),
        "several": {str(count): several(machine, count, networks) for count in counts},
    }


def order_table(found: dict[str, Any]) -> Iterator[str]:
    """A record for people."""
    widths = ", ".join(f"{key} {value}" for key, value in found["bytes"].items())
    for way, rows in found["time_over"].items():
        yield f"{found['machine']}: time over {way}; bytes: {widths}"
        names = COLUMNS[way]
        yield f"{'':14}" + "".join(f"{name:>12}" for name in names)
        listed = dict(rows)
        if way == SQUARE:
            listed["published"] = found["published"]
        for network, values in listed.items():
            cells = (f"{values[name]:.3f}" if name in values else "" for name in names)
            yield f"{network:14}" + "".join(f"{cell:>12}" for cell in cells).rstrip()
        yield ""
    for name, value in found["dy"].items():
        said = found["published_dy"].get(name)
        yield f"{name:20}{value:8.3f}" + (f"   published {said:.3f}" if said else "")
    best = ", ".join(f"{name} {count}" for name, count in found["layers_best_with"].items())
    yield f"layers that are fastest with: {best}"
    for count, values in found["several"].items():
        over = ", ".join(f"over {way} {value:.3f}" for way, value in values.items())
        yield f"{count} machines, the best axis and order, M cut in the forward pass: {over}"
    yield ""


def figures() -> Iterator[Figure]:
    """What the README asks."""
    for machine in MACHINES:
        over_square = ratios(machine, SQUARE, NETWORKS)["mean"]
        what = f"time, best order and parts over square, {machine.name}"
        yield at_most(what, over_square[PARTS], MOST[machine.name], "{:.3f}")
        best = ratios(machine, SEPARATE, NETWORKS)["mean"]
        yield shown(f"the same over the best apart, {machine.name}", best[PARTS], "{:.3f}")
