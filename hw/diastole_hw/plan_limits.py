"""Derive the limits of commands from the plan of a machine."""

from diastole_hw.plan.plan import Plan
from diastole_sim.spec.image import MAX_CONVERT_BLOCKS, MAX_SIZE
from diastole_sim.spec.limits import VectorLimits
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.patches import PatchLimits

RESET_CYCLES = 8
"""Rising edges with ``aresetn`` low that reset a machine, and rising edges after the reset until
the machine answers. Without registers in the reset path, 1 edge would do."""


def max_convert_cols(plan: Plan) -> int:
    """Return the largest number of columns of a tensor that is converted whole."""
    return min(MAX_SIZE, MAX_CONVERT_BLOCKS * plan.block)


def vector_limits(plan: Plan) -> VectorLimits | None:
    """Return the limits of commands for the vector unit; None without a vector unit."""
    vector = plan.vector
    if vector is None:
        return None
    chain_columns = plan.converter.chain_columns(max_convert_cols(plan))
    patches = patch_limits(plan)
    return VectorLimits(
        panel_vectors=vector.panel_vectors,
        fed=chain_columns,
        patches=patches,
        draws=vector.draws,
    )


def patch_limits(plan: Plan) -> PatchLimits | None:
    """Return the patches in which products may pass a tensor to the converter: patches of the rows
    of any tile. Return None where random bits follow rows, which patches interrupt."""
    if plan.numerics.draws_by_rows:
        return None
    x, w, dy = (plan.converter.cut_blocks(cls) for cls in range(len(CLASS_NAMES)))
    nests = plan.nests
    longest = max(each.t_blocks[-1] for each in (nests.forward, nests.dx, nests.dw))
    return PatchLimits(tiles=(x, w, dy), kept_rows=longest)
