"""What a plan lets commands ask for."""

import pytest

from diastole_hw.plan_limits import max_convert_cols, patch_limits, vector_limits
from diastole_sim.spec.image import MAX_CONVERT_BLOCKS
from support.plans import make_numerics, make_plan, with_vector


def test_a_machine_without_a_unit_has_no_limits_of_one():
    assert vector_limits(make_plan(make_numerics(block=4))) is None


@pytest.mark.parametrize("block", [4, 8])
def test_columns_that_a_chain_may_give_the_converter(block):
    """Of squares all that it takes; of two copies a tile, 8 blocks or a longer vector."""
    plan = with_vector(make_plan(make_numerics(block=block, groupings=(None, "1x16", "1x128"))))
    most = max_convert_cols(plan)
    assert most == MAX_CONVERT_BLOCKS * block
    limits = vector_limits(plan)
    assert limits.fed == (most, 8 * block, 128)
    assert limits.panel_vectors == plan.vector.panel_vectors


def test_patches():
    """Whole tiles of the converter, and the rows of any product's tile; none where a row of draws
    would be interrupted."""
    groupings = (None, "1x16", "16x16")
    plan = with_vector(make_plan(make_numerics(block=4, groupings=groupings)))
    patches = patch_limits(plan)
    assert patches.tiles == ((1, 8), (8, 8), (4, 8))
    nests = plan.nests
    assert patches.kept_rows == max(
        length for each in (nests.forward, nests.dx, nests.dw) for length in each.t_blocks
    )
    assert vector_limits(plan).patches == patches
    numerics = make_numerics(block=4, rounding_kind="lfsr3", random_bits=3)
    assert vector_limits(with_vector(make_plan(numerics))).patches is None
