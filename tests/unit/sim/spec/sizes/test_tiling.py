"""Tilings: said, printed, compared, refused."""

from dataclasses import replace

import pytest

from diastole_sim.spec.sizes.tiling import Tiling, default_tiling
from support.plans import make_numerics, make_plan
from support.texts import exactly

NANO = Tiling(
    t_blocks=16,
    groups=4,
    chunk_east=8,
    chunk_north=8,
    fused_t_blocks=2,
    fused_slices_m=32,
    fused_slices_n=32,
)


def nano(tiling=None):
    return make_plan(make_numerics(block=8), rows=2, cols=2, tiling=tiling)


def test_the_policy_says_it_of_nano():
    assert default_tiling(rows=2, cols=2, numerics=make_numerics(block=8), data_width=64) == NANO
    assert nano().tiling == NANO


def test_it_is_one_line():
    assert str(NANO) == (
        "t_blocks 16, groups 4, chunk_east 8, chunk_north 8, fused_t_blocks 2, "
        "fused_slices_m 32, fused_slices_n 32, tiles_in_flight 8"
    )


def test_equal_plans_are_equal_however_their_tiling_came():
    assert nano() == nano(NANO) == nano(replace(NANO))
    assert nano(NANO) != nano(replace(NANO, t_blocks=32))


def test_a_plan_has_the_sizes_of_its_tiling():
    plan = nano(replace(NANO, t_blocks=8, groups=8, chunk_east=16, fused_slices_m=5))
    assert (plan.tile_words, plan.tile_sums) == (64, 512)
    assert (plan.chunk(north=False), plan.chunk(north=True)) == (16, 8)
    assert (plan.fused_blocks_m, plan.fused_blocks_n) == (10, 64)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"t_blocks": 12}, "t_blocks must be a power of two, not 12"),
        ({"groups": 0}, "groups must be an integer in 1..4096, not 0"),
        ({"fused_t_blocks": 3}, "fused_t_blocks must be a power of two, not 3"),
        ({"tiles_in_flight": True}, "tiles_in_flight must be an integer in 1..4096, not True"),
        ({"chunk_east": 1.0}, "chunk_east must be an integer in 1..4096, not 1.0"),
    ],
)
def test_no_tiling_at_all(change, message):
    with pytest.raises(ValueError, match=exactly(message)):
        replace(NANO, **change)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"t_blocks": 4}, "t_blocks must be whole groups of 8 blocks, not 4"),
        (
            {"tiles_in_flight": 2},
            "tiles_in_flight must be at least 4: two are loaded while two are drained, not 2",
        ),
        (
            {"groups": 2, "chunk_east": 4},
            (
                "groups must make lane tiles of 2 cells whole groups of 8 blocks and whole beats "
                "of floats, not 2"
            ),
        ),
        ({"chunk_east": 12}, "chunk_east must be a multiple of 2 and of 8 blocks, not 12"),
        ({"chunk_north": 16}, "chunk_north must be at most 4 slices of 2, not 16"),
        ({"fused_t_blocks": 16, "fused_slices_n": 5}, "fused_slices_n must be at most 4, not 5"),
    ],
)
def test_a_tiling_that_the_machine_cannot_run(change, message):
    with pytest.raises(ValueError, match=exactly(f"tiling: {message}")):
        nano(replace(NANO, **change))


def test_the_next_blocks_must_be_loaded_in_time():
    plan = make_plan(make_numerics(block=8), rows=8, cols=2)
    with pytest.raises(
        ValueError, match=r"^tiling: fused_t_blocks must be at least 4, to load the next"
    ):
        make_plan(
            make_numerics(block=8),
            rows=8,
            cols=2,
            tiling=replace(plan.tiling, fused_t_blocks=2),
        )
