"""The cheapest loops that fit."""

from dataclasses import replace
from itertools import product

import pytest

from diastole_sim.perf.orders.backward import ANY_ORDER
from diastole_sim.perf.orders.loops import BOTH_GRADIENTS, FORWARD
from diastole_sim.perf.orders.search import Schedule, Shape, Work, cheapest, search, tile_sides
from diastole_sim.perf.orders.systolic import SMALL
from support.scratchpad import play

MACHINE = replace(
    SMALL, side=2, scratchpad_bytes=64, bytes_per_second=10**9, element_bytes=1, result_bytes=1,
    sum_bytes=2,
)  # fmt: skip


def test_tile_sides():
    """Of 10 sides of the array in 1, 2, 3, 4, 5, 10 tiles; what lies between has no fewer."""
    assert tile_sides(2, 19) == [2, 4, 6, 8, 10, 20]
    assert tile_sides(45, 44) == [45]


def test_the_longer_of_array_and_memory():
    machine = replace(MACHINE, bytes_per_second=2 * 10**9)
    assert Work(100, 300).cycles(machine) == 150
    assert Work(200, 300).cycles(machine) == 200
    assert Schedule("a", (Work(100, 300), Work(200, 300))).cycles(machine) == 350


def test_of_equally_fast_ones_the_fewest_bytes():
    found = [Schedule(name, (Work(100, moved),)) for name, moved in (("a", 90), ("b", 80))]
    assert cheapest(MACHINE, found).name == "b"


def played_best(machine, shape, tensors, orders):
    """Cycles and bytes of the best of all loops, each played."""
    sizes = shape._asdict()
    told = [(each.name, each.axes, each.result) for each in tensors]
    names = [each.name for each in tensors]
    best = None
    for order in orders:
        for sides in product(*(tile_sides(machine.side, size) for size in shape)):
            tiles = dict(zip("mnk", sides, strict=True))
            for chosen in product((False, True), repeat=len(names)):
                kept = {name for name, on in zip(names, chosen, strict=True) if on}
                played = play(sizes, tiles, order, told, kept)
                held = moved = array = 0
                for each in tensors:
                    name = each.name
                    held += played.held[name] * (2 if each.result else 1)
                    if not each.result:
                        moved += played.loaded[name]
                        continue
                    moved += played.results[name]
                    moved += 2 * (played.sums_read[name] + played.sums_written[name])
                    (axis,) = set("mnk") - set(each.axes)
                    chunks = -(-sizes[axis] // tiles[axis])
                    rows, lanes = (sizes[one] for one in each.axes)
                    array += machine.array_cycles(rows, lanes, sizes[axis], chunks)
                if held <= machine.scratchpad_bytes:
                    found = max(array, moved / machine.bytes_per_cycle), moved
                    best = found if best is None else min(best, found)
    return best


@pytest.mark.parametrize(
    "tensors, orders, sizes, scratchpad_bytes",
    [
        (FORWARD, ANY_ORDER, (5, 7, 3), 40),
        (FORWARD, ANY_ORDER, (6, 4, 8), 64),
        (BOTH_GRADIENTS, ("mnk",), (5, 3, 6), 90),
        (BOTH_GRADIENTS, ("nmk",), (6, 5, 4), 100),
        (BOTH_GRADIENTS, ("mnk",), (5, 3, 6), 20),
    ],
)
def test_against_all_loops_played(tensors, orders, sizes, scratchpad_bytes):
    machine = replace(MACHINE, scratchpad_bytes=scratchpad_bytes)
    shape = Shape(*sizes)
    found = search(machine, shape, tensors, orders)
    best = played_best(machine, shape, tensors, orders)
    assert (found and (found.cycles(machine), found.moved_bytes)) == best


def test_one_tile_along_an_axis():
    """dY 16, X and W in two tiles of 4 x 2, dX and dW likewise in sums: 16 + 32 + 64 bytes."""
    machine = replace(MACHINE, scratchpad_bytes=112)
    held = search(machine, Shape(4, 4, 40), BOTH_GRADIENTS, ("kmn",), whole="mn")
    assert held is not None
    assert held.moved_bytes == 4 * 4 + 4 * 4 * 40
    machine = replace(MACHINE, scratchpad_bytes=111)
    assert search(machine, Shape(4, 4, 40), BOTH_GRADIENTS, ("kmn",), whole="mn") is None
