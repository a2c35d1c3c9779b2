"""Positions of tiles of sums, against those of the walk that they come from."""

import pytest

from diastole_hw.plan.modes import PRODUCTS, Mode
from diastole_hw.store.tile_places import TilePlaces
from support.bench import design, simulation
from support.plans import make_numerics, make_plan

LENGTHS = {  # blocks of T tiles, of lane tiles, of chunks: of tiles in both loops, in one, in none
    "both": ([4, 4, 3], [6, 6, 6, 1], [2, 1]),
    "t": ([4, 4, 4, 2], [5], [2]),
    "l": ([3], [6, 2], [2, 2, 2]),
    "one": ([2], [3], [1]),
}


def tiles_of(plan, lengths, *, lanes_outermost, transposed):
    """All that is said of each tile, in order: a tile is one chunk where it is turned."""
    t, l, c = ([(sum(each[:n]), size, n) for n, size in enumerate(each)] for each in lengths)  # noqa: E741
    places = [(at_l, at_t) for at_l in l for at_t in t]
    if not lanes_outermost:
        places = [(at_l, at_t) for at_t in t for at_l in l]
    for number, (at_l, at_t) in enumerate(places):
        for at_c in c if transposed else c[-1:]:
            tile = {
                "t0": at_t[0], "t_count": at_t[1] * plan.block - (at_t[2] == len(t) - 1),
                "l0": at_l[0], "l_blocks": at_l[1],
                "first_t": at_t[2] == 0, "last_t": at_t[2] == len(t) - 1,
                "first_l": at_l[2] == 0, "last_l": at_l[2] == len(l) - 1,
                "last": at_c is c[-1], "tile": number % 8,
            }  # fmt: skip
            if transposed:
                tile |= {"c0": at_c[0], "c_blocks": at_c[1], "first_c": at_c is c[0]}
                tile["t_blocks"] = at_t[1]
            yield tile


@pytest.mark.parametrize("transposed", [False, True], ids=["rows", "transposed"])
async def test_positions_are_those_of_the_loops(transposed, rng):
    """Products behind each other, the loops in both orders; a tile stays until it leaves."""
    plan = make_plan(make_numerics(), 2, 2)
    dut = design(TilePlaces, plan, transposed=transposed)
    ctx = await simulation(dut)
    for number in range(24):
        name = list(LENGTHS)[number] if number < len(LENGTHS) else rng.choice([*LENGTHS])
        lanes_outermost = not transposed and rng.random() < 0.5
        ctx.set(dut.lanes_outermost, lanes_outermost)
        ctx.set(dut.t_step, LENGTHS[name][0][0])
        options = {"lanes_outermost": lanes_outermost, "transposed": transposed}
        for want in tiles_of(plan, LENGTHS[name], **options):
            given = dut.tile.shape().members
            ctx.set(dut.tile, {key: value for key, value in want.items() if key in given})
            shown = dut.drained.shape().members
            for leaves in [0] * rng.randrange(3) + [1]:
                ctx.set(dut.leaves, leaves)
                found = ctx.get(dut.drained)
                got = {key: found[key] for key in shown}
                assert got == {key: want[key] for key in shown}, f"{name}: {want}"
                await ctx.tick()
        ctx.set(dut.leaves, 0)


async def test_a_product_without_turned_tiles_has_one_chunk_for_each():
    """What is turned only in the fused pass has the last chunk of every other tile."""
    plan = make_plan(make_numerics(), 2, 2)
    assert plan.fused
    assert Mode.FUSED not in PRODUCTS
    dut = design(TilePlaces, plan, transposed=True)
    ctx = await simulation(dut)
    ctx.set(dut.t_step, 4)
    tiles = tiles_of(plan, LENGTHS["both"], lanes_outermost=False, transposed=False)
    for want in tiles:
        given = dut.tile.shape().members
        tile = {key: value for key, value in want.items() if key in given}
        ctx.set(dut.tile, tile | {"c_blocks": 2})
        ctx.set(dut.leaves, 1)
        found = ctx.get(dut.drained)
        places = {"t0": want["t0"], "l0": want["l0"], "c0": 0}
        assert {key: found[key] for key in places} == places
        await ctx.tick()
