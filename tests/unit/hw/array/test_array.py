# amaranth: UnusedElaboratable=no
"""The bare array against sums of fractions: every use, mixed slot by slot, passes back to back.

Ports that a slot does not use, and slots that are empty, carry noise; words are loaded while the
pass before streams, in any order that has a block's first word first.
"""

import pytest

from diastole_hw.array.array import Array
from diastole_hw.cell.cell_shape import PIPELINES, CellShape
from oracle.array import Passes
from oracle.cell import sums_const
from support.bench import design, run
from support.cells import BFP4, KINDS, control_const, shape_of
from support.sweep import sweep


def drive(ctx, dut, passes, cycle):
    """Set every port to what the skew says of it, in one cycle."""
    for c in range(dut.cols):
        ctx.set(dut.load[c], passes.word(cycle - c, c))
        slot = passes.slot(cycle - c)
        if slot and "east" in dut.shape.directions:
            ctx.set(dut.south[c], slot.south[c].const(dut.shape))
    for r in range(dut.rows):
        slot = passes.slot(cycle - r)
        if slot:
            ctx.set(dut.control[r], control_const(dut.shape, slot.direction, slot.swap))
            if "north" in dut.shape.directions:
                ctx.set(dut.west[r], slot.west[r].const(dut.shape))


def check(shape, cols, rng, lengths, p_empty):
    dut = design(Array, shape=shape, cols=cols)
    passes = Passes(rng, shape, cols, lengths, p_empty)
    wanted = passes.wanted({"east": dut.east_latency, "north": dut.north_latency})
    sides = {name: getattr(dut, name) for name in shape.directions}
    compared = 0

    async def bench(ctx):
        nonlocal compared
        for cycle in range(passes.total + max(dut.rows, dut.cols) * 2 + shape.latency + 2):
            drive(ctx, dut, passes, cycle)
            for kind, ports in sides.items():
                for port, output in enumerate(ports):
                    if (kind, port, cycle) not in wanted:
                        continue
                    number, sums = wanted[kind, port, cycle]
                    want = output.shape().const(sums_const(sums, shape))
                    got = ctx.get(output)
                    assert got == want, f"slot {number}, {kind} port {port}: {got}, not {sums}"
                    compared += 1
            await ctx.tick()

    run(dut, bench)
    assert compared == len(wanted) > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "rows, cols, block, fraction",
    [
        (1, 1, 2, 17),
        (3, 2, 2, 17),
        (1, 3, 1, 6),
        *(sweep(*case) for case in ((1, 1, 1, 6), (3, 2, 1, 6), (1, 3, 2, 17))),
    ],
)
@pytest.mark.sampled(4)
def test_sums_of_mixed_slots(rows, cols, block, fraction, kind, rng):
    least = rows * block
    shape = shape_of(kind, rows=rows, block=block, fraction=fraction)
    check(shape, cols, rng, [least, least, least + 5, least, least], 0.15)


@pytest.mark.parametrize("kind", ["bfp", "bfp, edge", "E5M2, lanes", "NVFP4, lanes"])
@pytest.mark.parametrize("rows, cols", [(2, 2), sweep(4, 1)])
@pytest.mark.parametrize("pipeline", [name for name in PIPELINES if name != "none"])
@pytest.mark.sampled(4)
def test_pipelines(rows, cols, kind, pipeline, rng):
    shape = shape_of(kind, rows=rows, block=4, fraction=9, pipeline=pipeline)
    check(shape, cols, rng, [4 * rows] * 3, 0.15)


@pytest.mark.parametrize("kind", ["bfp", sweep("E4M3"), sweep("NVFP4, lanes")])
def test_full_size(kind, rng):
    check(shape_of(kind, rows=2, block=8, fraction=18), 2, rng, [16, 16], 0.1)


@pytest.mark.parametrize("kind", ["bfp", "E4M3 and E5M2"])
@pytest.mark.parametrize("pipeline", ["none", "full"])
def test_shortest_passes_without_a_bubble(kind, pipeline, rng):
    """R * B slots each: a word of the next pass arrives together with every swap."""
    shape = shape_of(kind, rows=2, block=4, fraction=17, pipeline=pipeline)
    check(shape, 2, rng, [8] * 6, 0.0)


@pytest.mark.parametrize("rows, cols", [(1, 1), (2, 2), (3, 2), (4, 1), (1, 3), (5, 2)])
@pytest.mark.parametrize("pipeline, latency", [("none", 2), ("products", 3), ("full", 6)])
def test_stated_latencies_and_widths(rows, cols, pipeline, latency):
    shape = CellShape(
        rows=rows,
        block=8,
        south=BFP4,
        west=BFP4,
        stationary=BFP4,
        sum_bits=12,
        fraction=18,
        pipeline=pipeline,
    )
    dut = design(Array, shape=shape, cols=cols)
    assert (dut.east_latency, dut.north_latency) == (cols - 1 + latency, rows - 1 + latency)
    assert dut.psum_bits == 30 + (max(rows, cols) - 1).bit_length()
    assert shape.deficit_bits == 5
