"""What tiled loops move and hold: by hand, and against a scratchpad that is played tile by tile."""

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest

from diastole_sim.perf.orders.loops import (
    BOTH_GRADIENTS,
    DW,
    DX,
    DY,
    FORWARD,
    INPUT_GRADIENT,
    WEIGHT_GRADIENT,
    Cut,
    W,
    X,
    placements,
)
from diastole_sim.perf.orders.systolic import SMALL
from support.scratchpad import play

MACHINE = replace(SMALL, side=1, element_bytes=1, result_bytes=2, sum_bytes=4)
ORDERS = ["".join(each) for each in permutations("mnk")]
CUTS = [
    ({"m": 5, "n": 3, "k": 4}, {"m": 2, "n": 2, "k": 3}),
    ({"m": 3, "n": 5, "k": 7}, {"m": 3, "n": 2, "k": 2}),
    ({"m": 7, "n": 3, "k": 5}, {"m": 2, "n": 3, "k": 4}),
    ({"m": 4, "n": 6, "k": 3}, {"m": 1, "n": 6, "k": 3}),
    ({"m": 3, "n": 3, "k": 3}, {"m": 4, "n": 4, "k": 4}),
]


def cut(order, sizes, tiles):
    return Cut(order, sizes, {axis: np.array([tile]) for axis, tile in tiles.items()})


def both(tensor, order, sizes, tiles):
    """Bytes held and moved: a tile of it, then what is kept of it."""
    found = placements(MACHINE, tensor, cut(order, sizes, tiles))
    return [(int(each.stored[0]), int(each.moved[0])) for each in found]


def test_dx_major_by_hand():
    """dY 4 x 6 in tiles of 2 x 3, K = 5: rows of tiles, two of them, each of two tiles."""
    sizes, tiles = {"m": 4, "n": 6, "k": 5}, {"m": 2, "n": 3, "k": 5}
    assert both(DY, "mnk", sizes, tiles) == [(2 * 6, 24)], "each tile once, two on chip"
    tile, kept = both(X, "mnk", sizes, tiles)
    assert tile == kept == (2 * 10, 20), "a row of X serves a row of dY"
    tile, kept = both(W, "mnk", sizes, tiles)
    assert tile == (2 * 15, 2 * 30), "again for each row of dY"
    assert kept == (30, 30)
    tile, kept = both(DX, "mnk", sizes, tiles)
    assert tile == kept == (2 * 10 * 4, 20 * 2)
    tile, kept = both(DW, "mnk", sizes, tiles)
    assert tile == (2 * 15 * 4, 30 * (4 + 4 + 2)), "sums out and in, then results"
    assert kept == (30 * 4, 30 * 2)


def test_dy_held_by_hand():
    """All of dY is one tile: every tensor is moved once."""
    sizes, tiles = {"m": 4, "n": 6, "k": 5}, {"m": 4, "n": 6, "k": 2}
    assert both(DY, "kmn", sizes, tiles)[0] == (24, 24)
    assert both(X, "kmn", sizes, tiles)[0] == (2 * 8, 20)
    assert both(W, "kmn", sizes, tiles)[0] == (2 * 12, 30)
    assert both(DX, "kmn", sizes, tiles)[0] == (2 * 8 * 4, 20 * 2)
    assert both(DW, "kmn", sizes, tiles)[0] == (2 * 12 * 4, 30 * 2)


def test_results_that_stay_by_hand():
    """dX = dY W^T, the contraction innermost: operands come again, results leave once."""
    sizes, tiles = {"m": 4, "n": 6, "k": 5}, {"m": 2, "n": 2, "k": 3}
    assert both(DX, "mkn", sizes, tiles) == [(2 * 6 * 4, 20 * 2)]
    assert both(DY, "mkn", sizes, tiles) == [(2 * 4, 2 * 24), (2 * 12, 24)]
    assert both(W, "mkn", sizes, tiles) == [(2 * 6, 2 * 30), (30, 30)]


@pytest.mark.parametrize("tensors", [FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, BOTH_GRADIENTS])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sizes, tiles", CUTS)
@pytest.mark.sampled(4)
def test_played(sizes, tiles, order, tensors):
    told = [(each.name, each.axes, each.result) for each in tensors]
    choices = [list(both(each, order, sizes, tiles)) for each in tensors]
    for number in product(*(range(len(each)) for each in choices)):
        kept = {each.name for each, at in zip(tensors, number, strict=True) if at}
        played = play(sizes, tiles, order, told, kept)
        for each, choice, at in zip(tensors, choices, number, strict=True):
            held, moved = choice[at]
            name = each.name
            width = 4 if each.result else 1
            where = f"{name} of {sizes} in {tiles}, {order}, {kept} kept"
            assert held == width * played.held[name], where
            if each.result:
                sums = played.sums_read[name] + played.sums_written[name]
                assert moved == 2 * played.results[name] + 4 * sums, where
            else:
                assert moved == played.loaded[name], where
