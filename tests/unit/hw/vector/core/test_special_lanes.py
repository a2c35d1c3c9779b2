# amaranth: UnusedElaboratable=no
"""Blocks through the special lanes, however many there are."""

import pytest

from diastole_hw.vector.core.special_lanes import SpecialLanes
from diastole_hw.vector.core.timing import groups, special_from
from diastole_hw.vector.float.special import SpecialLane
from oracle import vector_words as w
from oracle.vector_program import ARITHMETIC
from support.bench import design, run, simulation
from support.random_programs import random_pattern
from support.vector_core import number_of, shape_of

SIZES = [(1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4), (8, 2), (8, 8), (16, 4)]


@pytest.mark.parametrize("block, specials", SIZES)
@pytest.mark.parametrize("gap", ["none", "random"])
@pytest.mark.sampled(6)
async def test_rows_of_results(block, specials, gap, rng):
    """Each row in its cycle, and nothing in others; a block may begin when the lanes are free."""
    shape = shape_of(block, specials)
    dut = design(SpecialLanes, shape)
    steps = groups(shape)
    inputs, expected, begin = {}, {}, 3
    count = 6 if block < 8 else 3
    for _ in range(count):
        op = rng.choice(w.SPECIALS)
        for r in range(block):
            row = [random_pattern(rng, wild=True) for _ in range(block)]
            inputs[begin + r] = (r == 0, op, row)
            first = begin + special_from(shape) - 2
            due = first + (r + 1) * steps - 1 + SpecialLane.latency
            expected[due] = (r, number_of([ARITHMETIC[op](x) for x in row]))
        begin += block * steps + (0 if gap == "none" else rng.randrange(20))
    ctx = await simulation(dut)
    for cycle in range(begin + 40):
        nothing = (0, rng.choice(w.SPECIALS), [rng.getrandbits(32) for _ in range(block)])
        begins, op, row = inputs.get(cycle, nothing)
        ctx.set(dut.begins, begins)
        ctx.set(dut.op, op if begins else nothing[1])
        ctx.set(dut.row.as_value(), number_of(row))
        _, _, writes, at, got = await ctx.tick().sample(
            dut.write_en, dut.write_at, dut.write.as_value()
        )
        assert writes == (cycle in expected), f"cycle {cycle}"
        if writes:
            r, want = expected[cycle]
            assert (at, got) == (r, want), f"cycle {cycle}, row {r}: {got:#x}, not {want:#x}"


def test_a_block_waits_for_the_one_before():
    dut = SpecialLanes(shape_of(4, 1))

    async def bench(ctx):
        for begins in (1, *[0] * 14, 1, *[0] * 4):  # the lanes are busy for 16 cycles
            ctx.set(dut.begins, begins)
            await ctx.tick()

    with pytest.raises(AssertionError, match="a block begins within another"):
        run(dut, bench)
