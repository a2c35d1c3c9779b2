# amaranth: UnusedElaboratable=no
"""A row of cells, alone: sums of fractions on top of what comes from below, and what goes on."""

import pytest

from diastole_hw.array.row import ArrayRow
from oracle.array import Passes
from oracle.cell import sums_const
from support.bench import design, simulation
from support.cells import control_const, shape_of

PSUM_BITS = 40


def from_below(rng, shape):
    """Partial sums that come all the time."""
    sums = [rng.randrange(-(2**20), 2**20) for _ in range(shape.block)]
    return {"sums": sums, "inexact": 0} | ({"poison": 0} if shape.poison else {})


def raised(sums, below):
    """What leaves to the north of a cell."""
    both = zip(sums["sums"], below["sums"], strict=True)
    return sums | {"sums": [a + b for a, b in both]}


@pytest.mark.parametrize("kind", ["bfp", "bfp, edge", "E5M2, lanes", "NVFP4, lanes"])
@pytest.mark.parametrize("cols", [1, 3])
@pytest.mark.sampled(2)
async def test_a_row(kind, cols, rng):
    shape = shape_of(kind, rows=1, block=2, fraction=9)
    dut = design(ArrayRow, shape=shape, psum_bits=PSUM_BITS, cols=cols)
    passes = Passes(rng, shape, cols, [2, 2, 7, 2], 0.2)
    latencies = {"east": cols + shape.stages, "north": 1 + shape.stages}
    wanted = passes.wanted(latencies)
    below = [from_below(rng, shape) for _ in range(cols)]
    compared = 0

    def drive(ctx, cycle):
        for c in range(cols):
            ctx.set(dut.load[c], passes.word(cycle - c, c))
            slot = passes.slot(cycle - c)
            if slot and "east" in shape.directions:
                ctx.set(dut.south[c], slot.south[c].const(shape))
            if "north" in shape.directions:
                ctx.set(dut.psum_south[c], below[c])
        if slot := passes.slot(cycle):
            ctx.set(dut.control, control_const(shape, slot.direction, slot.swap))
            if "north" in shape.directions:
                ctx.set(dut.west, slot.west[0].const(shape))

    def check(ctx, port, got, want):
        nonlocal compared
        assert ctx.get(got) == got.shape().const(want), f"{port}: {ctx.get(got)}, not {want}"
        compared += 1

    ctx = await simulation(dut)
    went = {}  # what entered in the cycle before
    for cycle in range(passes.total + 2 * cols + 4):
        drive(ctx, cycle)
        if ("east", 0, cycle) in wanted:
            number, sums = wanted["east", 0, cycle]
            check(ctx, f"slot {number} east", dut.psum_east, sums_const(sums, shape))
        for c in range(cols):
            if ("north", c, cycle) in wanted:
                number, sums = wanted["north", c, cycle]
                want = raised(sums_const(sums, shape), below[c])
                check(ctx, f"slot {number} north {c}", dut.psum_north[c], want)
        words = [ctx.get(word).index for word in (dut.load_north[c] for c in range(cols))]
        assert words == went.get("load", words), f"load_north in {cycle}"
        went["load"] = [ctx.get(dut.load[c]).index for c in range(cols)]
        for c in range(cols if "east" in shape.directions else 0):
            slot = passes.slot(cycle - 1 - c)
            if slot and slot.kind == "east":
                assert ctx.get(dut.north[c]) == slot.south[c].const(shape), f"north {c}"
        await ctx.tick()
    assert compared == len(wanted) > 0
