"""Rows of two drains on their way to chains: one product after the other, and how each is cut."""

from collections import deque

import pytest

from diastole_hw.engine.chained_results import ChainedResults
from diastole_hw.plan.modes import PRODUCTS
from diastole_hw.schedule.lengths import longest_lengths
from diastole_hw.schedule.tokens import COMMAND_RESULTS, product_layout
from support.bench import design, get, pulse, simulation
from support.plans import make_numerics, make_plan, with_vector

BOTH = with_vector(make_plan(make_numerics(block=4), 2, 2))
EAST = with_vector(make_plan(make_numerics(block=2), 2, 2, in_place=False))


@pytest.mark.parametrize("plan", [BOTH, EAST], ids=["both", "east"])
@pytest.mark.parametrize("p_ready", [1.0, 0.4])
async def test_rows_in_the_order_of_products(plan, p_ready, rng):
    """The bench plays the drains: both may have rows, and only those of the oldest may go."""
    dut = design(ChainedResults, plan)
    rows = [
        (rng.choice(plan.directions), [rng.getrandbits(32) for _ in range(plan.block)])
        for _ in range(60)
    ]
    queues = {name: deque(row for at, row in rows if at == name) for name in plan.directions}
    due, got = deque(rows), []
    ctx = await simulation(dut)
    while due:
        oldest = due[0][0]
        shown = {name: bool(queue) and rng.random() < 0.8 for name, queue in queues.items()}
        for name, queue in queues.items():
            side = getattr(dut, name)
            ctx.set(side.valid, shown[name])
            ctx.set(side.payload, queue[0] if shown[name] else [7] * plan.block)
            ctx.set(getattr(dut, f"{name}_first"), name == oldest)
        ready = rng.random() < p_ready
        ctx.set(dut.rows.ready, ready)
        sides = [getattr(dut, name).ready for name in plan.directions]
        _, _, valid, payload, *taken = await ctx.tick().sample(
            dut.rows.valid, dut.rows.payload, *sides
        )
        assert valid == shown[oldest]
        assert taken == [ready and name == oldest for name in plan.directions]
        if valid and ready:
            got.append((oldest, list(payload)))
            queues[oldest].popleft()
            due.popleft()
    assert got == rows


async def test_how_results_are_cut(rng):
    """Of the direction in which they leave; two products may be ahead of who asks."""
    dut = design(ChainedResults, BOTH)
    products = []
    for _ in range(20):
        sizes = {name: rng.randrange(1, 2**24) for name in ("rows", "cols")}
        longest = longest_lengths(BOTH)
        nest = {name: rng.randint(1, longest[name]) for name in ("t_step", "l_step")}
        nest |= {"lanes_outermost": rng.randrange(2)}
        products.append((sizes, nest))

    async def starts(ctx):
        for number, (sizes, nest) in enumerate(products):
            while number - len(seen) >= 2:
                await ctx.tick()
            mode = rng.choice(PRODUCTS)
            other = {"rows": 5, "cols": 6}
            results = {"north": sizes, "east": other}
            if not BOTH.use(mode).north:
                results = {"north": other, "east": sizes}
            ctx.set(dut.results, COMMAND_RESULTS.const(results))
            ctx.set(dut.mode, mode)
            await pulse(ctx, dut.started)
            ctx.set(dut.results, {})
            await ctx.tick()
            ctx.set(dut.product, product_layout(BOTH).const(nest))
            await ctx.tick()
            ctx.set(dut.product, {})

    seen = []
    ctx = await simulation(dut, starts)
    for sizes, nest in products:
        got = await get(ctx, dut.tiles, lambda: rng.random() < 0.5)
        want = sizes | nest
        assert {name: got[name] for name in want} == want
        seen.append(got)
    assert len(seen) == len(products)
