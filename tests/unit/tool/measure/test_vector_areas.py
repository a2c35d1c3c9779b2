# amaranth: UnusedElaboratable=no
"""What is measured of the vector unit's lanes, and what is asked of them."""

from amaranth.hdl import Fragment

from diastole.measure.area import Mapper
from diastole.measure.vector_areas import figures
from diastole_hw.vector.float_add import FloatAdd
from diastole_hw.vector.lane import Lane
from diastole_hw.vector.special import SpecialLane


class Sizes:
    """A mapper to which whole lanes have the areas that a test says, and their parts 1."""

    def __init__(self, lane, special):
        self.areas = {Lane: lane, SpecialLane: special}

    def area_nand2(self, component):
        Fragment.get(component, None)
        return self.areas.get(type(component), 1.0)


def test_figures():
    found = list(figures(Sizes(10_999.0, 24_001.0)))
    assert [each.met for each in found] == [True, None, None, False, None, None, None]
    assert found[0].what == "NAND2 equivalents of a lane of the vector unit"
    assert (found[3].asked, found[3].measured) == ("at most 24,000", "24,001")


def test_an_adder():
    assert 2_400 < Mapper.find().area_nand2(FloatAdd()) < 3_000
