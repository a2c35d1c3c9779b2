"""Room for tiles of sums, against a list of tiles and of what each takes."""

import pytest

from diastole_hw.schedule.sum_places import SumPlaces
from diastole_sim.spec.sizes.array_sizes import TILES_OF_SUMS
from support.bench import design, simulation


def halves_of(number, whole):
    """The halves of memories that a tile takes."""
    memory, half = number % 2, number // 2 % 2
    return {(memory, 0), (memory, 1)} if whole else {(memory, half)}


@pytest.mark.parametrize("p_whole", [0, 0.1, 0.5, 1])
@pytest.mark.parametrize("p_take, p_give", [(0.9, 0.3), (0.5, 0.5), (0.3, 0.9), (1.0, 1.0)])
async def test_free_while_its_halves_are(p_whole, p_take, p_give, rng):
    """Tiles of both kinds, as products follow each other."""
    dut = design(SumPlaces)
    most = 0
    ctx = await simulation(dut)
    tiles, number = [], 0
    for _ in range(300):
        whole = rng.random() < p_whole
        wants = halves_of(number, whole)
        ctx.set(dut.whole, whole)
        assert ctx.get(dut.used) == len(tiles)
        free = not any(wants & tile for tile in tiles)
        assert ctx.get(dut.free) == free, (wants, tiles)
        take = free and rng.random() < p_take
        give = bool(tiles) and rng.random() < p_give
        ctx.set(dut.take, take)
        ctx.set(dut.give, give)
        await ctx.tick()
        tiles = tiles[give:] + [wants] * take
        number += take
        most = max(most, len(tiles))
    if p_take > p_give:
        assert most == (2 if p_whole == 1 else TILES_OF_SUMS)
