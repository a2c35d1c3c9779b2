"""Use of the multipliers by products of side x side x side, by the counters of the Verilog.

``server`` takes minutes to compile and to run.
"""

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from bench.figure import figure, shown
from bench.products import converted, multiply, operands, used, wrong_elements
from diastole.backend import cached_product
from diastole.config.presets import PRODUCTS_ONLY
from diastole.devices import Device
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.host.product import Product
from diastole_sim.perf.modelled_machine import LATENCY
from diastole_sim.spec.formats import FAST, PLANE_BITS
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.operations import OPERANDS, OPERATIONS
from support.presets import changed, floating, in_format

SEPARATE = ("forward", "dx", "dw")
FAR = 100
"""Cycles of a far memory."""
LEAST = {
    ("nano", 512, LATENCY): 0.995, ("nano", 128, LATENCY): 0.95, ("nano", 64, LATENCY): 0.76,
    ("nano", 64, FAR): 0.68,
    ("edge", 512, LATENCY): 0.91, ("edge", 768, LATENCY): 0.98, ("edge", 2048, LATENCY): 0.975,
    ("server", 512, LATENCY): 0.83, ("server", 1024, LATENCY): 0.95,
    ("server", 2048, LATENCY): 0.985, ("server", 1024, FAR): 0.94,
}  # fmt: skip
"""By preset, side and latency. The shape of `edge` bounds the three to 94.0, 100 and 98.5 %."""
FORMATS = {
    "bfp4 in 1x16": {"format": "bfp4", "block": "1x16"},
    **{name: {"format": name} for name in ("mxfp8_e4m3", "fp8_e5m2", "mxfp4_e2m1", "nvfp4")},
}


@cache
def cubes(preset, side, latency):
    """Return use by operation, wrong elements, bytes read by the fused pass over stored bytes, and
    simulated cycles per second."""
    config = PRODUCTS_ONLY[preset]
    ops = tuple(OPERATIONS) if (preset, latency) == ("nano", LATENCY) else SEPARATE
    if side == 2048 or (preset, latency) == ("server", FAR):
        ops = ops[:1]
    golden, tensors = NumpyDevice(config.numerics), operands(side)
    far = {} if latency == LATENCY else {"read_latency": latency, "write_latency": latency}
    with Device(cached_product(config), **far) as device:
        converted_tensors = converted(device, tensors)
        results = {op: multiply(device, op, converted_tensors) for op in ops}
        speed = device.cycles_per_second
    expected = converted(golden, tensors)
    wrong = sum(
        wrong_elements(results[op], multiply(golden, op, expected))
        for op in (ops if preset == "nano" else ops[:1])
    )
    stored = sum(
        image.layout.total_bytes for tensor in converted_tensors.values() for image in tensor.images
    )
    fused = results.get("backward")
    return SimpleNamespace(
        used={op: used(config, result, side) for op, result in results.items()},
        wrong=wrong,
        read=fused and fused.counters.read_bytes / stored,
        speed=speed,
    )


@figure("use of {preset}, {side} cubed, memory of {latency} cycles", at_least=LEAST)
def product_use(preset, side, latency):
    yield from cubes(preset, side, latency).used.items()


@figure(
    "elements that differ from the golden model: {preset}, {side} cubed, {latency} cycles",
    at_most=dict.fromkeys(LEAST, 0),
    form="{}",
)
def product_bits(preset, side, latency):
    return cubes(preset, side, latency).wrong


@figure("bytes that the fused pass of nano reads over stored bytes", at_most=1.05, form="{:.4f}")
def fused_bytes():
    return cubes("nano", 512, LATENCY).read


@figure("simulated cycles per second, nano", at_least=300_000, form="{:,.0f}")
def simulated_speed():
    return cubes("nano", 512, LATENCY).speed


@figure(
    "use of {preset} by {count} products of {side} cubed, two in flight",
    at_least={("nano", 64, 8): 0.92, ("server", 512, 6): 0.94},
)
def in_flight(preset, side, count):
    config = PRODUCTS_ONLY[preset]
    with Device(cached_product(config)) as device:
        tensors = converted(device, operands(side))
        for op in SEPARATE if preset == "nano" else SEPARATE[:1]:
            each = op, [tensors[name] for name in OPERATIONS[op].operand_names]
            counters = device.multiply_together([each] * count)[0].counters
            yield op, side**3 * count / counters.cycles / config.macs


