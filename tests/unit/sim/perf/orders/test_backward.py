"""Orders of the backward pass: square tiles, the best apart, and those that share dY."""

from dataclasses import replace
from itertools import product

import pytest

from diastole_sim.perf.orders.backward import (
    interleaved,
    interleaved_elements,
    separate,
    shared,
    square,
    square_bytes,
    square_side,
)
from diastole_sim.perf.orders.loops import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from diastole_sim.perf.orders.search import Shape
from diastole_sim.perf.orders.systolic import LARGE, SMALL
from support.scratchpad import span

MACHINE = replace(
    SMALL, side=2, scratchpad_bytes=96, bytes_per_second=10**9, element_bytes=1, result_bytes=1,
    sum_bytes=1,
)  # fmt: skip
SHAPES = [Shape(9, 7, 5), Shape(8, 4, 4), Shape(4, 12, 9), Shape(3, 3, 3), Shape(12, 5, 2)]
LAYERS = [Shape(784, 256, 2304), Shape(4096, 512, 367), Shape(512, 64, 512), Shape(12544, 64, 147)]


def test_square_side():
    """96 / 2 = 48 bytes for three tiles of 4 x 4."""
    assert square_side(MACHINE) == 4
    assert square_side(replace(MACHINE, sum_bytes=4)) == 2
    assert square_side(replace(SMALL, element_bytes=4, result_bytes=4, sum_bytes=4)) == 180


def test_square_by_hand():
    """dX of 8 x 8 x 8 in tiles of 4: dY and W come twice, dX leaves once."""
    found = square_bytes(MACHINE, Shape(8, 8, 8), INPUT_GRADIENT)
    assert found == {"dY": 128, "W": 128, "dX": 64}
    work = square(MACHINE, Shape(8, 8, 8), INPUT_GRADIENT)
    assert work.moved_bytes == 320
    assert work.array_cycles == 16 * (8 + 2 * 4)
    found = square_bytes(MACHINE, Shape(8, 4, 8), INPUT_GRADIENT)
    assert found == {"dY": 32, "W": 64, "dX": 64}, "a tile of dY that is used again stays"


def played_interleaved(shape, side):
    """Elements of dY that are loaded, with the steps of both products in turn."""
    sizes, tiles = shape._asdict(), dict.fromkeys("mnk", side)
    counts = [-(-size // side) for size in shape]
    ms, ns, ks = (range(count) for count in counts)
    rows = [(m, n) for m, _, n in product(ms, ks, ns)]
    columns = [(m, n) for n, _, m in product(ns, ks, ms)]
    halves, loaded = [None, None], 0
    for pair in zip(rows, columns, strict=True):
        for half, tile in enumerate(pair):
            if tile not in halves:
                loaded += len(span(sizes, tiles, "mn", dict(zip("mn", tile, strict=True))))
            halves[half] = tile
    return loaded


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("side", [1, 2, 4])
@pytest.mark.sampled(3)
def test_interleaved_played(shape, side):
    assert interleaved_elements(shape, side) == played_interleaved(shape, side)


def test_interleaved_is_both_products_but_for_dy():
    shape = Shape(9, 7, 5)
    both = [square(MACHINE, shape, each) for each in (INPUT_GRADIENT, WEIGHT_GRADIENT)]
    apart = [square_bytes(MACHINE, shape, each) for each in (INPUT_GRADIENT, WEIGHT_GRADIENT)]
    found = interleaved(MACHINE, shape)
    assert found.array_cycles == sum(each.array_cycles for each in both)
    less = sum(each["dY"] for each in apart) - played_interleaved(shape, 4)
    assert found.moved_bytes == sum(each.moved_bytes for each in both) - less
    assert less > 0


@pytest.mark.parametrize("machine", [SMALL, LARGE], ids=lambda each: each.name)
@pytest.mark.parametrize("shape", LAYERS)
@pytest.mark.parametrize("tensors", [FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT])
@pytest.mark.sampled(3)
def test_square_tiles_are_some_of_all_loops(machine, shape, tensors):
    best = separate(machine, shape, tensors)
    assert best.cycles(machine) <= square(machine, shape, tensors).cycles(machine)


@pytest.mark.parametrize("shape", LAYERS)
def test_more_scratchpad_never_costs_more(shape):
    last: dict[str, float] = {}
    for kibibytes in (256, 512, 1024, 1500, 4096, 32768):
        machine = replace(SMALL, scratchpad_bytes=kibibytes << 10)
        cycles = {each.name: each.cycles(machine) for each in shared(machine, shape)}
        for tensors in (INPUT_GRADIENT, WEIGHT_GRADIENT):
            cycles[f"square {tensors}"] = square(machine, shape, tensors).cycles(machine)
            cycles[f"separate {tensors}"] = separate(machine, shape, tensors).cycles(machine)
        cycles.pop("interleaved")  # of larger tiles, fewer may meet
        for name, least in last.items():
            assert cycles[name] <= least, f"{name} of {shape} in {kibibytes} KiB"
        last = cycles


def test_each_tensor_once_where_all_fits():
    machine = replace(SMALL, scratchpad_bytes=1 << 30)
    m, n, k = shape = Shape(784, 256, 2304)
    for each in shared(machine, shape):
        if each.name != "interleaved":
            assert each.moved_bytes == 2 * (m * n + 2 * m * k + 2 * k * n), each.name


def test_what_fits_nowhere():
    names = [each.name for each in shared(SMALL, Shape(4096, 4096, 64))]
    assert names == ["interleaved", "dX-major", "dW-major"]
