"""The blocks of a result, tile by tile, against the golden model's order."""

import pytest

from diastole_hw.vector.stream_layouts import VectorShape
from diastole_hw.vector.streams.product_walk import ProductWalk
from diastole_sim.golden.drain_order import tile_order
from diastole_sim.spec.nest import OUTER
from diastole_sim.spec.stream_table import Walk
from support.bench import design
from support.unit_bench import Unit

CASES = [  # rows and columns in blocks, and those of a tile
    (1, 1, 1, 1),
    (5, 7, 2, 3),
    (4, 6, 2, 3),
    (7, 2, 8, 1),
    (3, 9, 1, 2),
    (5, 5, 4, 12),
    (1, 6, 16, 4),
    (6, 1, 2, 8),
]


def expected(order):
    """By block, what the walk says of it."""
    side = order.block
    for k, (i, j) in enumerate(zip(order.i.tolist(), order.j.tolist(), strict=True)):
        yield {
            "i": i,
            "j": j,
            "rows": min(side, order.rows - i * side),
            "cols": min(side, order.cols - j * side),
            "first": bool(order.first[k]),
            "last": bool(order.last[k]),
            "first_row": i == 0,
            "end": k == len(order) - 1,
        }


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("p_ready", [1.0, 0.5], ids=["free", "stalled"])
@pytest.mark.parametrize("block", [1, 2, 4, 8])
@pytest.mark.sampled(2)
def test_tiles_in_both_orders(block, outer, p_ready, rng):
    """One walk after the other; free, a block in every cycle from the one after the start on."""
    shape = VectorShape(block=block, data_width=64, specials=1, panel_vectors=64)
    dut = design(ProductWalk, shape)

    unit = Unit(dut, rng, pace=p_ready)
    taken, valid = unit.take(dut.blocks), unit.record(dut.blocks.valid)

    async def script(ctx):
        for high, wide, t_step, l_step in CASES:
            rows = block * high - rng.randrange(block)
            cols = block * wide - rng.randrange(block)
            tiles = {"rows": rows, "cols": cols, "t_step": t_step, "l_step": l_step}
            tiles["lanes_outermost"] = OUTER.index(outer)
            walk = Walk(rows=rows, cols=cols, block=block)
            taken.add(expected(tile_order(walk, t_step, l_step, outer)))
            await unit.pulse(ctx, "start", tiles=tiles)
            begins = unit.cycle
            await unit.settled(ctx)
            assert all(valid.raw[begins:])
            await ctx.tick()

    unit.run(script)
