"""The tile walk against nested loops in Python."""

import pytest

from diastole_hw.plan.uses import Mode
from diastole_hw.schedule.walk import TileWalk
from support.bench import design, get, run
from support.plans import make_numerics, make_plan


def steps(plan, mode):
    """T tile, lane tile and chunk in blocks, as the design states them."""
    if mode == Mode.FUSED:
        return plan.fused_tile_blocks, plan.fused_blocks_n, plan.cols
    if plan.use(mode).north:
        return plan.tile_blocks, plan.groups * plan.cols, plan.chunk(north=True)
    return plan.tile_blocks, plan.groups * plan.rows, plan.chunk(north=False)


def expected(plan, mode, t_size, lanes, contraction):
    t_step, l_step, c_step = steps(plan, mode)
    t_blocks = -(-t_size // plan.block)
    for t0 in range(0, t_blocks, t_step):
        t_count = min(t_step * plan.block, t_size - t0 * plan.block)
        for l0 in range(0, lanes, l_step):
            for c0 in range(0, contraction, c_step):
                yield (
                    (t0, min(t_step, t_blocks - t0), t_count),
                    (l0, min(l_step, lanes - l0)),
                    (c0, min(c_step, contraction - c0)),
                    (c0 == 0, c0 + c_step >= contraction, t0 == 0),
                )


@pytest.mark.parametrize(
    "rows, cols, in_place, groupings",
    [
        (1, 1, True, None),
        (2, 2, True, None),
        (3, 2, True, None),
        (2, 3, False, None),
        (3, 2, True, "1x8"),
        (3, 1, True, ("1x8", "4x4", "1x8")),
    ],
)
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("sizes", [(1, 1, 1), (129, 3, 5), (300, 40, 70)])
def test_every_chunk_once_in_order(rows, cols, in_place, groupings, mode, sizes, rng):
    shape = make_plan(make_numerics(groupings=groupings), rows, cols, in_place)
    if mode == Mode.FUSED and not shape.fused:
        return  # no such use
    t_size, lanes, contraction = sizes
    if mode == Mode.FUSED:
        lanes, contraction = (
            min(lanes, shape.fused_blocks_n),
            min(contraction, shape.fused_blocks_m),
        )
    dut = design(TileWalk, shape)

    async def check(ctx):
        product = {"t_size": t_size, "t_blocks": -(-t_size // shape.block), "l_blocks": lanes}
        ctx.set(dut.product.mode, mode)
        ctx.set(dut.product.north, mode != Mode.FUSED and shape.use(mode).north)
        for name, value in (product | {"c_blocks": contraction}).items():
            ctx.set(dut.product[name], value)
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        for want in expected(shape, mode, *sizes[:1], lanes, contraction):
            c = await get(ctx, dut.chunks, willing=lambda: rng.random() < 0.7)
            got = (
                (c.t0, c.t_blocks, c.t_count),
                (c.l0, c.l_blocks),
                (c.c0, c.c_blocks),
                (c.first, c.last, c.first_tile),
            )
            assert got == want, f"{mode} {sizes}"
        await ctx.tick()
        assert not ctx.get(dut.busy)

    run(dut, check)


def test_cycles(rng):
    """A chunk in every cycle after ``start``, which is ignored until the last one is taken."""
    shape = make_plan(make_numerics(), 2, 2)
    sizes = (300, 40, 70)
    count = len(list(expected(shape, Mode.FORWARD, *sizes)))
    dut = design(TileWalk, shape)
    valid, busy = [], []

    async def bench(ctx):
        product = {"t_size": sizes[0], "t_blocks": -(-sizes[0] // shape.block)}
        for name, value in (product | {"l_blocks": sizes[1], "c_blocks": sizes[2]}).items():
            ctx.set(dut.product[name], value)
        ctx.set(dut.chunks.ready, 1)
        ctx.set(dut.start, 1)
        for cycle in range(count + 5):
            _, _, *now = await ctx.tick().sample(dut.chunks.valid, dut.busy)
            valid.append(now[0])
            busy.append(now[1])
            ctx.set(dut.start, cycle < count - 2 and rng.randrange(2))

    run(dut, bench)
    assert valid == busy == [0] + [1] * count + [0] * 4
