"""Orders of loops of the backward pass, beside those of the paper that named them.

"Interleaved Gradient Order", Kim, Na, Lee, Lee, Huh, MICRO 2023, DOI 10.1145/3613424.3614299. The
machines and the batches are the paper's, the shapes those of :mod:`diastole.layers.networks`.
The paper does not say these; they are assumed:

- Operands, results and sums of 4 bytes. Of 1, 2 and 4 bytes, 4 comes nearest to what the paper says
  of its baseline: how much faster it would be without loads of dY, the share of dY in all traffic.
  One width for all, as in SCALE-Sim, on which the paper's simulator stands.
- The square tiles that are compared with are the largest that fit (``backward.square_side``).
- A piece of work takes the longer of array and memory (double buffering). Products apart are two
  pieces, products that share dY are one.
- Depthwise convolutions are left out. SCALE-Sim's topology, too, has but a channel of each;
  channel by channel they would keep a systolic array busy for longer than all else.
"""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cache

from bench.figure import figure, shown
from diastole.layers.networks import NETWORKS
from diastole_sim.perf.orders.backward import square, square_bytes
from diastole_sim.perf.orders.layer import (
    SEPARATE,
    SQUARE,
    backward_pass,
    best_parallel,
    best_sequential,
    forward_pass,
    separate_sequential,
    split_batch,
)
from diastole_sim.perf.orders.loops import INPUT_GRADIENT, WEIGHT_GRADIENT
from diastole_sim.perf.orders.search import Shape, Work
from diastole_sim.perf.orders.systolic import LARGE, SMALL

MACHINES = {"small": SMALL, "large": LARGE}
SHARED = ("interleaved", "dX-major", "dW-major", "dY held")
IN_PARTS, BEST, PARTS = "its parts", "best order", "and parts"
COLUMNS = {
    SQUARE: (SEPARATE, IN_PARTS, *SHARED, BEST, PARTS),
    SEPARATE: (IN_PARTS, *SHARED, BEST, PARTS),
}
"""By what it is compared with; "its parts" are those of the separate products."""


def machine_of(name, element=4, sums=4):
    return replace(MACHINES[name], element_bytes=element, result_bytes=element, sum_bytes=sums)


@dataclass(frozen=True)
class OrderedProduct:
    """A layer at a machine's batch, and how often a step has it."""

    sizes: Shape
    times: int
    has_dx: bool


def product(layer, batch):
    rows, apart = (batch, 1) if layer.weights else (1, batch)
    sizes = Shape(layer.m * rows, layer.n, layer.k)
    return OrderedProduct(sizes, layer.products * layer.repeats * apart, layer.has_dx)


def products(network, batch, depthwise=False):
    """Return layers that differ, with ``depthwise`` convolutions if wanted."""
    layers = (layer for layer in network.layers if depthwise or not layer.depthwise)
    return [product(layer, batch) for layer in layers]


def step_cycles(machine, layers, against):
    """Return cycles of forward and backward pass by order; ``against``: SQUARE or SEPARATE, of
    which the forward passes are in every column, and the backward pass where the order is slower
    or cannot be."""
    total = dict.fromkeys((against, *COLUMNS[against]), 0.0)
    for each in layers:
        both = backward_pass(machine, each.sizes, each.has_dx)
        cycles = {name: order.cycles(machine) for name, order in both.items()}
        cycles[BEST] = min(cycles.values())
        cycles[IN_PARTS] = separate_sequential(machine, each.sizes, each.has_dx).cycles(machine)
        cycles[PARTS] = best_sequential(machine, each.sizes, each.has_dx).cycles(machine)
        before = forward_pass(machine, each.sizes, against).cycles(machine)
        for name in total:
            least = min(cycles[against], cycles.get(name, cycles[against]))
            total[name] += each.times * (before + least)
    return total


def mean(rows):
    """Return means by key of rows that have the same keys."""
    rows = list(rows)
    return {key: sum(row[key] for row in rows) / len(rows) for key in rows[0]}


@cache
def ratios(machine, against, depthwise=False):
    """Return the time by order over that of ``against``, means of the networks."""
    shares = []
    for network in NETWORKS:
        cycles = step_cycles(machine, products(network, machine.batch, depthwise), against)
        shares.append({name: cycles[name] / cycles[against] for name in COLUMNS[against]})
    return mean(shares)


