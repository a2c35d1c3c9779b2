"""Small machines for tests, by what matters to them."""

from diastole.plan import Plan
from diastole_sim.numerics import Numerics
from support.numerics import make_numerics


def make_plan(numerics: Numerics, rows=1, cols=1, in_place=True, data_width=64) -> Plan:
    return Plan(rows=rows, cols=cols, in_place=in_place, numerics=numerics, data_width=data_width)


__all__ = ["make_numerics", "make_plan"]
