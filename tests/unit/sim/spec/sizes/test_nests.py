"""What nests products take: what is loaded at a time, and where tiles may begin."""

import pytest

from diastole_hw.plan.modes import PRODUCTS
from diastole_sim.spec.image import DATA_WIDTHS
from diastole_sim.spec.nest import Nest
from support.plans import make_numerics, make_plan


@pytest.mark.parametrize("data_width", DATA_WIDTHS)
def test_every_array(data_width, rng):
    """What every nest of a product loads fits twice, so that a chunk comes while one is at work;
    tiles and chunks are whole slices, and begin on beats."""
    for _ in range(60):
        names = tuple(rng.choice(("bfp3", "bfp4", "bfp5", "bfp8", "bf16")) for _ in range(3))
        numerics = make_numerics(block=2 ** rng.randrange(6), formats=names)
        rows, cols = rng.randrange(1, 9), rng.randrange(1, 9)
        check(make_plan(numerics, rows, cols, rng.random() < 0.7, data_width))


def check(plan):
    assert plan.stream_blocks * plan.block == plan.stream_words
    assert plan.stationary_blocks * plan.block == plan.stationary_words
    for mode in PRODUCTS:
        use, limits = plan.use(mode), plan.nests.of(mode.name.lower())
        sides = (plan.rows, plan.cols) if use.north else (plan.cols, plan.rows)
        assert (limits.chunk_side, limits.lane_side) == sides
        assert (limits.stream_blocks, limits.stationary_blocks) == (
            plan.stream_blocks,
            plan.stationary_blocks,
        )
        assert limits.pass_blocks == plan.rows, "R B words of a bank in a pass"
        stream, held = limits.slabs(Nest())  # the longest
        assert 2 * stream <= plan.stream_blocks
        assert 2 * held <= plan.stationary_blocks
        assert all(chunk % limits.chunk_side == 0 for chunk in limits.chunk), "whole slices"
        steps = {
            use.t: limits.t_blocks,
            use.lanes: [groups * limits.lane_side for groups in limits.groups],
            use.contraction: limits.chunk,
        }
        for cls in (use.stream, use.stationary):
            along = columns(plan, use, cls)
            whole = (step % plan.group_layouts[cls].granule == 0 for step in steps[along])
            assert all(whole), f"a tile along {along} begins inside a beat of {cls}"
        floats = (groups * limits.lane_side * plan.block * 4 for groups in limits.groups)
        assert all(row % plan.beat_bytes == 0 for row in floats), "a row begins inside a beat"
        own = (plan.tile_blocks, plan.groups, plan.chunk(north=use.north))
        assert (limits.t_blocks[-1], limits.groups[-1], limits.chunk[-1]) == own


def columns(plan, use, cls):
    """The axis along the columns of the image that a use reads."""
    if plan.grouped(cls):
        return use.contraction
    return {0: "k", 1: "n", 2: "n"}[cls]
