"""The room of a ring against a list of the blocks of its memory."""

import pytest

from diastole_hw.schedule.ring import RingSpace, following
from support.bench import design, pulse, simulation
from support.pipelines import Function, check_pipeline


@pytest.mark.parametrize("blocks", [2, 3, 8, 11, 16])
def test_the_slab_behind_each(blocks):
    inputs = {"at": range(blocks), "slab": range(blocks + 1)}

    def behind(m, at, slab):
        return following(m, "ring", at, slab, blocks)

    dut = Function(inputs, {"o": range(blocks)}, behind)
    cases = []
    for slab in range(1, blocks + 1):
        starts = range(0, blocks - slab + 1, slab)
        for number, at in enumerate(starts):
            want = starts[(number + 1) % len(starts)]
            cases.append(({"at": at, "slab": slab}, {"o": want}))
    check_pipeline(dut, cases, 0)


async def one_product(ctx, dut, slab, rng, cycles):
    """Take and give at random, and look at every place; all is given back at the end."""
    starts = range(0, dut.blocks - slab + 1, slab)
    taken = []  # places, the oldest first
    next_place = 0  # number
    ctx.set(dut.slab, slab)
    ctx.set(dut.place, 0)
    await pulse(ctx, dut.start)
    was_full = False
    for cycle in range(cycles):
        place = starts[next_place % len(starts)]
        ctx.set(dut.place, place)
        free = place not in taken
        p_take = (0.9, 0.5, 0.2)[3 * cycle // cycles]
        draining = cycle >= cycles - len(starts) - 2
        assert ctx.get(dut.space) == free, f"{slab=} {place=} {taken=}"
        assert ctx.get(dut.empty) == (not taken)
        was_full |= not free
        take = free and not draining and rng.random() < p_take
        give = bool(taken) and (draining or rng.random() > p_take)
        ctx.set(dut.take, take)
        ctx.set(dut.give, give)
        await ctx.tick()
        next_place += take
        taken = taken[give:] + [place] * take
    ctx.set(dut.take, 0)
    ctx.set(dut.give, 0)
    assert not taken
    return was_full


@pytest.mark.parametrize("blocks", [2, 5, 8, 16])
async def test_places_are_free_that_are_not_taken(blocks, rng):
    """Product after product, with slabs of every length: those that divide the memory, those that
    leave a rest, and one that is all of it."""
    dut = design(RingSpace, blocks)
    ctx = await simulation(dut)
    for slab in rng.sample([*range(1, blocks + 1)] * 2, 2 * blocks):
        assert await one_product(ctx, dut, slab, rng, 12 * (blocks // slab) + 20)


@pytest.mark.parametrize("blocks", [3, 8, 13])
async def test_products_follow_each_other(blocks, rng):
    """They begin where the one before has ended, or at 0, while slabs of it are taken; the memory
    is a list of blocks."""
    dut = design(RingSpace, blocks)
    ctx = await simulation(dut)
    taken = []  # (first block, length, product), the oldest first
    product, slab, place, left = 0, 1, 0, 0
    waited = 0
    for cycle in range(900):
        start = left == 0 and not any(whose < product for *_, whose in taken)
        if start:
            product, slab, left = product + 1, rng.randint(1, blocks), rng.randint(1, 5)
            place = 0 if rng.random() < 0.4 or place + slab > blocks else place
            ctx.set(dut.slab, slab)
        ctx.set(dut.start, start)
        ctx.set(dut.place, place)
        wanted = range(place, place + slab)
        free = not any(first < wanted.stop and wanted.start < first + n for first, n, _ in taken)
        assert ctx.get(dut.space) == free, f"{cycle=} {place=} {slab=} {taken=}"
        assert ctx.get(dut.empty) == (not taken)
        waited += not free
        take = free and left > 0 and rng.random() < 0.6
        give = bool(taken) and rng.random() < 0.4
        ctx.set(dut.take, take)
        ctx.set(dut.give, give)
        await ctx.tick()
        taken = taken[give:]
        if take:
            taken.append((place, slab, product))
            place = place + slab if place + 2 * slab <= blocks else 0
            left -= 1
    assert product > 30
    assert waited > 30


async def test_one_is_taken_while_another_is_given():
    """In a ring of two: what is given back counts from the next cycle on."""
    dut = design(RingSpace, 5)
    ctx = await simulation(dut)
    ctx.set(dut.slab, 2)
    await pulse(ctx, dut.start)
    for place, take, give, room, empty in [
        (0, 1, 0, 1, 1),
        (2, 1, 0, 1, 0),
        (0, 0, 1, 0, 0),  # still full in the cycle of the gift
        (0, 1, 1, 1, 0),
        (2, 0, 0, 1, 0),
        (0, 0, 1, 0, 0),  # the only one that is taken
        (2, 0, 0, 1, 1),
    ]:
        ctx.set(dut.place, place)
        ctx.set(dut.take, take)
        ctx.set(dut.give, give)
        assert (ctx.get(dut.space), ctx.get(dut.empty)) == (room, empty)
        await ctx.tick()
