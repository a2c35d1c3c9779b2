"""Every other format in Verilator, alone and mixed: all products of all data, some training.

``make test`` has six products; here is one small machine for each name that is left, and for what
combines: formats, groups, scale rules, windows, specials.
"""

import zlib

import numpy as np
import pytest

from diastole.backend import cached_product
from diastole.devices import Device
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.train import run_task
from support import products as p
from support.host_perceptron import digits_by_host
from support.nests import blocks_of, drawn_nest

NAMES = [
    *(f"bfp{m}" for m in (1, 2, 3, 5, 6, 7, 8)),
    *("fp8_e4m3", "bf16", "mxint8", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3"),
    *("e2m1", "e3m4", "e4m2", "e5m1"),
]
FP8 = ("fp8_e4m3", "fp8_e4m3", "fp8_e5m2")
CLASSES = ("x", "w", "dy")


def every(value):
    return dict.fromkeys(CLASSES, value)


MACHINES = {name: p.machine(f"m_{name}", name) for name in NAMES} | {
    "hybrid fp8": p.machine("hybrid", FP8, rows=2, cols=2),
    "fp8 and bfp": p.machine("fp8_bfp", ("fp8_e4m3", "bfp4", "mxfp8_e5m2"), cols=2),
    "bf16 gradients": p.machine("bf16_dy", ("mxfp4_e2m1", "mxfp4_e2m1", "bf16")),
    "w in squares": p.machine("w_squares", "bfp4", block={"x": "1x16", "dy": "1x16"}),
    "dy in squares": p.machine("dy_squares", "bfp4", block={"x": "1x8", "w": "1x8"}),
    "dy in vectors": p.machine("dy_vectors", "bfp4", rows=2, block={"dy": "1x16"}),
    "long vectors": p.machine("long_vectors", "bfp3", **p.grouped("1x128")),
    "large squares": p.machine("large_squares", "bfp4", **p.grouped("16x16")),
    "fp8 in squares": p.machine("fp8_squares", FP8, **p.grouped("8x8"), scale=every("even")),
    "mx of ceilings": p.machine("mx_ceil", "mxfp8_e4m3", scale=every("ceil")),
    "mx rounded up": p.machine("mx_rceil", "mxfp8_e5m2", scale=every("rceil")),
    "nvfp4 vectors": p.machine("nv_vectors", "nvfp4", rows=2, **p.grouped("1x16")),
    "nvfp4 squares": p.machine("nv_squares", "nvfp4", scale=every("up"), **p.grouped("16x16")),
    "delayed fp8": p.machine("delayed", FP8, scale={"source": "delayed"}),
    "given fp8": p.machine("given", FP8, scale={"source": "host"}),
    "exact e4m3": p.machine(
        "exact", "fp8_e4m3", cell={"window": 0}, accumulator={"fraction": 0, "headroom": 10}
    ),
    "window of 20": p.machine("window", "mxfp8_e4m3", cell={"window": 20}),
    "poisoned bfp4": p.machine("poison_bfp", "bfp4", special="poison"),
    "poisoned fp8": p.machine("poison_fp8", FP8, special="poison", overflow=every("specification")),
    "poisoned mx": p.machine("poison_mx", "mxfp6_e3m2", special="poison"),
    "poisoned nvfp4": p.machine("poison_nv", "nvfp4", special="poison"),
    "textbook nvfp4": p.machine("textbook_nv", "nvfp4", rows=2, cols=2, side=1),
    "textbook fp8": p.machine("textbook_fp8", FP8, rows=3, cols=1, side=1, data_width=128),
    "by specification": p.machine(
        "specification", FP8, overflow=every("specification"), scale=every("floor")
    ),
    "poisoned by specification": p.machine(
        "poison_specification",
        FP8,
        special="poison",
        overflow=every("specification"),
        scale=every("floor"),
    ),
    "edge": p.machine(
        "edge_fp8", FP8, array={"rows": 2, "cols": 1, "block": 4, "transpose": "edge"}
    ),
}
SIZES = [(3, 5, 7), (34, 33, 19)]


@pytest.fixture(scope="module", params=MACHINES)
def both(request):
    """A machine with stalls, and the golden model of its numbers."""
    config = MACHINES[request.param]
    device = Device(
        cached_product(config), seed=p.SEED, stalls=3, memory_bytes=1 << 23, watchdog_cycles=20_000
    )
    yield device, NumpyDevice(config.numerics, seed=p.SEED)
    device.close()


@pytest.mark.parametrize("kind", p.KINDS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_all_products_of_all_data(kind, sizes, both, request):
    device, golden = both
    rng = np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))
    data = p.tensors(rng, sizes, kind)
    operands, results = p.check_against_golden(device, golden, data, step=3)
    if sizes == SIZES[0] and golden.numerics.source == "current":
        p.check_quantisation(device, data, operands, step=3)
        p.check_products(operands, results, poison=golden.numerics.special == "poison")
        p.check_aligned(device, operands, results)


def test_training_ends_in_the_same_weights(both):
    device, golden = both
    result = run_task(digits_by_host(), device, backend="rtl", steps=2, reference=golden)
    assert result.verified, result.first_mismatch
    assert not result.mismatches, result.first_mismatch


@pytest.mark.parametrize("sizes", [(50, 37, 45), (9, 130, 70)], ids=str)
def test_any_nest(sizes, both, np_rng, rng):
    """No order of the loops changes a bit."""
    device, golden = both
    data = p.tensors(np_rng, sizes, "wide")
    operands, wanted = p.convert(device, data), p.convert(golden, data)
    m, k, n = sizes
    for op in ("forward", "dx", "dw"):
        want = p.multiply(golden, op, wanted)
        for _ in range(4):
            blocks = blocks_of(op, (m, n, k), golden.numerics.block)
            nest = device.loops.nest = drawn_nest(device.loops.limits.of(op), blocks, rng)
            p.check_result(p.multiply(device, op, operands), want, f"{op}, {nest}")
    device.loops.nest = None
