# amaranth: UnusedElaboratable=no
"""One cell, all its inputs random in every cycle, against a model that knows only the contract."""

from dataclasses import replace

import pytest

from diastole_hw.cell.cell import Cell
from diastole_hw.cell.cell_shape import PIPELINES
from oracle.cell import Loading, Operands, Slots, added, sums_const
from support.bench import design, run
from support.cells import KINDS, control_const, joined, shape_of

SIZES = [(1, 0), (2, 4), (4, 18)]  # block, F


def drive(ctx, dut, slot, offer):
    """All inputs of one cycle."""
    shape = dut.shape
    ctx.set(dut.control, control_const(shape, slot.direction, offer.swap))
    ctx.set(dut.load, offer.const(shape))
    if "east" in shape.directions:
        ctx.set(dut.south, slot.south.const(shape))
        ctx.set(dut.psum_west, sums_const(slot.before[0], shape))
    if "north" in shape.directions:
        ctx.set(dut.west, slot.west.const(shape))
        ctx.set(dut.psum_south, sums_const(slot.before[1], shape))


def same(ctx, port, const):
    return ctx.get(port) == port.shape().const(const)


def check_hops(ctx, dut, slot, offer):
    """What leaves one cycle after it came: control, the slot's vector, words for other cells."""
    control = ctx.get(dut.control_east)
    assert control.swap == offer.swap
    if dut.shape.has_both_directions:
        assert control == control_const(dut.shape, int(slot.north), offer.swap)
    leaving = dut.east if slot.north else dut.north
    assert same(ctx, leaving, slot.vector.const(dut.shape)), f"vector, north={slot.north}"
    assert ctx.get(dut.load_north.valid) == (offer.valid and offer.row > 0)
    if offer.valid and offer.row:
        assert same(ctx, dut.load_north, offer.passed_on(dut.shape)), "word to the north"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block, fraction", [*SIZES, (8, 17)], ids=str)
@pytest.mark.sampled(7)
def test_every_cycle_against_the_model(block, fraction, kind, rng):
    check(shape_of(kind, rows=4, block=block, fraction=fraction), 80 if block == 8 else 150, rng)


@pytest.mark.parametrize("kind", ["bfp", "bfp, edge", "E5M2, lanes", "NVFP4, lanes"])
@pytest.mark.parametrize("block, fraction", SIZES, ids=str)
@pytest.mark.parametrize("pipeline", [name for name in PIPELINES if name != "none"])
@pytest.mark.sampled(6)
def test_pipelines(block, fraction, kind, pipeline, rng):
    options = {"pipeline": pipeline}
    check(shape_of(kind, rows=4, block=block, fraction=fraction, **options), 150, rng)


@pytest.mark.parametrize("kind", ["bfp", "bfp, edge", "E4M3 and E5M2", "NVFP4, lanes"])
@pytest.mark.parametrize("block, fraction", SIZES, ids=str)
@pytest.mark.parametrize("multiplier", ["dsp", "dsp25"])
@pytest.mark.sampled(6)
def test_products_in_dsp_blocks(block, fraction, kind, multiplier, rng):
    """Of which the last ones have fewer lanes than the others, or not."""
    options = {"multiplier": multiplier}
    check(shape_of(kind, rows=4, block=block, fraction=fraction, **options), 150, rng)


def check(shape, cycles, rng):
    """Everything that leaves a cell of this shape, in every cycle."""
    dut = design(Cell, shape=shape, psum_bits=min(shape.sum_bits + shape.fraction + 2, 63))
    operands = Operands(rng, shape)
    loading, slots = Loading(operands), Slots(operands, 1 << (dut.psum_bits - 2))
    history, leaving, compared = [], [], []
    late = int(shape.halves)

    async def bench(ctx):
        for cycle in range(cycles):
            slot, offer = slots.cycle(), loading.cycle()
            drive(ctx, dut, slot, offer)
            if cycle:
                check_hops(ctx, dut, *history[-1][:2])
            history.append((slot, offer, slot.times(offer.stationary, shape)))
            leaving.append(ctx.get(dut.psum))
            number = cycle - 1 - shape.stages - late
            slot, _, these = history[max(number, 0)]
            if number >= 0 and these is not None:
                early, whole = (
                    history[number + shape.stages + k][0].before[slot.north] for k in (0, late)
                )
                came = joined(early.sums, whole.sums, shape, dut.psum_bits)
                want = added(replace(early, sums=came), these)
                got = [leaving[number + shape.stages + 1 + k] for k in (0, late)]
                sums = joined(*([*each.sums] for each in got), shape, dut.psum_bits)
                assert sums == want.sums, f"{cycle=} {want}"
                flags = sums_const(want, shape) | {"sums": [*got[0].sums]}
                assert got[0] == got[0].shape().const(flags), f"{cycle=} {want}"
                compared.append(these)
            await ctx.tick()

    run(dut, bench)
    assert len(compared) > 15
    assert any(any(each.sums) for each in compared)
