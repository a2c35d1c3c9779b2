"""What commands of a machine may ask for, as far as it follows from its plan."""

from diastole_hw.convert.geometry import fed_columns
from diastole_hw.plan.plan import Plan
from diastole_sim.spec.image import MAX_SIZE
from diastole_sim.spec.limits import VectorLimits


def max_convert_cols(plan: Plan) -> int:
    """Of a tensor that is converted whole."""
    return min(MAX_SIZE, plan.converter_blocks * plan.block)


def vector_limits(plan: Plan) -> VectorLimits | None:
    """What commands of a machine's vector unit may be; None where there is none."""
    vector = plan.vector
    if vector is None:
        return None
    fed = fed_columns(plan.numerics, plan.data_width, max_convert_cols(plan))
    return VectorLimits(panel_vectors=vector.panel_vectors, fed=fed)
