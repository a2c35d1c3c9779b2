"""Schedule a layer's step of training under every order of loops: forward and backward pass."""

from collections.abc import Callable, Iterator
from functools import cache

from diastole_sim.perf.orders.backward import separate, shared, square
from diastole_sim.perf.orders.loops import (
    DW,
    DX,
    FORWARD,
    INPUT_GRADIENT,
    WEIGHT_GRADIENT,
    Matrix,
    Y,
)
from diastole_sim.perf.orders.parts import AXES, cuts, parallel, sequential
from diastole_sim.perf.orders.search import Schedule, Shape, Work, cheapest
from diastole_sim.perf.orders.systolic import SystolicMachine

SQUARE, SEPARATE = "square", "separate"
COUNTS = (2, 4, 8)
"""Numbers of parts to try on a single machine."""


@cache
def forward_pass(machine: SystolicMachine, sizes: Shape, way: str) -> Schedule:
    """Return the forward pass. ``way``: SQUARE, over square tiles, or SEPARATE, the best of all
    loops."""
    product = square if way == SQUARE else separate
    return Schedule(way, (product(machine, sizes, FORWARD),))


@cache
def backward_pass(machine: SystolicMachine, sizes: Shape, has_dx: bool) -> dict[str, Schedule]:
    """Return schedules of the backward pass by name: separate products (SQUARE or SEPARATE), and
    every order that shares dY. Without dX, which a network's first layer lacks, no order shares
    dY."""
    products = products_of(has_dx)
    apart = (
        Schedule(SQUARE, tuple(square(machine, sizes, each) for each in products)),
        Schedule(SEPARATE, tuple(separate(machine, sizes, each) for each in products)),
    )
    together = shared(machine, sizes) if has_dx else ()
    return {each.name: each for each in (*apart, *together)}


def products_of(has_dx: bool) -> tuple[tuple[Matrix, ...], ...]:
    return (INPUT_GRADIENT, WEIGHT_GRADIENT) if has_dx else (WEIGHT_GRADIENT,)


def gradients(has_dx: bool) -> tuple[Matrix, ...]:
    return (DX, DW) if has_dx else (DW,)


@cache
def separate_sequential(machine: SystolicMachine, sizes: Shape, has_dx: bool) -> Schedule:
    """Return separate products by the best loops, every product whole or in parts in sequence."""
    work: list[Work] = []
    for tensors in products_of(has_dx):

        def whole(each: Shape, tensors: tuple[Matrix, ...] = tensors) -> Schedule:
            return Schedule(SEPARATE, (separate(machine, each, tensors),))

        results = tuple(each for each in tensors if each.result)
        tried = _sequential(machine, sizes, whole, results)
        work += cheapest(machine, (whole(sizes), *tried)).work
    return Schedule(SEPARATE, tuple(work))


@cache
def best_sequential(machine: SystolicMachine, sizes: Shape, has_dx: bool) -> Schedule:
    """Return the backward pass by the best of all orders, whole or in parts in sequence. Every part
    has its own order."""

    def whole(each: Shape) -> Schedule:
        return cheapest(machine, backward_pass(machine, each, has_dx).values())

    best = cheapest(machine, (whole(sizes), separate_sequential(machine, sizes, has_dx)))
    if best.cycles(machine) <= bound(machine, sizes, has_dx):
        return best
    return cheapest(machine, (best, *_sequential(machine, sizes, whole, gradients(has_dx))))


def _sequential(
    machine: SystolicMachine,
    sizes: Shape,
    whole: Callable[[Shape], Schedule],
    results: tuple[Matrix, ...],
) -> Iterator[Schedule]:
    for cut in cuts(sizes, COUNTS, machine.side):
        yield sequential(machine, sizes, cut, whole, results)


def bound(machine: SystolicMachine, sizes: Shape, has_dx: bool) -> float:
    """Return a lower bound on the cycles of the backward pass in any order: every tensor is moved
    once, and no contraction is cut."""
    m, n, k = sizes
    operands = m * n + m * k + (k * n if has_dx else 0)
    results = k * n + (m * k if has_dx else 0)
    moved = operands * machine.element_bytes + results * machine.result_bytes
    array = machine.array_cycles(k, n, m) + (machine.array_cycles(m, k, n) if has_dx else 0)
    return max(array, moved / machine.bytes_per_cycle)


def split_batch(
    machine: SystolicMachine, sizes: Shape, has_dx: bool, count: int, way: str
) -> Iterator[Schedule]:
    """Yield the forward and the backward pass on ``count`` machines that cut M, the batch of all
    machines. ``way``: SQUARE or SEPARATE."""
    yield parallel(
        machine, sizes, ("m", count), lambda each: forward_pass(machine, each, way), (Y,)
    )
    yield parallel(
        machine,
        sizes,
        ("m", count),
        lambda each: backward_pass(machine, each, has_dx)[way],
        gradients(has_dx),
    )


def best_parallel(machine: SystolicMachine, sizes: Shape, has_dx: bool, count: int) -> Schedule:
    """Return the backward pass on ``count`` machines: the best axis, with the best of all
    orders."""

    def best(each: Shape) -> Schedule:
        return cheapest(machine, backward_pass(machine, each, has_dx).values())

    tried = (parallel(machine, sizes, (axis, count), best, gradients(has_dx)) for axis in AXES)
    return cheapest(machine, tried)
