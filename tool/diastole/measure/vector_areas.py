"""Area of the lanes of the vector unit, with their registers, and of their parts."""

# pyright: reportMissingTypeStubs=false
# Amaranth has no annotations.
from collections.abc import Iterator

from amaranth.lib import wiring

from diastole.measure.area import Mapper
from diastole.measure.figure import Figure, at_most, shown
from diastole_hw.vector.float_add import FloatAdd
from diastole_hw.vector.float_mul import FloatMul
from diastole_hw.vector.function_rows import FunctionRows
from diastole_hw.vector.lane import Lane
from diastole_hw.vector.parabola import Parabola
from diastole_hw.vector.special import SpecialLane
from diastole_hw.vector.special_argument import SpecialArgument

UNITS: dict[str, tuple[type[wiring.Component], float | None]] = {
    "a lane": (Lane, 11_000),
    "its multiplier": (FloatMul, None),
    "its adder": (FloatAdd, None),
    "a special lane": (SpecialLane, 24_000),
    "its argument": (SpecialArgument, None),
    "its tables": (FunctionRows, None),
    "its parabola": (Parabola, None),
}
"""By name, what has no parameters, and the most that is asked of it."""


def figures(mapper: Mapper) -> Iterator[Figure]:
    """NAND2 equivalents of each."""
    for name, (kind, most) in UNITS.items():
        area = mapper.area_nand2(kind())
        what = f"NAND2 equivalents of {name} of the vector unit"
        yield (
            shown(what, area, "{:,.0f}") if most is None else at_most(what, area, most, "{:,.0f}")
        )