@figure(
    "cycles of a step on the digits, host beside nano, bus of {data_width} bits",
    at_most={128: 9_200, 64: 16_500},
    form="{:,.0f}",
)
def host_step(data_width):
    """Without the first step: 64-64-10, batch 64, each conversion once. W of the second layer is
    converted beside the first product, the next X beside the backward pass, as training does."""
    rng = np.random.default_rng(0)
    with Device(cached_product(changed("nano", bus={"data_width": data_width}))) as device:

        def new(cls, cols=64, *, overlap=False):
            array = rng.standard_normal((64, cols)).astype(np.float32)
            return device.convert(array, cls, tag=0, overlap=overlap)

        x = new("x")
        before = device.total_cycles
        w1, w2 = new("w"), new("w", 10, overlap=True)
        device.forward(x, w1)
        hidden = new("x")
        device.forward(hidden, w2)
        dy = new("dy", 10)
        new("x", overlap=True)
        device.backward(hidden, w2, dy)
        device.dw(x, new("dy"))
        return device.total_cycles - before


def kib(config):
    memories = Product.load(cached_product(config)).manifest["memories"]
    return sum(m["width"] * m["depth"] * m["instances"] for m in memories) / 8192


@figure(
    "memories of {preset}", at_most={"nano": 390, "edge": 1019, "server": 2358}, form="{:.1f} KiB"
)
def preset_memories(preset):
    """The bounds are what the presets had with fixed loops, and a twentieth more."""
    return kib(PRODUCTS_ONLY[preset])


def format_machine(label):
    tables = {key: dict.fromkeys(CLASS_NAMES, name) for key, name in FORMATS[label].items()}
    return changed("nano", **tables)


@figure("memories of nano in {label}", at_most=shown(*FORMATS), form="{:.1f} KiB")
def format_memories(label):
    return kib(format_machine(label))


@figure("use of nano in {label}, {side} cubed", at_least=shown(*FORMATS))
@pytest.mark.parametrize("side", [512, 64])
def format_use(label, side):
    config = format_machine(label)
    with Device(cached_product(config), memory_bytes=1 << 26) as device:
        tensors = converted(device, operands(side))
        for op in OPERATIONS:
            yield op, used(config, multiply(device, op, tensors), side)


@figure("cycles to convert an element on nano in {label}", at_most=shown(*FORMATS), form="{:.2f}")
def format_conversions(label):
    side = 512
    with Device(cached_product(format_machine(label)), memory_bytes=1 << 26) as device:
        for name, tensor in converted(device, operands(side)).items():
            yield name, tensor.convert_cycles / side**2


def plane_cycles(config, op, widths=None):
    """Return cycles of a command; the planes of fused passes must all stay on chip."""
    with Device(cached_product(config)) as device:
        tensors = converted(device, operands(256 if op == "backward" else 512), widths)
        return multiply(device, op, tensors).counters.cycles


@figure(
    "cycles of {op} on nano in fast over passes x cycles of bfp2",
    near=dict.fromkeys(OPERATIONS, 1),
    within=0.01,
    form="{:.4f}",
)
def plane_passes(op):
    """By bits of X, W and dY; every product with 1, 2 and 4 passes, pairs of planes."""
    alone = plane_cycles(in_format("nano", "bfp2"), op)
    for bits in ((2, 2, 2), (4, 2, 2), (2, 4, 4), (4, 4, 4)):
        widths = dict(zip((tensor.name for tensor in OPERANDS), bits, strict=True))
        factors = [product.factors for product in OPERATIONS[op].products]
        counts = [widths[a.name] * widths[b.name] // PLANE_BITS**2 for a, b in factors]
        passes = sum(counts) / len(counts)
        cycles = plane_cycles(in_format("nano", FAST.name), op, widths)
        yield f"{bits}, {passes:g} passes", cycles / alone / passes


@figure("use that accumulators of e6m9 cost nano, 512 cubed", at_most=0.01)
def accumulator_use():
    config = floating("nano")
    integers = cubes("nano", 512, LATENCY).used
    with Device(cached_product(config)) as device:
        tensors = converted(device, operands(512))
        for op in OPERATIONS:
            yield op, integers[op] - used(config, multiply(device, op, tensors), 512)
