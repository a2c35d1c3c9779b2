# amaranth: UnusedElaboratable=no
"""Draws of consecutive elements: of any alignment, in any order of rows, under any stalls."""

import pytest

from diastole_hw.random.draws import Draws
from diastole_sim.golden.random import tensor_draws
from oracle.threefry import draw
from support.bench import design
from support.unit_bench import Unit

LANES = (1, 2, 4, 8, 16)


def model(first, lanes, bits, seed, tag, step, second=False):
    """Draws of the elements from ``first`` on, in one word."""
    indices = ((first + n) % 2**34 for n in range(lanes))
    where = {"seed": seed, "tag": tag, "step": step, "bits": bits, "second": second}
    draws = (draw(index=n, **where) for n in indices)
    return sum(value << n * bits for n, value in enumerate(draws))


def of_copies(copies, *where):
    """Those of every copy."""
    return [model(*where, second=copy == 1) for copy in range(copies)]


def rows_side_by_side(lanes, rows, rng):
    """Words of rows that begin anywhere, and go on in turns that nobody knows, after others; what
    goes on may also be drawn anew."""
    starts = [*range(lanes + 2), 2**34 - 3 * lanes - 1, rng.getrandbits(34), 6, 5, 5, 9, 1]
    after = {}  # by row, the index after its last word
    for start in starts:
        row = rng.randrange(rows)
        yield {"index": start, "row": row, "goes_on": 0}
        after[row] = start + lanes
        for _ in range(rng.randrange(5)):
            row = rng.choice(list(after))
            index, after[row] = after[row] % 2**34, after[row] + lanes
            yield {"index": index, "row": row, "goes_on": rng.random() < 0.9}


def check(dut, places, keys, rng, p_put, p_get):
    """The draws of every word in its place."""
    unit = Unit(dut, rng)
    unit.hold(**dict(zip(("seed", "tag", "step"), keys, strict=True)))
    given = unit.give(dut.i, places, p_put)
    where = dut.copies, dut.lanes, dut.random_bits
    wanted = [of_copies(where[0], place["index"], *where[1:], *keys) for place in places]
    unit.take(dut.o, wanted, p_get, of=given)
    unit.run(silence=20)


@pytest.mark.parametrize("lanes, bits", [(1, 16), (2, 8), (2, 9), (4, 1), (8, 5), (16, 3)])
@pytest.mark.parametrize("copies, rows, p_ready", [(1, 4, 1.0), (2, 1, 0.3), (2, 8, 1.0)])
@pytest.mark.sampled(4)
def test_matches_model(lanes, bits, copies, rows, p_ready, rng):
    dut = design(Draws, lanes=lanes, random_bits=bits, copies=copies, rows=rows)
    keys = [rng.getrandbits(32) for _ in range(3)]
    check(dut, [*rows_side_by_side(lanes, rows, rng)], keys, rng, p_ready, p_ready)


@pytest.mark.parametrize("lanes, bits", [(1, 16), (2, 9), (4, 1), (8, 5), (16, 3)])
@pytest.mark.parametrize("copies, rows, p_put", [(1, 4, 1.0), (2, 1, 0.3), (2, 8, 0.8)])
@pytest.mark.sampled(3)
def test_few_groups_wait_where_words_are_taken_at_once(lanes, bits, copies, rows, p_put, rng):
    """Whatever is asked for: the unit itself says if it has no room for a group."""
    keys = {"lanes": lanes, "random_bits": bits, "copies": copies, "rows": rows}
    places = [each for _ in range(4) for each in rows_side_by_side(lanes, rows, rng)]
    check(design(Draws, **keys, reader_never_stalls=True), places, (1, 2, 3), rng, p_put, 1)


def test_model_agrees_with_golden():
    want = tensor_draws((3, 5), seed=1, tag=2, step=3, bits=8).reshape(-1)
    assert [model(n, 1, 8, 1, 2, 3) for n in range(15)] == want.tolist()


async def test_new_keys():
    """What does not go on has the draws of the keys at that time."""
    unit = Unit(design(Draws, lanes=2, random_bits=8, copies=1, rows=1))
    given, taken = unit.give(unit.dut.i), unit.take(unit.dut.o)
    ctx = await unit.simulation()
    for tag in range(3):
        unit.set(ctx, seed=1, tag=tag, step=0)
        await ctx.tick()
        for index in (1, 3):
            given.add([{"index": index, "row": 0, "goes_on": index > 1}])
            taken.add([[model(index, 2, 8, 1, tag, 0)]])
            await unit.settled(ctx)


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("rows", [1, 8])
@pytest.mark.sampled(4)
def test_rate(lanes, copies, rows):
    """A word per cycle in the long run, however aligned, row by row or side by side; the first
    after 15 to 18 cycles, and what rows begin with."""
    dut = design(Draws, lanes=lanes, random_bits=8, copies=copies, rows=rows)
    words, unit = 80, Unit(dut)
    places = [
        {"index": row * 1001 + 3 + n * lanes, "row": row, "goes_on": n > 0}
        for n in range(words // rows)
        for row in range(rows)
    ]
    unit.give(dut.i, places)
    given = unit.take(dut.o, [None] * words).cycles
    unit.run()
    assert dut.latency == (16 if lanes == 1 else 15)
    assert dut.latency <= given[0] <= dut.latency + 2
    begins = rows * 2 * max(1, 4 // lanes)
    assert given[-1] - given[0] <= words - 1 + 3 + (begins if rows > 1 else 0)
