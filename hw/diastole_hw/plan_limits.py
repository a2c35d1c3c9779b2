"""What commands of a machine may ask for, as far as it follows from its plan."""

from diastole_hw.plan.plan import Plan
from diastole_sim.spec.image import MAX_CONVERT_BLOCKS, MAX_SIZE
from diastole_sim.spec.limits import VectorLimits
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.patches import PatchLimits

RESET_CYCLES = 8
"""Rising edges with ``aresetn`` low that bring a machine up, and as many after which it answers:
one would do where the reset passes no registers on its way."""


def max_convert_cols(plan: Plan) -> int:
    """Of a tensor that is converted whole."""
    return min(MAX_SIZE, MAX_CONVERT_BLOCKS * plan.block)


def vector_limits(plan: Plan) -> VectorLimits | None:
    """What commands of a machine's vector unit may be; None where there is none."""
    vector = plan.vector
    if vector is None:
        return None
    fed = plan.converter.fed_columns(max_convert_cols(plan))
    patches = patch_limits(plan)
    return VectorLimits(panel_vectors=vector.panel_vectors, fed=fed, patches=patches)


def patch_limits(plan: Plan) -> PatchLimits | None:
    """In which patches products may give the converter a tensor: of the rows of any tile; None
    where draws follow rows, which patches interrupt."""
    if plan.numerics.draws_by_rows:
        return None
    x, w, dy = (plan.converter.cut_blocks(cls) for cls in range(len(CLASS_NAMES)))
    nests = plan.nests
    longest = max(each.t_blocks[-1] for each in (nests.forward, nests.dx, nests.dw))
    return PatchLimits(tiles=(x, w, dy), kept_rows=longest)
