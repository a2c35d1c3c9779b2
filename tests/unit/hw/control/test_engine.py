"""Whole products on the engine, operands already converted, against the golden model."""

import random
import zlib

import numpy as np
import pytest

from diastole.control.descriptors import Mode
from diastole.control.engine import ProductEngine
from diastole_sim.golden.machine import GoldenDevice
from diastole_sim.program.image import FloatLayout, StoredTensor, image_layout
from support.bench import run
from support.bus import ServiceMemory
from support.plans import make_numerics, make_plan

GUARD = 64  # bytes around every tensor that nobody may touch


def image_of(q, data_width):
    stored = StoredTensor(
        magnitudes=q.magnitudes, negative=q.negative, exponents=q.exponents,
        row_max=q.row_max, col_max=q.col_max,
    )  # fmt: skip
    return image_layout(q, data_width).pack(stored)


def tensors(m, n, k, seed):
    rng = np.random.default_rng(seed)

    def one(rows, cols):
        values = rng.standard_normal((rows, cols)) * np.exp2(rng.integers(-6, 6, (rows, cols)))
        values[rng.random((rows, cols)) < 0.1] = 0
        return values.astype(np.float32)

    return {"X": one(m, k), "W": one(k, n), "dY": one(m, n)}


def run_product(plan, numerics, mode, sizes, seed, stall=lambda: False, limit=60_000):
    """The result's tensors as the engine wrote them, the golden ones, and what it reported."""
    m, n, k = sizes
    golden = GoldenDevice(numerics, seed=1)
    given = tensors(m, n, k, seed)
    x, w, dy = (
        golden.convert(given[name], cls, tag=tag)
        for tag, (name, cls) in enumerate((("X", "x"), ("W", "w"), ("dY", "dy")))
    )
    memory = ServiceMemory(1 << 20, plan.beat_bytes, stall)
    memory.bytes[:] = b"\xa5" * len(memory.bytes)
    at = 4096
    operands = {"m": m, "n": n, "k": k}
    for name, q in (("x", x), ("w", w), ("dy", dy)):
        image = image_of(q, plan.data_width).tobytes()
        memory.bytes[at : at + len(image)] = image
        operands[name] = at
        at += len(image) + GUARD
    results = {}
    for name, rows, cols in (("y", m, n), ("dw", k, n), ("dx", m, k)):
        layout = FloatLayout(rows=rows, cols=cols, data_width=plan.data_width)
        operands[name] = at
        results[name] = (at, layout)
        at += layout.total_bytes + GUARD
    before = bytes(memory.bytes)
    dut = ProductEngine(plan)
    seen = {"inexact": 0, "overflow": 0, "cycles": 0}

    async def bench(ctx):
        ctx.set(dut.mode, mode)
        for name, value in operands.items():
            ctx.set(dut.operands[name], value)
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        while True:
            _, _, done, inexact, overflow = await ctx.tick().sample(
                dut.done, dut.inexact, dut.overflow
            )
            seen["cycles"] += 1
            seen["inexact"] |= inexact
            seen["overflow"] |= overflow
            if done:
                break

    async def reads(ctx):
        await memory.read(ctx, dut.read_requests, dut.read_data)

    async def writes(ctx):
        await memory.write(ctx, dut.write_requests, dut.write_beats, dut.writer_idle)

    run(dut, bench, background=(reads, writes), limit=limit)
    products = {
        Mode.FORWARD: lambda: {"y": golden.forward(x, w)},
        Mode.DX: lambda: {"dx": golden.dx(w, dy)},
        Mode.DW: lambda: {"dw": golden.dw(x, dy)},
        Mode.FUSED: lambda: dict.fromkeys(("dx", "dw"), golden.backward(x, w, dy)),
    }[mode]()
    written = set()
    for name, result in products.items():
        start, layout = results[name]
        image = np.frombuffer(bytes(memory.bytes[start : start + layout.total_bytes]), np.uint8)
        got, want = layout.unpack(image), getattr(result, name)
        same = got.view(np.uint32) == want.view(np.uint32)
        assert same.all(), f"{name}: {(~same).sum()} of {same.size} differ, first at " + (
            f"{np.argwhere(~same)[0]}: {got[~same][0]} for {want[~same][0]}"
        )
        written |= set(range(start, start + layout.total_bytes))
        assert seen["inexact"] == (not result.exact)
    touched = {k for k in range(len(before)) if before[k] != memory.bytes[k]}
    assert touched <= written, "memory outside the result changed"
    return seen


MACHINES = {
    "1x1": {"rows": 1, "cols": 1},
    "2x2": {"rows": 2, "cols": 2},
    "3x2": {"rows": 3, "cols": 2},
    "edge2x1": {"rows": 2, "cols": 1, "in_place": False},
}


USES = {machine: [Mode.FORWARD, Mode.DX, Mode.DW, Mode.FUSED] for machine in MACHINES}
USES["edge2x1"].remove(Mode.FUSED)  # without a west side there is no fused pass
CASES = [(machine, mode) for machine, modes in USES.items() for mode in modes]


@pytest.mark.parametrize("machine, mode", CASES, ids=lambda value: getattr(value, "name", value))
def test_less_than_a_tile(machine, mode):
    numerics = make_numerics(block=2)
    plan = make_plan(numerics, **MACHINES[machine])
    run_product(plan, numerics, mode, (3, 5, 7), seed=3)


@pytest.mark.parametrize("mode", list(Mode), ids=lambda mode: mode.name)
def test_several_tiles_and_chunks(mode):
    """On 3x2 cells of side 2: lanes beyond one tile, a contraction of two chunks, two k tiles."""
    numerics = make_numerics(block=2)
    plan = make_plan(numerics, **MACHINES["3x2"])
    sizes = {Mode.FORWARD: (9, 51, 35), Mode.DX: (9, 51, 35), Mode.DW: (35, 51, 9)}
    run_product(plan, numerics, mode, sizes.get(mode, (13, 9, 35)), seed=4)


@pytest.mark.parametrize("mode", list(Mode), ids=lambda mode: mode.name)
def test_stalls_change_nothing(mode, request):
    rng = random.Random(zlib.crc32(request.node.nodeid.encode()))
    numerics = make_numerics(block=2, formats=("bfp3", "bfp5", "bfp2"), fraction=3)
    plan = make_plan(numerics, rows=2, cols=1)
    run_product(plan, numerics, mode, (9, 21, 18), 5, stall=lambda: rng.random() < 0.5)
