"""Float accumulators in Verilator: neither geometry, order, bus nor stalls decide a bit."""

import numpy as np
import pytest

from diastole_sim.spec.operations import OPERATIONS
from diastole_sim.train import run_task
from support import products as p
from support.host_perceptron import digits_by_host
from support.nests import blocks_of, drawn_nest
from support.sweep import sweep

SAME = ("floats", "floats_1x1", "floats_2x2")
"""Cells of 4 x 2 behind two ports of 128 bits, 1 x 1 and 2 x 2 behind one of 32 and of 64."""
MACHINES = [name if name == "floats" else sweep(name) for name in p.FLOAT_MACHINES]
RUNS = [("floats", None), ("floats", 3), *(sweep(name, 2) for name in SAME[1:])]
STEPS = 3
NESTS = 8
PRODUCTS = ("forward", "dx", "dw")
SIZES = (45, 37, 50)


def train(device):
    result = run_task(digits_by_host(), device, backend="any", steps=STEPS, seed=0)
    return result.weights_sha256, result.loss, result.accuracy, result.saturated


@pytest.fixture(scope="module")
def expected(goldens):
    return train(goldens("floats"))


@pytest.mark.parametrize("name, stalls", RUNS)
def test_one_hash_of_weights(name, stalls, devices, expected):
    assert p.MACHINES[name].numerics == p.MACHINES["floats"].numerics
    assert train(devices(name, stalls)) == expected


def test_integers_have_another_hash(goldens, expected):
    """So it is the accumulators that are seen."""
    assert train(goldens("fp8_e5m2"))[0] != expected[0]


@pytest.mark.parametrize("kind", ["plain", "wide", "long", "special", "ties"])
@pytest.mark.parametrize("sizes", [(3, 5, 7), (31, 33, 17)], ids=str)
@pytest.mark.parametrize("name", MACHINES)
def test_all_products(name, sizes, kind, devices, goldens, np_rng):
    device, data = devices(name), p.tensors(np_rng, sizes, kind)
    operands, results = p.check_against_golden(device, goldens(name), data)
    if np.prod(sizes) <= 2000:
        p.check_products(operands, results, poison=device.numerics.special == "poison")
        p.check_aligned(device, operands, results)


@pytest.mark.parametrize("stalls", [None, 5])
@pytest.mark.parametrize("name", MACHINES)
def test_several_tiles(name, stalls, devices, goldens, np_rng):
    """Of rows, of lanes, and of the fused pass."""
    data = p.tensors(np_rng, (70, 140, 70), "plain")
    p.check_against_golden(devices(name, stalls), goldens(name), data)


@pytest.mark.parametrize("name", MACHINES)
def test_any_nest(name, devices, goldens, np_rng, rng):
    """Every one takes a contraction in its order."""
    device, golden = devices(name), goldens(name)
    data = p.tensors(np_rng, SIZES, "long")
    operands, wanted = p.convert(device, data), p.convert(golden, data)
    m, k, n = SIZES
    for op in PRODUCTS:
        want = p.multiply(golden, op, wanted)
        assert want.exact == (device.numerics.accumulator.mantissa == 23)
        limits = device.loops.limits.of(op)
        blocks = blocks_of(op, (m, n, k), device.numerics.block)
        for _ in range(NESTS):
            device.loops.nest = drawn_nest(limits, blocks, rng)
            p.check_result(p.multiply(device, op, operands), want, f"{op} in {device.loops.nest}")
    device.loops.nest = None


@pytest.mark.parametrize("name", MACHINES)
def test_products_in_flight_together(name, devices, goldens, np_rng):
    device, golden = devices(name), goldens(name)
    data = p.tensors(np_rng, (20, 41, 30), "long")
    operands, wanted = p.convert(device, data), p.convert(golden, data)
    ops = [*PRODUCTS, *reversed(PRODUCTS)]
    given = [(op, [operands[each] for each in OPERATIONS[op].operand_names]) for op in ops]
    for op, result in zip(ops, device.multiply_together(given), strict=True):
        p.check_result(result, p.multiply(golden, op, wanted), op)
