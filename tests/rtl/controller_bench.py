"""The controller with all that it moves: every product over whole tensors, operands converted."""

import random

import cocotb
import numpy as np

from diastole_hw.plan.modes import Mode
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.image import FloatLayout, image_layouts
from rtl.ports import Ports, sometimes
from rtl.service_memory import ServiceMemory
from rtl.tensors import tensor
from rtl.units import ENGINE, make_engine

SIZES = [(1, 1, 1), (3, 5, 7), (9, 11, 18), (61, 19, 6), (131, 19, 6), (5, 18, 131)]
"""M, N, K; the last three are longer or wider than a tile, one of them too long to be fused."""
PORTS = ("read__requests", "read__beats", "requests", "beats")
GUARD = 64  # bytes around every tensor that nobody may touch
SPREAD = 12  # of exponents: some sums of deficits are above F


def products(golden, x, w, dy):
    return {
        Mode.FORWARD: {"y": golden.forward(x, w)},
        Mode.DX: {"dx": golden.dx(w, dy)},
        Mode.DW: {"dw": golden.dw(x, dy)},
        Mode.FUSED: dict.fromkeys(("dx", "dw"), golden.backward(x, w, dy)),
    }


def place_tensors(memory, operands, results, data_width):
    """Images of ``operands`` into memory, room for ``results``; addresses and layouts by name."""
    at, addresses, layouts = 256, {}, {}
    for name, quantised in operands.items():
        (layout,) = image_layouts(
            quantised.storage, quantised.shape, block=quantised.block, data_width=data_width
        )
        image = layout.pack(quantised.copies[0], quantised.tensor_exponent).tobytes()
        memory.bytes[at : at + len(image)] = image
        addresses[name] = at
        at += len(image) + GUARD
    for name, (rows, cols) in results.items():
        layouts[name] = FloatLayout(rows=rows, cols=cols, data_width=data_width)
        addresses[name] = at
        at += layouts[name].total_bytes + GUARD
    assert at < len(memory.bytes)
    return addresses, layouts


def fused_fits(m, n):
    plan = ENGINE.plan
    return m <= plan.fused_blocks_m * plan.block and n <= plan.fused_blocks_n * plan.block


async def run_until_done(ports):
    """Flags that were set on the way."""
    ports.set("control__start", 1)
    await ports.sample("busy")
    ports.set("control__start", 0)
    seen, done = [0, 0], 0
    while not done:
        names = ("done", "inexact", "overflow")
        done, *flags = await ports.sample(*(f"control__{name}" for name in names))
        seen = [a | b for a, b in zip(seen, flags, strict=True)]
    return seen


async def multiply(ports, memory, golden, sizes, rng):
    """Every product of one set of tensors."""
    m, n, k = sizes
    shapes = {"x": (m, k), "w": (k, n), "dy": (m, n)}
    operands = {
        name: golden.convert(tensor(rng, *shape, spread=SPREAD), name, tag=tag)
        for tag, (name, shape) in enumerate(shapes.items())
    }
    results = {"y": (m, n), "dw": (k, n), "dx": (m, k)}
    for mode, wanted in products(golden, *operands.values()).items():
        memory.bytes[:] = b"\xa5" * len(memory.bytes)
        addresses, layouts = place_tensors(memory, operands, results, ENGINE.bus.data_width)
        want = bytearray(memory.bytes)
        for name, result in wanted.items():
            image = layouts[name].pack(getattr(result, name)).tobytes()
            want[addresses[name] : addresses[name] + len(image)] = image
        ports.set("control__mode", mode.value)
        ports.set("control__operands", {"m": m, "n": n, "k": k, **addresses})
        await ports.sample("control__fits")  # of the operands of the cycle before
        (fits,) = await ports.sample("control__fits")
        assert fits == fused_fits(m, n)
        if mode == Mode.FUSED and not fits:
            continue  # the machine never asks for it then, but runs two products
        inexact, overflow = await run_until_done(ports)
        what = f"{mode.name.lower()} of {sizes}"
        if memory.bytes != want:
            wrong = [at for at in range(len(want)) if want[at] != memory.bytes[at]]
            raise AssertionError(f"{what}: bytes {wrong[:8]}, tensors at {addresses}")
        result = next(iter(wanted.values()))
        assert inexact == (not result.exact), what
        assert overflow == result.overflow, what


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(p_move=[1.0, 0.5])
async def matches_model(dut, p_move):
    ports = Ports(dut, make_engine())
    memory = ServiceMemory(ports, PORTS, size=1 << 16, beat=ENGINE.bus.data_width // 8)
    memory.willing = sometimes(p_move)
    await ports.start()
    memory.start()
    rng = np.random.default_rng(random.getrandbits(32))
    golden = NumpyDevice(ENGINE.numerics, seed=1)
    for sizes in SIZES:
        await multiply(ports, memory, golden, sizes, rng)
