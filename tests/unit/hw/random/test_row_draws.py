# amaranth: UnusedElaboratable=no
"""Draws by rows: words in the order of tiles, blocks and rows, under stalls, for both copies."""

import pytest

from diastole_hw.random.row_draws import RowDraws, StartStates
from diastole_sim.spec.sizes.draws import row_hash_cycles
from oracle.lfsr import row_draw, start
from oracle.threefry import threefry2x32
from support.bench import design
from support.unit_bench import Unit, until


def make(lanes, kind, copies, rows):
    n, bits, pairs = KINDS[kind]
    return design(
        RowDraws,
        lanes=lanes,
        random_bits=bits,
        state_bits=n,
        pairs=pairs,
        copies=copies,
        rows=rows,
    )


KINDS = {"lfsr3": (3, 3, True), "lfsr-8": (8, 5, False), "lfsr-24": (24, 24, False)}


def drawn(kind, lanes, copies, row, column, keys):
    """Of each copy the draws of a word."""
    n, bits, pairs = KINDS[kind]
    seed, tag, step = keys
    where = {"kind": "lfsr3" if pairs else "lfsr", "n": n, "bits": bits}
    where |= {"seed": seed, "tag": tag, "step": step, "row": row}
    return [
        sum(
            row_draw(column=column + lane, second=copy == 1, **where) << lane * bits
            for lane in range(lanes)
        )
        for copy in range(copies)
    ]


def tiles(height, columns, lanes, tall, wide, block):
    """Words of a tensor as they are stored: by tiles, by rows of blocks, by blocks, by rows."""
    for top in range(0, height, tall):
        for left in range(0, columns, wide):
            for line in range(top, min(top + tall, height), block):
                for side in range(left, min(left + wide, columns), max(block, lanes)):
                    for row in range(line, min(line + block, height)):
                        for column in range(side, side + max(block, lanes), lanes):
                            if column < columns:
                                yield row, column


def words(order, rows, lanes):
    for row, column in order:
        word = {"row": row % rows, "odd": column // lanes % 2, "begins": column == 0}
        yield (row, column), word


async def begin(ctx, unit, height, keys):
    seed, tag, step = keys
    await unit.pulse(ctx, "start", height=height, seed=seed, tag=tag, step=step)


@pytest.mark.parametrize(
    "kind, lanes, copies", [("lfsr3", 1, 2), ("lfsr3", 2, 1), ("lfsr3", 4, 2), ("lfsr3", 16, 1),
                            ("lfsr-8", 1, 1), ("lfsr-24", 2, 2), ("lfsr-8", 8, 2)],
)  # fmt: skip
@pytest.mark.parametrize("p_ready", [1.0, 0.3], ids=["free", "stalled"])
@pytest.mark.sampled(3)
async def test_matches_model(kind, lanes, copies, p_ready, rng):
    """Two tensors of odd shapes, one after the other."""
    block = rng.choice([1, 2, 4])
    rows = block * rng.choice([1, 2])
    dut = make(lanes, kind, copies, rows)
    jobs = []
    for _ in range(2):
        keys = [rng.getrandbits(32) for _ in range(3)]
        height, columns = rng.randrange(1, 11), rng.randrange(1, 50)
        shape = (height, columns, lanes, rows, max(lanes, 8 * block), block)
        order = list(words(tiles(*shape), rows, lanes))
        jobs.append((height, keys, order))
    unit = Unit(dut, rng, pace=p_ready)
    given, taken = unit.give(dut.i), unit.take(dut.o)
    ctx = await unit.simulation(silence=20, limit=200_000)
    for height, keys, order in jobs:
        taken.add(drawn(kind, lanes, copies, *place, keys) for place, _ in order)
        await begin(ctx, unit, height, keys)
        given.add(word for _, word in order)
        await unit.settled(ctx)


@pytest.mark.parametrize("lanes", [1, 4, 16])
async def test_rate(lanes):
    """A word per cycle, 2 cycles after it was taken; a row of 64 columns has its start in time."""
    dut = make(lanes, "lfsr3", 1, 8)
    order = [word for _, word in words(tiles(40, 64, lanes, 8, 64, 8), 8, lanes)]
    unit = Unit(dut)
    taken, given = unit.give(dut.i), unit.take(dut.o, [None] * len(order))
    ctx = await unit.simulation()
    await begin(ctx, unit, 40, (1, 2, 3))
    for _ in range(60):
        await ctx.tick()
    taken.add(order)
    await unit.end()
    taken, given = taken.cycles, given.cycles
    assert given[0] == taken[0] + 2
    late = 2 * 8 * row_hash_cycles(lanes) if lanes == 16 else 0
    assert given[-1] - given[0] <= len(order) - 1 + late


def test_hashes_keep_up_with_rows_of_64_columns():
    assert [row_hash_cycles(lanes) for lanes in (1, 2, 4, 8, 16)] == [5, 5, 5, 5, 4]


async def test_start_states(rng):
    """Of one row, and of more than wait; after stalls, in ascending order, and no more."""
    unit = Unit(design(StartStates, lanes=2, state_bits=9, pairs=True, copies=2), rng)
    taken = unit.take(unit.dut.o, pace=0.3)
    ctx = await unit.simulation()
    for height in (1, 13):
        keys = [rng.getrandbits(32) for _ in range(3)]
        hashes = (threefry2x32(keys[:2], (row, keys[2])) for row in range(height))
        taken.add(
            [{"register": start(word, 9), "exchanged": word >> 31} for word in words]
            for words in hashes
        )
        await begin(ctx, unit, height, keys)
        await unit.settled(ctx, silence=30)


async def test_first_start_state():
    """17 cycles after the tensor has begun."""
    unit = Unit(design(StartStates, lanes=1, state_bits=3, pairs=True, copies=1))
    unit.collect(unit.dut.o, 0)
    ctx = await unit.simulation()
    await begin(ctx, unit, 3, (1, 2, 3))
    assert await until(ctx, unit.dut.o.valid) == 16
