"""The set-up of a product against the layouts of the memory image."""

import pytest

from diastole.control.descriptors import Mode
from diastole.control.setup import Setup
from diastole.plan import MAX_ELEMENT_BITS
from diastole_sim.program.image import FloatLayout, ImageLayout
from support.bench import run
from support.plans import make_numerics, make_plan

SHAPES = {"x": "mk", "w": "kn", "dy": "mn"}  # rows and columns, by class
# Streamed dimension, lanes and contraction; the result to the east, and the one to the north.
USES = {
    Mode.FORWARD: ("mnk", "y", None),
    Mode.DX: ("mkn", None, "dx"),
    Mode.DW: ("knm", "dw", None),
    Mode.FUSED: ("knm", "dw", "dx"),
}
RESULTS = {"y": "mn", "dw": "kn", "dx": "mk"}
FORMATS = ("bfp3", "bfp5", "bfp2")
MOST = 2**MAX_ELEMENT_BITS - 1


def random_operands(rng, plan, large):
    bits = MAX_ELEMENT_BITS if large else 7
    operands = {name: rng.randrange(1, 2 ** rng.randrange(2, bits + 1)) for name in "mnk"}
    places = {name: rng.randrange(2**30) * plan.beat_bytes for name in (*SHAPES, *RESULTS)}
    return operands | places


async def set_up(ctx, dut, mode, operands):
    """Start, wait, and say how many cycles it took."""
    ctx.set(dut.mode, mode)
    for name, value in operands.items():
        ctx.set(dut.operands[name], value)
    ctx.set(dut.start, 1)
    await ctx.tick()
    ctx.set(dut.start, 0)
    cycles = 1
    while not ctx.get(dut.done):
        await ctx.tick()
        cycles += 1
    return cycles


def check_tensors(ctx, plan, product, operands):
    for cls, (name, (rows, cols)) in enumerate(SHAPES.items()):
        layout = ImageLayout(
            rows=operands[rows],
            cols=operands[cols],
            block=plan.block,
            mantissa_bits=plan.mantissas[cls],
            data_width=plan.data_width,
        )
        base = operands[name]
        if base + layout.total_bytes > 2**40:
            continue  # not inside memory; refused before
        tensor = product.tensors[cls]
        got = {field: ctx.get(getattr(tensor, field)) for field in ("base", "pitch")}
        got |= {field: ctx.get(getattr(tensor, field)) for field in ("row_max", "col_max")}
        want = {
            "base": base,
            "pitch": layout.pitch_bytes,
            "row_max": base + layout.row_max_offset,
            "col_max": base + layout.col_max_offset,
        }
        assert got == want, f"{name} of {operands[rows]} x {operands[cols]}"


def check_result(ctx, plan, got, name, operands):
    rows, cols = (operands[side] for side in RESULTS[name])
    pitch = FloatLayout(rows=rows, cols=cols, data_width=plan.data_width).pitch_bytes
    values = {field: ctx.get(getattr(got, field)) for field in ("base", "pitch", "rows", "cols")}
    want = {"base": operands[name], "pitch": pitch, "rows": rows, "cols": cols}
    assert values == want, f"{name}, {rows} x {cols}"


@pytest.mark.parametrize(
    "block, data_width, in_place", [(1, 32, True), (4, 64, False), (8, 128, True), (32, 512, True)]
)
@pytest.mark.parametrize("mode", list(Mode), ids=lambda mode: mode.name)
def test_addresses_and_sizes(block, data_width, in_place, mode, rng):
    if mode == Mode.FUSED and not in_place:
        return  # no such use
    numerics = make_numerics(block=block, formats=FORMATS)
    plan = make_plan(numerics, rows=2, in_place=in_place, data_width=data_width)
    dut = Setup(plan)

    async def bench(ctx):
        for number in range(20):
            operands = random_operands(rng, plan, large=number % 2)
            if number == 0:
                operands |= {"m": MOST, "n": 1, "k": 1}
            cycles = await set_up(ctx, dut, mode, operands)
            blocks = {name: -(-operands[name] // block) for name in "mnk"}
            assert cycles == max(blocks["m"], blocks["k"]).bit_length() + 2
            product = dut.product
            assert ctx.get(product.mode) == mode
            check_tensors(ctx, plan, product, operands)
            (t, lanes, contraction), east, north = USES[mode]
            if north == "dx" and not in_place:
                east, north = "dx", None
            sizes = (product.t_size, product.t_blocks, product.l_blocks, product.c_blocks)
            want = (operands[t], blocks[t], blocks[lanes], blocks[contraction])
            assert tuple(ctx.get(size) for size in sizes) == want, operands
            for got, name in ((product.east, east), (product.north, north)):
                if name is not None:
                    check_result(ctx, plan, got, name, operands)

    run(dut, bench)


@pytest.mark.parametrize("in_place", [True, False])
def test_fits_says_whether_dy_can_stay(in_place):
    plan = make_plan(make_numerics(block=4), rows=3, cols=2, in_place=in_place)
    dut = Setup(plan)
    m, n = (blocks * plan.block for blocks in (plan.fused_blocks_m, plan.fused_blocks_n))

    async def bench(ctx):
        for over_m, over_n in ((0, 0), (1, 0), (0, 1), (1 - m, 1 - n), (MOST - m, 0)):
            ctx.set(dut.operands.m, m + over_m)
            ctx.set(dut.operands.n, n + over_n)
            ctx.set(dut.operands.k, MOST)
            assert ctx.get(dut.fits) == (in_place and over_m <= 0 and over_n <= 0)

    run(dut, bench)
