"""The walk of a chain: over memory by rows and by columns, and as a product gives blocks."""

import pytest

from diastole_hw.vector.stream_layouts import VectorShape
from diastole_hw.vector.streams.chain_walk import ChainWalk
from support.bench import design, get, simulation

SHAPE = VectorShape(block=4, data_width=64, specials=1, panel_vectors=64)
HIGH, WIDE = 3, 5


def blocks(kind):
    """(i, j) in order; tiles are 2 x 2 blocks, row of tiles by row of tiles."""
    every = [(i, j) for i in range(HIGH) for j in range(WIDE)]
    if kind == "columns":
        return sorted(every, key=lambda block: block[::-1])
    if kind == "product":
        return sorted(every, key=lambda block: (block[0] // 2, block[1] // 2, *block))
    return every


@pytest.mark.parametrize("p_ready", [1.0, 0.4], ids=["free", "stalled"])
async def test_one_walk_after_the_other(p_ready, rng):
    dut = design(ChainWalk, SHAPE)
    ctx = await simulation(dut)
    for kind in ("rows", "product", "columns", "product", "rows"):
        chain = {"rows": 4 * HIGH - 1, "cols": 4 * WIDE - 3}
        chain |= {"by_columns": kind == "columns", "of_product": kind == "product"}
        ctx.set(dut.chain, chain)
        steps = {"t_step": 2, "l_step": 2, "lanes_outermost": 0}
        left = 0 if kind == "product" else 40  # tiles are those of another tensor
        ctx.set(dut.tiles, {n: chain[n] + left for n in ("rows", "cols")} | steps)
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        for i, j in blocks(kind):
            got = await get(ctx, dut.blocks, lambda: rng.random() < p_ready)
            assert (got.i, got.j) == (i, j), kind
            assert got.rows == (3 if i == HIGH - 1 else 4)
            assert got.cols == (1 if j == WIDE - 1 else 4)
            assert got.end == ((i, j) == (HIGH - 1, WIDE - 1))
        assert not ctx.get(dut.blocks.valid)
