"""Small machines for tests, by what matters to them."""

from dataclasses import replace

from diastole_hw.plan.plan import Plan
from diastole_sim.spec.limits import decided_classes, planes_by_class, slot_words
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.sizes.vector_shape import VectorShape
from support.numerics import make_numerics


def make_plan(
    numerics: Numerics,
    rows=1,
    cols=1,
    in_place=True,
    data_width=64,
    tiling=None,
    ports=1,
    output_register=False,
) -> Plan:
    plan = Plan.of(
        numerics,
        rows=rows,
        cols=cols,
        in_place=in_place,
        data_width=data_width,
        ports=ports,
        output_register=output_register,
    )
    return replace(plan, tiling=tiling) if tiling else plan


def plan_of(**options) -> Plan:
    """The same, by keys of :func:`make_plan` and of :func:`make_numerics`."""
    names = ("rows", "cols", "in_place", "data_width", "ports", "output_register")
    sizes = {name: options.pop(name) for name in names if name in options}
    return make_plan(make_numerics(**options), **sizes)


def with_vector(plan: Plan) -> Plan:
    """The machine with a vector unit beside it."""
    sizes = {"block": plan.block, "data_width": plan.data_width}
    sizes |= {"choices": decided_classes(planes_by_class(plan.numerics))}
    sizes |= {"slot_words": slot_words(plan.numerics)}
    return replace(plan, vector=VectorShape.of(**sizes, specials=None, panel_kib=64))


__all__ = ["make_numerics", "make_plan", "plan_of", "with_vector"]
