"""Small machines for tests, by what matters to them."""

from diastole.plan import Plan
from diastole_sim.formats import parse_format
from diastole_sim.numerics import Numerics


def make_numerics(block=4, formats=("bfp4", "bfp4", "bfp4"), fraction=18, headroom=14) -> Numerics:
    classes = {
        name: {"format": text, "rounding": "stochastic-b" if name == "dy" else "nearest"}
        for name, text in zip(("x", "w", "dy"), formats, strict=True)
    }
    sizes = {"block": block, "random_bits": 8, "fraction": fraction, "headroom": headroom}
    return Numerics.from_dict(sizes | classes)


def make_plan(numerics: Numerics, rows=1, cols=1, in_place=True, data_width=64) -> Plan:
    return Plan(
        rows=rows,
        cols=cols,
        block=numerics.block,
        in_place=in_place,
        x=numerics.x.format,
        w=numerics.w.format,
        dy=numerics.dy.format,
        fraction=numerics.fraction,
        headroom=numerics.headroom,
        data_width=data_width,
    )


__all__ = ["make_numerics", "make_plan", "parse_format"]
