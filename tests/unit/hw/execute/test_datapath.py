"""The datapath: what was left in banks that a pass does not mean must not poison its sums."""

import pytest

from diastole_hw.execute.datapath import Datapath
from diastole_hw.schedule.tokens import Region
from support.bench import design, simulation
from support.plans import make_numerics, make_plan
from support.sweep import sweep

SIDE = 2


async def fill(ctx, dut, banks, poisoned):
    """One block of zeros in each bank of what streams and what is held."""
    for kind, count in banks.items():
        for bank in range(count):
            ctx.set(dut.write_en, 1)
            ctx.set(dut.write.kind, kind)
            ctx.set(dut.write.bank, bank)
            ctx.set(dut.write.word, 0)
            for addr, vector in enumerate(dut.write.vectors):
                ctx.set(vector.elements, [0] * SIDE)
                ctx.set(vector.poison, (kind, bank) in poisoned and 1 << addr)
            await ctx.tick()
    ctx.set(dut.write_en, 0)


async def passes(ctx, dut, valid, direction):
    """Back to back: the words of a pass are loaded while the one before streams, the first of them
    in the cycle of its swap.

    ``valid``: rows and columns of blocks that each pass means. Pass n adds into address 8 n.
    """
    rows = dut.plan.rows
    words = rows * SIDE
    for number in range(len(valid) + 1):
        for step in range(words + 4):
            loads = number < len(valid) and step < words
            ctx.set(dut.stationary.valid, loads)
            if loads:
                rows_valid, cols_valid = valid[number]
                ctx.set(dut.stationary.addr, step % SIDE)
                ctx.set(dut.stationary.row, step // SIDE)
                ctx.set(dut.stationary.index, step % SIDE)
                ctx.set(dut.stationary.rows_valid, rows_valid)
                ctx.set(dut.stationary.cols_valid, cols_valid)
            streams = number > 0 and 1 <= step <= SIDE
            ctx.set(dut.slot.valid, streams)
            ctx.set(dut.slot.swap, number > 0 and step == 0)
            ctx.set(dut.slot.direction, direction == "north")
            ctx.set(dut.slot.fresh, 1)
            if streams:
                ctx.set(dut.slot.south_addr, step - 1)
                ctx.set(dut.slot.west_addr, step - 1)
                ctx.set(dut.slot.sum_addr, 8 * (number - 1) + step - 1)
            await ctx.tick()
    for _ in range(20):
        await ctx.tick()


@pytest.mark.parametrize("registered", [False, True])
@pytest.mark.parametrize("direction, grouping", [("east", None), ("north", None), ("north", "1x2")])
@pytest.mark.sampled(6)
async def test_poison_of_banks_that_are_meant(direction, grouping, registered, rng):
    numerics = make_numerics(block=SIDE, special="poison", groupings=(grouping,) * 3)
    plan = make_plan(numerics, rows=3, cols=2, output_register=registered)
    dut = design(Datapath, plan)
    kind, streams = {"east": (Region.SOUTH, 2), "north": (Region.WEST, 3)}[direction]
    drain = getattr(dut, direction).drain
    ports = {"east": 3, "north": 2}[direction]
    valid = [(rng.randint(1, 3), rng.randint(1, 2)) for _ in range(6)] + [(1, 1), (3, 2)]
    ctx = await simulation(dut)
    await fill(ctx, dut, {kind: streams, Region.STATIONARY: plan.cols}, {(kind, streams - 1)})
    await passes(ctx, dut, valid, direction)
    for number, (rows_valid, cols_valid) in enumerate(valid):
        meant = {"east": cols_valid, "north": rows_valid}[direction] == streams
        for port in range(ports):
            for t in range(SIDE):
                ctx.set(drain.en, 1)
                ctx.set(drain.port, port)
                ctx.set(drain.addr, 8 * number + t)
                await ctx.tick()
                want = 2**SIDE - 1 if meant else 0
                got = ctx.get(drain.data[0].poison)
                assert got == want, f"pass {number} {valid[number]}, port {port}, vector {t}"
                assert list(ctx.get(drain.data[0].sums)) == [0] * SIDE


@pytest.mark.parametrize("rows, cols, registered", [(3, 2, 0), (2, 3, 0), (1, 1, 0), (2, 3, 1)])
@pytest.mark.sampled(2)
async def test_places_are_freed_when_every_bank_has_been_read(rows, cols, registered, rng):
    """max(R, C) cycles after their last slot, each for itself, in every cycle."""
    sizes = {"rows": rows, "cols": cols, "output_register": bool(registered)}
    dut = design(Datapath, make_plan(make_numerics(block=SIDE), **sizes))
    places = ("stream", "stationary", "west")
    frees = [{name: rng.randrange(2) for name in places} for _ in range(40)]
    later = max(rows, cols)
    nothing = dict.fromkeys(places, 0)
    seen = []
    ctx = await simulation(dut)
    for given in [*frees, *[nothing] * (later + 2)]:
        ctx.set(dut.slot.frees, given)
        ctx.set(dut.slot.valid, rng.randrange(2))
        _, _, freed = await ctx.tick().sample(dut.freed)
        seen.append({name: freed[name] for name in places})
    assert seen == [nothing] * later + frees + [nothing] * 2


@pytest.mark.parametrize("other", [sweep("kind"), "bank", "parity", None])
async def test_two_ports_write_one_part_of_a_bank_one_after_the_other(other, rng):
    """``other``: what alone differs; None: whatever it is.

    The first port never waits, and the second one only for it.
    """
    plan = make_plan(make_numerics(block=SIDE), rows=4, cols=4, ports=2)
    dut = design(Datapath, plan)
    per_block = SIDE // plan.fill_vectors

    def place():
        region = rng.choice([Region.SOUTH, Region.WEST, Region.STATIONARY])
        return {"kind": region, "bank": rng.randrange(4), "word": rng.randrange(8) * per_block}

    ctx = await simulation(dut)
    for _ in range(50):
        first, second = place(), place()
        second = second if other is None else dict(first)
        if other == "kind":
            second["kind"] = (
                Region.STATIONARY if first["kind"] != Region.STATIONARY else Region.SOUTH
            )
        if other == "bank":
            second["bank"] ^= 1 << rng.randrange(2)
        if other == "parity":
            second["word"] ^= per_block
        ctx.set(dut.write, first)
        ctx.set(dut.write_1, second)
        ctx.set(dut.write_en, enabled := rng.randrange(2))
        ctx.set(dut.write_en_1, rng.randrange(2))
        alike = first["kind"] == second["kind"] and first["bank"] == second["bank"]
        alike &= (first["word"] - second["word"]) // per_block % 2 == 0
        assert ctx.get(dut.write_ready_1) == (not (enabled and alike)), (first, second)
        await ctx.tick()  # in which the banks would notice
