"""How busy the multipliers are, what is read, and whether the bits are right, of whole products."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole.backend import cached_product
from diastole.config.file import from_document
from diastole.config.keys import Config
from diastole.config.presets import PRODUCTS_ONLY
from diastole.devices import Device
from diastole.measure.figure import Figure, at_least, at_most, shown
from diastole_sim.device.interface import ProductResult
from diastole_sim.golden.device import GoldenDevice
from diastole_sim.host.tensor import DeviceTensor
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.operations import OPERATIONS

SIDE = 512
LEAST = dict.fromkeys(OPERATIONS, 0.995)
"""Utilisation that is asked of the products of `nano`."""
SMALL = {64: 0.76, 128: 0.95}
"""The same, by the side of products whose beginning and end count."""
FLYING_SIDE, FLYING = 64, 8
LEAST_FLYING = 0.92
"""And of so many products of that side, two of them in flight at a time."""
MOST_BYTES = 1.05
"""That ``backward`` reads, over the bytes that X, W and dY are stored in."""
MOST_STEP_CYCLES = {128: 9_200, 64: 16_500}
"""Of training on the digits, by the width of the bus."""
LEAST_CYCLES_PER_SECOND = 300_000
MOST_MEMORY_KIB = {"nano": 390, "edge": 1019, "server": 2358}
"""Of presets: what they had with fixed loops, and a twentieth more."""
FORMATS: Mapping[str, Mapping[str, str]] = {
    "bfp4 in 1x16": {"format": "bfp4", "block": "1x16"},
    "mxfp8_e4m3": {"format": "mxfp8_e4m3"},
    "fp8_e5m2": {"format": "fp8_e5m2"},
    "mxfp4_e2m1": {"format": "mxfp4_e2m1"},
    "nvfp4": {"format": "nvfp4"},
}


def products(config: Config, device: Device, *, side: int = SIDE) -> Iterator[Figure]:
    """Of every product of side x side x side, of the commands alone; bus and memory are the
    device's. The figures of the README where ``config`` is `nano`."""
    golden = GoldenDevice(config.numerics)
    results: dict[str, ProductResult] = {}
    tensors = normal_operands(side)
    wanted = {n: golden.convert(a, n.lower(), tag=t) for t, (n, a) in enumerate(tensors.items())}
    held = convert(device, tensors)
    for op in OPERATIONS:
        results[op] = result = multiply_held(device, op, held)
        what = f"utilisation of nano, {op}, {side}^3"
        yield at_least(what, used(config, result, side), LEAST[op], "{:.2%}")
    stored = sum(image.layout.total_bytes for tensor in held.values() for image in tensor.images)
    counters = results["backward"].counters
    assert counters is not None
    ratio = counters.read_bytes / stored
    yield at_most("bytes read by backward / stored", ratio, MOST_BYTES, "{:.4f}")
    apart = all(
        same_bits(results["backward"].values[name], results[op].values[name])
        for op, name in (("dx", "dX"), ("dw", "dW"))
    )
    right = all(
        same_bits(values, expected.values[name])
        for op, does in OPERATIONS.items()
        for expected in [getattr(golden, op)(*(wanted[name] for name in does.operand_names))]
        for name, values in results[op].values.items()
    )
    for what, same in (("two products", apart), ("the golden model", right)):
        yield Figure(what=f"bits of {what}", asked="same", measured=str(same), met=same)
    for small in SMALL:
        yield from small_products(config, device, small)
    yield from flying_products(config, device)
    yield from digits_step(config, device)
    speed = device.cycles_per_second
    yield at_least("simulated cycles per second, nano", speed, LEAST_CYCLES_PER_SECOND, "{:,.0f}")
    yield memories("nano", device)


def small_products(config: Config, device: Device, side: int) -> Iterator[Figure]:
    """Of every product of side x side x side, alone, whose beginning and end count."""
    held = convert(device, normal_operands(side))
    for op in OPERATIONS:
        share = used(config, multiply_held(device, op, held), side)
        what = f"utilisation of nano, {op}, {side}^3"
        yield at_least(what, share, SMALL[side], "{:.2%}")


def flying_products(config: Config, device: Device) -> Iterator[Figure]:
    """Of one product after the other, each begun while the one before ends."""
    side = FLYING_SIDE
    held = convert(device, normal_operands(side))
    for op, operation in OPERATIONS.items():
        operands = [held[name] for name in operation.operand_names]
        together = device.multiply_together([(op, operands)] * FLYING)
        counters = together[0].counters
        assert counters is not None
        macs = side**3 * len(operation.products) * FLYING
        what = f"utilisation of nano, {FLYING} times {op}, {side}^3"
        share = macs / counters.cycles / config.macs
        if op == "backward":  # the fused pass is alone
            yield shown(what, share, "{:.2%}")
        else:
            yield at_least(what, share, LEAST_FLYING, "{:.2%}")