@figure(
    "time of a step with the best order, in parts, over square tiles, {name}",
    at_most={"small": 0.70, "large": 0.85},
    form="{:.3f}",
)
def best_order(name):
    """The paper says 0.707 and 0.855."""
    return ratios(machine_of(name), SQUARE)[PARTS]


@figure(
    "time of a step over {against}, {name}",
    at_most=shown(*((name, against) for name in MACHINES for against in COLUMNS)),
    form="{:.3f}",
)
def all_orders(name, against):
    return ratios(machine_of(name), against).items()


@figure(
    "the best in parts over square tiles, {name}, operands of {element} bytes, sums of {sums}",
    at_most=shown(*((name, 2, sums) for name in MACHINES for sums in (2, 4))),
    form="{:.3f}",
)
def narrow_orders(name, element, sums):
    return ratios(machine_of(name, element, sums), SQUARE)[PARTS]


@figure("the same with depthwise convolutions, {name}", at_most=shown(*MACHINES), form="{:.3f}")
def depthwise_orders(name):
    return ratios(machine_of(name), SQUARE, depthwise=True)[PARTS]


def without_dy(machine, network):
    """Return how much faster backward passes over square tiles are if dY is never loaded, and the
    share of dY in what is read, and in all traffic."""
    count = Counter()
    for each in products(network, machine.batch):
        for tensors in (INPUT_GRADIENT, WEIGHT_GRADIENT)[0 if each.has_dx else 1 :]:
            moved = square_bytes(machine, each.sizes, tensors)
            total = sum(moved.values())
            array = square(machine, each.sizes, tensors).array_cycles
            count["cycles"] += each.times * Work(array, total).cycles(machine)
            count["ideal"] += each.times * Work(array, total - moved["dY"]).cycles(machine)
            count["dy"] += each.times * moved["dY"]
            count["reads"] += each.times * (total - moved.get("dX", 0) - moved.get("dW", 0))
            count["traffic"] += each.times * total
    return {
        "times faster without dY": count["cycles"] / count["ideal"],
        "dY of reads": count["dy"] / count["reads"],
        "dY of traffic": count["dy"] / count["traffic"],
    }


@figure(
    "square tiles of the {name} machine, operands of {element} bytes",
    at_least=shown(*((name, element) for name in MACHINES for element in (1, 2, 4))),
    form="{:.3f}",
)
def dy_loads(name, element):
    """The paper says 1.70 on the small machine; 1.43, .514 and .388 on the large one."""
    machine = machine_of(name, element, element)
    return mean(without_dy(machine, each) for each in NETWORKS).items()


def cut(machine, count, layer, way):
    """Return cycles of the forward pass, of the backward pass with M cut, and with the best axis,
    of machines that share a layer."""
    each = product(layer, machine.batch * count)
    before, after = split_batch(machine, each.sizes, each.has_dx, count, way)
    chosen = best_parallel(machine, each.sizes, each.has_dx, count)
    return (each.times * one.cycles(machine) for one in (before, after, chosen))


def several(machine, count, network):
    """Return the time of machines that choose axis and order of every backward pass, over M cut and
    the products apart.

    Forward passes cut M. Layers without weights are not cut: each machine has its own samples.
    """
    speedups = {}
    for way in (SQUARE, SEPARATE):
        apart = best = 0.0
        for layer in network.layers:
            if layer.depthwise:
                continue
            if layer.weights:
                before, after, chosen = cut(machine, count, layer, way)
            else:
                alone = step_cycles(machine, [product(layer, machine.batch)], way)
                before, after, chosen = 0.0, alone[way], alone[BEST]
            apart += before + after
            best += before + min(after, chosen)
        speedups[f"over {way}"] = best / apart
    return speedups


@figure("the best axis and order of 4 machines, {name}", at_most=shown(*MACHINES), form="{:.3f}")
def several_machines(name):
    return mean(several(machine_of(name), 4, each) for each in NETWORKS).items()


@figure("layers that are fastest with each order, {name}", at_least=shown(*MACHINES), form="{}")
def best_layers(name):
    """The first of equals."""
    machine, counts = machine_of(name), Counter()
    for network in NETWORKS:
        for each in products(network, machine.batch):
            both = backward_pass(machine, each.sizes, each.has_dx)
            counts[min(both.values(), key=lambda w: (w.cycles(machine), w.moved_bytes)).name] += 1
    return counts.items()
