"""The tile walk against nested loops in Python."""

from itertools import product

import pytest

from diastole_hw.plan.uses import Mode
from diastole_hw.schedule.walk import TileWalk
from support.bench import design, get, run
from support.plans import make_numerics, make_plan


def nest(plan, mode, rng):
    """T tile, lane tile and chunk in blocks, and whether the loop over lanes is outermost."""
    if mode == Mode.FUSED:
        return plan.fused_tile_blocks, plan.fused_blocks_n, plan.cols, False
    limits = plan.nests.of(mode.name.lower())
    side = plan.cols if plan.use(mode).north else plan.rows
    lanes = rng.choice(limits.groups) * side
    return rng.choice(limits.t_blocks), lanes, rng.choice(limits.chunk), rng.random() < 0.5


def expected(plan, steps, t_size, lanes, contraction):
    t_step, l_step, c_step, lanes_outermost = steps
    t_blocks = -(-t_size // plan.block)
    tiles = list(product(range(0, t_blocks, t_step), range(0, lanes, l_step)))
    if lanes_outermost:
        tiles.sort(key=lambda tile: tile[::-1])
    for number, (t0, l0) in enumerate(tiles):
        t_count = min(t_step * plan.block, t_size - t0 * plan.block)
        for c0 in range(0, contraction, c_step):
            yield (
                (t0, min(t_step, t_blocks - t0), t_count),
                (l0, min(l_step, lanes - l0)),
                (c0, min(c_step, contraction - c0)),
                (c0 == 0, c0 + c_step >= contraction, number % plan.tiling.tiles_in_flight),
            )


def describe(ctx, dut, steps, sizes):
    """Say the product's sizes and its nest."""
    t_size, lanes, contraction = sizes
    t_step, l_step, c_step, lanes_outermost = steps
    values = {
        "t_size": t_size, "t_blocks": -(-t_size // dut.plan.block), "l_blocks": lanes,
        "c_blocks": contraction, "t_step": t_step, "l_step": l_step, "c_step": c_step,
        "lanes_outermost": lanes_outermost,
    }  # fmt: skip
    for name, value in values.items():
        ctx.set(dut.product[name], value)


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
    steps = nest(shape, mode, rng)

    async def check(ctx):
        describe(ctx, dut, steps, (t_size, lanes, contraction))
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        for want in expected(shape, steps, t_size, lanes, contraction):
            c = await get(ctx, dut.chunks, willing=lambda: rng.random() < 0.7)
            got = (
                (c.t0, c.t_blocks, c.t_count),
                (c.l0, c.l_blocks),
                (c.c0, c.c_blocks),
                (c.first, c.last, c.tile),
            )
            assert got == want, f"{mode} {sizes} {steps}"
            assert c.first_tile == (c.t0 == 0) or steps[3]
        await ctx.tick()
        assert not ctx.get(dut.busy)

    run(dut, check)


def test_cycles(rng):
    """A chunk in every cycle after ``start``, which is ignored until the last one is taken."""
    shape = make_plan(make_numerics(), 2, 2)
    sizes = (300, 40, 70)
    steps = nest(shape, Mode.FORWARD, rng)
    count = len(list(expected(shape, steps, *sizes)))
    dut = design(TileWalk, shape)
    valid, busy = [], []

    async def bench(ctx):
        describe(ctx, dut, steps, sizes)
        ctx.set(dut.chunks.ready, 1)
        ctx.set(dut.start, 1)
        for cycle in range(count + 5):
            _, _, *now = await ctx.tick().sample(dut.chunks.valid, dut.busy)
            valid.append(now[0])
            busy.append(now[1])
            ctx.set(dut.start, cycle < count - 2 and rng.randrange(2))

    run(dut, bench)
    assert valid == busy == [0] + [1] * count + [0] * 4