def digits_step(config: Config, device: Device) -> Iterator[Figure]:
    """Cycles of a step of 64-64-10 on the digits, batch 64, without the first one: each conversion
    once, both layers forward, the second one backward, and dW of the first; W of the second layer
    and X of the next step are converted beside products, as training does: the one beside the
    first layer, the other beside the first backward pass."""
    rng = np.random.default_rng(0)

    def converted(cls: str, cols: int = 64, *, beside: bool = False) -> DeviceTensor:
        array = rng.standard_normal((64, cols)).astype(np.float32)
        return device.convert(array, cls, tag=0, beside=beside)

    x = converted("x")
    before = device.total_cycles
    w1, w2 = converted("w"), converted("w", 10, beside=True)
    results = [device.forward(x, w1)]
    hidden = converted("x")
    results.append(device.forward(hidden, w2))
    dy = converted("dy", 10)
    x_next = converted("x", beside=True)
    results.append(device.backward(hidden, w2, dy))
    dhidden = converted("dy")
    results.append(device.dw(x, dhidden))
    steps = device.total_cycles - before
    width = config.bus.data_width
    what = f"digits, cycles of a step, {width} bits"
    yield at_most(what, steps, MOST_STEP_CYCLES[width], "{:,.0f}")
    cycles = [result.counters.cycles for result in results if result.counters]
    yield shown("in which products run", sum(cycles), "{:,.0f}")
    conversions = sum(t.convert_cycles for t in (w1, w2, hidden, dy, dhidden, x_next))
    yield shown("in which conversions run", conversions, "{:,.0f}")
    yield shown("cycles to convert 64 x 10, alone", converted("w", 10).convert_cycles, "{:,.0f}")


def format_config(label: str) -> Config:
    """`nano` in one of :data:`FORMATS`."""
    alike = {table: dict.fromkeys(CLASS_NAMES, name) for table, name in FORMATS[label].items()}
    return from_document(PRODUCTS_ONLY["nano"].model_dump(exclude_none=True) | alike)


def in_every_format() -> Iterator[Figure]:
    """Of `nano` in each of :data:`FORMATS`, run in Verilator."""
    for label in FORMATS:
        config = format_config(label)
        with Device(cached_product(config), memory_bytes=1 << 26) as device:
            yield from format_products(label, config, device)


def format_products(
    label: str, config: Config, device: Device, *, side: int = SIDE
) -> Iterator[Figure]:
    """As :func:`products` in another format, of which nothing is asked, small ones too; and what
    conversion costs."""
    yield shown(f"{label}, memories, KiB", memory_kib(device), "{:.1f}")
    held = convert(device, normal_operands(side))
    for name, tensor in held.items():
        cycles = tensor.convert_cycles / side**2
        yield shown(f"{label}, cycles to convert an element, {name}", cycles, "{:.2f}")
    for size in (side, FLYING_SIDE):
        held = convert(device, normal_operands(size))
        for op in OPERATIONS:
            result = multiply_held(device, op, held)
            what = f"{label}, utilisation, {op}, {size}^3"
            yield shown(what, used(config, result, size), "{:.2%}")


def normal_operands(side: int) -> dict[str, NDArray[np.float32]]:
    """X, W and dY of normal numbers, the same in every run."""
    rng = np.random.default_rng(0)
    return {n: rng.standard_normal((side, side)).astype(np.float32) for n in ("X", "W", "dY")}


def convert(device: Device, tensors: Mapping[str, NDArray[np.float32]]) -> dict[str, DeviceTensor]:
    return {n: device.convert(a, n.lower(), tag=t) for t, (n, a) in enumerate(tensors.items())}


def multiply_held(device: Device, op: str, held: Mapping[str, DeviceTensor]) -> ProductResult:
    result: ProductResult = getattr(device, op)(
        *(held[name] for name in OPERATIONS[op].operand_names)
    )
    return result


def used(config: Config, result: ProductResult, side: int) -> float:
    """The share of what the multipliers could have done in the cycles of a product."""
    assert result.counters is not None
    return side**3 * len(result.values) / result.counters.cycles / config.macs


def memories(name: str, device: Device) -> Figure:
    """Of a preset."""
    most = MOST_MEMORY_KIB[name]
    return at_most(f"memories of {name}, KiB", memory_kib(device), most, "{:.1f}")


def memory_kib(device: Device) -> float:
    """All memories of a product, by its manifest."""
    memories: list[dict[str, Any]] = device.product.manifest["memories"]
    return sum(m["width"] * m["depth"] * m["instances"] for m in memories) / 8192


def same_bits(a: NDArray[np.float32], b: NDArray[np.float32]) -> bool:
    return bool((a.view(np.uint32) == b.view(np.uint32)).all())
