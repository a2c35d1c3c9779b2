"""A layer's step under every order."""

from dataclasses import replace

import pytest

from diastole_sim.perf.orders.layer import (
    SEPARATE,
    SQUARE,
    backward_pass,
    best_parallel,
    best_sequential,
    bound,
    forward_pass,
    separate_sequential,
    split_batch,
)
from diastole_sim.perf.orders.search import Shape
from diastole_sim.perf.orders.systolic import LARGE, SMALL

LAYERS = [Shape(784, 256, 2304), Shape(512, 3072, 768), Shape(2048, 128, 256)]


def test_the_orders():
    both = backward_pass(SMALL, LAYERS[0], True)
    assert list(both) == [SQUARE, SEPARATE, "interleaved", "dX-major", "dW-major", "dY held"]
    assert [len(each.work) for each in both.values()] == [2, 2, 1, 1, 1, 1]


def test_a_first_layer_has_dw_alone():
    alone = backward_pass(SMALL, LAYERS[2], False)
    assert list(alone) == [SQUARE, SEPARATE]
    both = backward_pass(SMALL, LAYERS[2], True)
    assert alone[SEPARATE].work == both[SEPARATE].work[1:]


@pytest.mark.parametrize("machine", [SMALL, LARGE], ids=lambda each: each.name)
@pytest.mark.parametrize("shape", LAYERS)
@pytest.mark.parametrize("has_dx", [True, False])
def test_nothing_is_below_the_bound(machine, shape, has_dx):
    """The best is no slower than any order, and none is faster than can be."""
    least = bound(machine, shape, has_dx)
    cycles = [each.cycles(machine) for each in backward_pass(machine, shape, has_dx).values()]
    best = best_sequential(machine, shape, has_dx).cycles(machine)
    apart = separate_sequential(machine, shape, has_dx).cycles(machine)
    assert least <= best <= min(apart, *cycles)
    assert apart <= backward_pass(machine, shape, has_dx)[SEPARATE].cycles(machine)


def test_the_bound_is_reached_where_all_fits():
    machine = replace(SMALL, scratchpad_bytes=1 << 30)
    for shape in LAYERS:
        found = best_sequential(machine, shape, True)
        assert found.cycles(machine) == bound(machine, shape, True)


def test_parts_help_products_apart():
    """W of this layer is 4.7 MB, the scratchpad 1 MB: a fourth loop, over K, is worth having."""
    shape = LAYERS[1]
    whole = backward_pass(SMALL, shape, True)[SEPARATE]
    apart = separate_sequential(SMALL, shape, True)
    assert apart.cycles(SMALL) < whole.cycles(SMALL)
    assert len(apart.work) > 2


def test_forward():
    """The same product as dX, under other names: M x N of K is as M x K of N."""
    m, n, k = LAYERS[0]
    (dx, _) = backward_pass(SMALL, Shape(m, k, n), True)[SEPARATE].work
    assert forward_pass(SMALL, LAYERS[0], SEPARATE).work == (dx,)


@pytest.mark.parametrize("shape", LAYERS)
def test_several(shape):
    """Half of M each; the best axis and order is no slower than M with the products apart."""
    (before, after) = split_batch(SMALL, shape, True, 2, SEPARATE)
    half = forward_pass(SMALL, before_half(shape), SEPARATE)
    assert before.work == half.work
    assert best_parallel(SMALL, shape, True, 2).cycles(SMALL) <= after.cycles(SMALL)
    one = best_parallel(SMALL, shape, True, 1).cycles(SMALL)
    assert one == min(each.cycles(SMALL) for each in backward_pass(SMALL, shape, True).values())


def before_half(shape):
    sides = -(-shape.m // SMALL.side)
    return shape._replace(m=-(-sides // 2) * SMALL.side)
