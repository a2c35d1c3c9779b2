"""The order of the loops decides no bit: products in many nests on several machines have one
hash."""

import hashlib

import numpy as np
import pytest

from diastole.devices import Device
from diastole_sim.spec.nest import Nest
from support import products as p
from support.nests import blocks_of, drawn_nest
from support.sweep import sweep

SIZES = (45, 37, 50)
PRODUCTS = ("forward", "dx", "dw")
NESTS = 10
RUNS = [("pico", None), ("pico", 3), sweep("wide", None), sweep("wide", 2), sweep("turning", None)]
RUNS += [("ports", None), ("ports", 4)]
"""Buses of 32, 64, 128 and twice 128 bits, cells of 1 x 1, 3 x 2, 2 x 4 and, turning at the edge,
2 x 1; all have the numbers of `pico`."""


def hash_of(results) -> str:
    """Of the bits of the products, in the order of ``PRODUCTS``."""
    hasher = hashlib.sha256()
    for result in results:
        for values in result.values.values():
            hasher.update(values.tobytes())
    return hasher.hexdigest()


@pytest.fixture(scope="module")
def data():
    return p.tensors(np.random.default_rng(5), SIZES, "wide")


@pytest.fixture(scope="module")
def expected(data, goldens):
    golden = goldens("pico")
    operands = p.convert(golden, data)
    return hash_of(p.multiply(golden, op, operands) for op in PRODUCTS)


@pytest.fixture
def nested(devices):
    """``nested(device, op, operands, nest)``: a product in that nest; the device chooses again
    afterwards."""
    used = []

    def multiply(device: Device, op, operands, nest):
        used.append(device)
        device.loops.nest = nest
        return p.multiply(device, op, operands)

    yield multiply
    for device in used:
        device.loops.nest = None


@pytest.mark.parametrize("name, stalls", RUNS)
def test_one_hash(name, stalls, data, expected, devices, nested, rng):
    assert p.MACHINES[name].numerics == p.MACHINES["pico"].numerics
    device = devices(name, stalls)
    operands = p.convert(device, data)
    m, k, n = SIZES
    block = p.MACHINES[name].numerics.block
    blocks = {op: blocks_of(op, (m, n, k), block) for op in PRODUCTS}
    for number in range(NESTS):
        nests = {
            op: drawn_nest(device.loops.limits.of(op), blocks[op], rng) if number else None
            for op in PRODUCTS
        }
        got = hash_of(nested(device, op, operands, nest) for op, nest in nests.items())
        assert got == expected, nests


@pytest.mark.parametrize("op", PRODUCTS)
def test_chunks_of_every_length(op, data, devices, goldens, nested):
    """They begin within groups of blocks, and end with less than a slice."""
    device, golden = devices("wide"), goldens("wide")
    operands, wanted = p.convert(device, data), p.convert(golden, data)
    want = p.multiply(golden, op, wanted)
    for chunk in device.loops.limits.of(op).chunk:
        found = nested(device, op, operands, Nest(chunk=chunk, t_blocks=4))
        p.check_result(found, want, f"chunks of {chunk}")


def test_what_reads_less_and_what_is_faster(devices, nested, np_rng):
    """The counters tell nests apart, and the one that is chosen is the faster one."""
    device = devices("wide")
    operands = p.convert(device, p.tensors(np_rng, (64, 64, 64), "plain"))
    own, short = Nest(), Nest(t_blocks=1)
    seen = {nest: nested(device, "forward", operands, nest).counters for nest in (None, own, short)}
    assert seen[None].cycles < 0.9 * seen[own].cycles
    assert seen[short].read_bytes > 2 * seen[own].read_bytes
