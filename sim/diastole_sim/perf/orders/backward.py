"""Schedule a layer's backward pass: dX = dY W^T and dW = X^T dY, separate or over one read of dY.

The orders follow Kim, Na, Lee, Lee, Huh, "Improving Data Reuse in NPU On-chip Memory with
Interleaved Gradient Order for DNN Training", MICRO 2023, DOI 10.1145/3613424.3614299. Every choice
is made by exact counts in place of the authors' algorithm 1. Operands, results and sums may lie
anywhere in the scratchpad. Every tensor comes from memory and returns to memory.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from diastole_sim.perf.orders.loops import (
    BOTH_GRADIENTS,
    DY,
    FORWARD,
    INPUT_GRADIENT,
    WEIGHT_GRADIENT,
    Cut,
    Matrix,
    placements,
)
from diastole_sim.perf.orders.search import (
    Schedule,
    Shape,
    Work,
    array_cycles,
    search,
)
from diastole_sim.perf.orders.systolic import SystolicMachine
from diastole_sim.spec.integers import ceil_div

ANY_ORDER = tuple("".join(each) for each in permutations("mnk"))
SQUARE_ORDERS: Mapping[tuple[Matrix, ...], str] = {
    FORWARD: "mnk",
    INPUT_GRADIENT: "mkn",
    WEIGHT_GRADIENT: "nkm",
}
"""Loop orders over square tiles. Results stay until they are complete. dX walks dY by rows, dW
walks dY by columns."""


def square_side(machine: SystolicMachine) -> int:
    """Return the side of the largest square tiles of which two operands and a result fit half the
    scratchpad, in whole sides of the array. ValueError if not even one side fits."""
    widest = 2 * machine.element_bytes + max(machine.sum_bytes, machine.result_bytes)
    elements = machine.scratchpad_bytes // 2 // widest
    sides = int(np.sqrt(elements)) // machine.side
    if not sides:
        least = 2 * widest * machine.side**2
        raise ValueError(
            f"scratchpad_bytes must be at least {least}, not {machine.scratchpad_bytes}"
        )
    return sides * machine.side


def square(machine: SystolicMachine, sizes: Shape, tensors: tuple[Matrix, ...]) -> Work:
    """Return the work of one product over square tiles. Every tile is loaded anew, except the tile
    that was used last. Half of the scratchpad is in use while the second half is filled."""
    cut = _square_cut(machine, sizes, tensors)
    moved = sum(square_bytes(machine, sizes, tensors).values())
    return Work(int(array_cycles(machine, tensors, cut)[0]), moved)


def square_bytes(
    machine: SystolicMachine, sizes: Shape, tensors: tuple[Matrix, ...]
) -> dict[str, int]:
    """Return the bytes that every tensor moves over square tiles, by name."""
    cut = _square_cut(machine, sizes, tensors)
    return {each.name: int(next(placements(machine, each, cut)).moved[0]) for each in tensors}


def _square_cut(machine: SystolicMachine, sizes: Shape, tensors: tuple[Matrix, ...]) -> Cut:
    side = np.array([square_side(machine)])
    return Cut(SQUARE_ORDERS[tensors], sizes._asdict(), dict.fromkeys("mnk", side))


def separate(machine: SystolicMachine, sizes: Shape, tensors: tuple[Matrix, ...]) -> Work:
    """Return the work of one product by the best of all loops. ValueError if no loops fit the
    scratchpad."""
    work = search(machine, sizes, tensors, ANY_ORDER)
    if work is None:
        raise ValueError(
            f"scratchpad_bytes must be larger: {machine.scratchpad_bytes} bytes hold no tiles"
        )
    return work


def interleaved(machine: SystolicMachine, sizes: Shape) -> Work:
    """Return the work of tiles of dX and dW in alternation, over the square tiles and in the orders
    of the separate products. A tile of dY that either product used in the step before is not loaded
    again."""
    both = (INPUT_GRADIENT, WEIGHT_GRADIENT)
    array = sum(square(machine, sizes, each).array_cycles for each in both)
    others = sum(
        moved
        for each in both
        for name, moved in square_bytes(machine, sizes, each).items()
        if name != DY.name
    )
    elements = interleaved_elements(sizes, square_side(machine))
    return Work(array, others + elements * machine.element_bytes)


@cache
def interleaved_elements(sizes: Shape, side: int) -> int:
    """Return the elements of dY that both walks load: rows for dX, columns for dW, step by step in
    alternation."""
    count = [ceil_div(size, side) for size in sizes]
    by_rows = _sequential_tiles(count[0], count[2], count[1])
    by_columns = _sequential_tiles(count[1], count[2], count[0])
    visits = np.empty((2 * by_rows.shape[0], 2), np.int64)
    visits[0::2], visits[1::2] = by_rows, by_columns[:, ::-1]
    last_rows = np.minimum(side, sizes.m - side * visits[:, 0])
    last_columns = np.minimum(side, sizes.n - side * visits[:, 1])
    repeated = np.zeros(len(visits), bool)
    for before in (1, 2):  # visits by the other product, by the same product
        repeated[before:] |= (visits[before:] == visits[:-before]).all(axis=1)
    return int((last_rows * last_columns)[~repeated].sum())


def _sequential_tiles(outer: int, middle: int, inner: int) -> NDArray[np.int64]:
    """Return the outer and inner index of every step of three loops."""
    at = np.indices((outer, middle, inner)).reshape(3, -1)
    return at[[0, 2]].T


def shared(machine: SystolicMachine, sizes: Shape) -> Iterator[Schedule]:
    """Yield schedules of both gradients over one walk of dY.

    *interleaved*: see :func:`interleaved`. *dX-major*: dY by rows of tiles, with every tile loaded
    once; the part of dW that does not stay is spilled as sums from row to row. *dW-major*: dY by
    columns of tiles, with dX spilled. *dY held*: all of dY stays on chip, and nothing is spilled.
    """
    yield Schedule("interleaved", (interleaved(machine, sizes),))
    for name, order in (("dX-major", "mnk"), ("dW-major", "nmk")):
        work = search(machine, sizes, BOTH_GRADIENTS, (order,))
        if work is not None:
            yield Schedule(name, (work,))
    stored_dy = search(machine, sizes, BOTH_GRADIENTS, ("kmn",), whole="mn")
    if stored_dy is not None:
        yield Schedule("dY held", (stored_dy,))
