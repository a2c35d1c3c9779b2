"""Whole products in Verilator: every operation, on machines and data of every kind.

Each result is compared with the golden model bit for bit, images and flags included. The smaller
ones are judged by exact arithmetic too, from the data and from what the hardware stored.
"""

import json

import numpy as np
import pytest

from diastole.backend import cached_product
from diastole_sim.spec.operations import OPERATIONS
from support import products as p
from support.sweep import sweep

SQUARES = ["pico", "nano", "mixed", "textbook", "turning"]
EVERY = [*SQUARES, *p.FORMAT_MACHINES, *p.PORT_MACHINES]
# Others have what they do.
RARELY = {
    *("textbook", "turning", "bfp4_1x16", "fp8_e5m2", "mxfp4_e2m1", "four_over_six"),
    *("ports_mxfp8", "ports_nvfp4"),
}
MACHINES = [sweep(name) if name in RARELY else name for name in EVERY]
ODD = [(1, 1, 1), (3, 5, 7), (31, 32, 17)]
STALLS = 11
SMALL = 20_000  # multiplications that the exact arithmetic takes in a second


@pytest.mark.parametrize("kind", p.KINDS)
@pytest.mark.parametrize("sizes", ODD, ids=str)
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.sampled(2)
def test_all_products_of_all_data(name, sizes, kind, devices, goldens, np_rng):
    device, data = devices(name), p.tensors(np_rng, sizes, kind)
    operands, results = p.check_against_golden(device, goldens(name), data, step=3)
    if np.prod(sizes) <= SMALL:
        p.check_quantisation(device, data, operands, step=3)
        p.check_products(operands, results)
        p.check_aligned(device, operands, results)


@pytest.mark.parametrize("kind", ["plain", "wide"])
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.sampled(3)
def test_65_x_129_x_9(name, kind, devices, goldens, np_rng):
    device, data = devices(name), p.tensors(np_rng, (65, 129, 9), kind)
    operands, results = p.check_against_golden(device, goldens(name), data)
    p.check_products(operands, results)


@pytest.mark.parametrize("sizes", [(140, 20, 70), (20, 140, 70), (70, 70, 140)], ids=str)
@pytest.mark.parametrize("name", MACHINES)
def test_several_tiles_and_chunks(name, sizes, devices, goldens, np_rng):
    """Beyond a T tile of 128 vectors, a lane tile and several chunks of every contraction."""
    p.check_against_golden(devices(name), goldens(name), p.tensors(np_rng, sizes, "plain"))


@pytest.mark.parametrize("sizes", [*ODD, (65, 33, 40), (140, 5, 20)], ids=str)
@pytest.mark.parametrize("name", MACHINES)
def test_stalls_change_nothing(name, sizes, devices, goldens, np_rng):
    data = p.tensors(np_rng, sizes, "wide")
    p.check_against_golden(devices(name, STALLS), goldens(name), data)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("side", ["m", "n"])
def test_backward_beyond_the_fused_pass(name, side, devices, goldens, np_rng):
    """The largest that fits, and one more, which runs as two products."""
    parameters = json.loads((cached_product(p.MACHINES[name]) / "manifest.json").read_text())
    most = parameters["parameters"][f"fused_max_{side}"] or 65
    for length in (most, most + 1):
        sizes = (length, 20, 5) if side == "m" else (5, 20, length)
        data = p.tensors(np_rng, sizes, "plain")
        p.check_against_golden(devices(name), goldens(name), data)


@pytest.mark.parametrize("name", MACHINES)
def test_backward_has_the_bits_of_two_products(name, devices, np_rng):
    device = devices(name)
    operands = p.convert(device, p.tensors(np_rng, (37, 50, 43), "wide"))
    both = p.multiply(device, "backward", operands)
    p.same_bits(both.dx, p.multiply(device, "dx", operands).dx, "dX")
    p.same_bits(both.dw, p.multiply(device, "dw", operands).dw, "dW")


@pytest.mark.parametrize("name", MACHINES)
def test_operations_in_any_order(name, devices, goldens, np_rng):
    """Each after each: nothing of one is left for the next."""
    device, golden = devices(name), goldens(name)
    data = p.tensors(np_rng, (21, 18, 35), "plain")
    operands = p.convert(device, data)
    wanted = p.convert(golden, data)
    results = {op: p.multiply(golden, op, wanted) for op in OPERATIONS}
    for before in OPERATIONS:
        for op in OPERATIONS:
            p.multiply(device, before, operands)
            p.check_result(p.multiply(device, op, operands), results[op], f"{op} after {before}")


@pytest.mark.parametrize("name", ["pico", "mixed"])
def test_draws_follow_tag_and_step(name, devices, goldens, np_rng):
    device, golden = devices(name), goldens(name)
    array = p.plain(np_rng, (19, 23))
    images = []
    for tag, step in ((2, 0), (6, 0), (2, 1), (2**32 - 1, 2**32 - 1)):
        tensor = device.convert(array, "dy", tag=tag, step=step)
        p.check_tensor(tensor, golden.convert(array, "dy", tag=tag, step=step), f"{tag}, {step}")
        images.append(b"".join(image.data.tobytes() for image in tensor.images))
    assert len(set(images)) == len(images)


@pytest.mark.parametrize("name", MACHINES)
def test_the_data_reach_what_they_are_meant_to(name, goldens, np_rng):
    """Of the golden model: inexact, overflowing, flushed and saturated results do occur."""
    seen = {}
    for kind in p.KINDS:
        operands = p.convert(goldens(name), p.tensors(np_rng, (31, 32, 17), kind))
        results = [p.multiply(goldens(name), op, operands) for op in OPERATIONS]
        seen[kind] = (operands, results)
    exact = {kind: [result.exact for result in results] for kind, (_, results) in seen.items()}
    assert any(any(found) for found in exact.values())
    if name in SQUARES:  # the scales of the others do not reach as far, or lose what is below
        assert not all(exact["wide"])
        assert not all(exact["special"])
    assert all(result.overflow for result in seen["huge"][1])
    assert not any(result.overflow for result in seen["plain"][1])
    for tensor in seen["special"][0].values():
        assert tensor.nan
        assert tensor.inf
    rules = {goldens(name).numerics.tensor_class(cls).scale for cls in p.CLASSES.values()}
    saturated = any(tensor.saturated for tensor in seen["ties"][0].values())
    assert saturated == (rules != {"rceil"}), "only with rceil everything fits"
    if name != "textbook":  # an element alone in its group is never too small for it
        assert any(tensor.underflowed for tensor in seen["wide"][0].values())
    flushed = [(values == 0).mean() for r in seen["tiny"][1] for values in r.values.values()]
    assert all(0.01 < share < 0.99 for share in flushed), flushed
