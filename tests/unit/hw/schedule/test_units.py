"""Units of sums that are taken, against a list of tiles."""

import pytest

from diastole_hw.plan.plan import SUM_UNITS
from diastole_hw.schedule.units import UnitSpace
from support.bench import design, run


@pytest.mark.parametrize("p_take, p_give", [(0.9, 0.3), (0.5, 0.5), (0.3, 0.9), (1.0, 1.0)])
def test_free_while_all_fit(p_take, p_give, rng):
    """Tiles of one and of two units, as products follow each other."""
    dut = design(UnitSpace)
    seen = set()

    async def bench(ctx):
        tiles = []
        for _ in range(300):
            takes = rng.choice((1, 2))
            ctx.set(dut.takes, takes)
            ctx.set(dut.gives, tiles[0] if tiles else rng.choice((1, 2)))
            taken = sum(tiles)
            assert ctx.get(dut.taken) == taken
            assert ctx.get(dut.free) == (taken + takes <= SUM_UNITS), tiles
            seen.add((taken, takes))
            take = taken + takes <= SUM_UNITS and rng.random() < p_take
            give = bool(tiles) and rng.random() < p_give
            ctx.set(dut.take, take)
            ctx.set(dut.give, give)
            await ctx.tick()
            tiles = tiles[give:] + [takes] * take

    run(dut, bench)
    if p_take > p_give:
        assert {(SUM_UNITS, 1), (SUM_UNITS - 1, 2), (0, 2)} <= seen
