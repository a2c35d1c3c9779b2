"""What a plan lets commands ask for."""

import pytest

from diastole_hw.limits import max_convert_cols, vector_limits
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
