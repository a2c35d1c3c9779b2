"""The blocks of a walk."""

import pytest

from diastole_hw.vector.streams.block_walk import BlockWalk
from support.bench import design, get, simulation
from support.vector_streams import vector_shape, walked


@pytest.mark.parametrize("stalls", [False, True], ids=["free", "stalled"])
@pytest.mark.parametrize("side", [1, 2, 8, 16])
async def test_every_block_once(side, stalls, rng):
    dut = design(BlockWalk, vector_shape(side, 64))
    sizes = [(1, 1), (1, 5 * side), (3 * side + 1, 1), (side, side), (2 * side, 3 * side)]
    sizes += [(rng.randrange(1, 4 * side + 1), rng.randrange(1, 4 * side + 1)) for _ in range(5)]
    ctx = await simulation(dut)
    for rows, cols in sizes:
        by_columns = rng.random() < 0.5
        ctx.set(dut.rows, rows)
        ctx.set(dut.cols, cols)
        ctx.set(dut.by_columns, by_columns)
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        assert ctx.get(dut.blocks.valid)
        for block in walked(rows, cols, side, by_columns):
            got = await get(ctx, dut.blocks, lambda: not stalls or rng.random() < 0.5)
            fields = {name: got[name] for name in block.fields()}
            assert fields == block.fields(), f"{rows} x {cols}"
        assert not ctx.get(dut.blocks.valid), "one block more"


async def test_a_block_every_cycle():
    dut = design(BlockWalk, vector_shape(4, 64))
    ctx = await simulation(dut)
    ctx.set(dut.rows, 12)
    ctx.set(dut.cols, 20)
    ctx.set(dut.start, 1)
    ctx.set(dut.blocks.ready, 1)
    await ctx.tick()
    ctx.set(dut.start, 0)
    for _ in range(15):
        assert ctx.get(dut.blocks.valid)
        await ctx.tick()
    assert not ctx.get(dut.blocks.valid)
