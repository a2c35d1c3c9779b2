# amaranth: UnusedElaboratable=no
"""What is measured of the rule four-over-six."""

from amaranth.hdl import Fragment

from diastole.measure.two_scales import DISTRIBUTIONS, figures, pico_of, rule_areas
from diastole_hw.convert.trial import ScaleTrial


class Sizes:
    """A mapper that finds what a test says, and remembers what of."""

    def __init__(self, components, machines):
        self.found, self.machines = list(components), list(machines)
        self.components, self.asked = [], []

    def area_nand2(self, component):
        Fragment.get(component, None)
        self.components.append(component)
        return self.found.pop(0)

    def parts(self, config, *parts):
        self.asked.append((config.scale.x, config.scale.dy, *parts))
        return self.machines.pop(0)


def test_areas():
    mapper = Sizes([2000, 3000], [[5000, 1000], [6000, 2000]])
    found = {each.what: each.measured for each in rule_areas(mapper)}
    assert found["NAND2 equivalents of its trial"] == "3,000"
    assert found["NAND2 equivalents of pico in nvfp4, nearest, all"] == "5,000"
    assert found["NAND2 equivalents of pico in nvfp4, four-over-six, converter"] == "2,000"
    assert isinstance(mapper.components[1], ScaleTrial)
    rules = ("nearest", "four-over-six")
    assert mapper.asked == [(rule, rule, "converter") for rule in rules]


def test_figures(monkeypatch):
    """Of smaller tensors nearly the same."""
    monkeypatch.setattr("diastole.measure.two_scales.SHAPE", (256, 256))
    monkeypatch.setattr("diastole.measure.two_scales.SIDE", 64)
    found = list(figures())
    asked = [each for each in found if each.asked]
    assert len(asked) == len(DISTRIBUTIONS)
    assert all("1x16, four-over-six" in each.what for each in asked)
    for each in asked:
        wanted = float(each.asked.split(",")[0])
        assert abs(float(each.measured) - wanted) < 0.004
    longer = [float(each.measured) for each in found if each.what.startswith("cycles")]
    assert len(longer) == 3
    assert all(1.1 < each < 2 for each in longer)


def test_pico():
    numerics = pico_of("four-over-six").numerics
    assert {numerics.tensor_class(name).scale for name in ("x", "w", "dy")} == {"four-over-six"}
    assert numerics.w.grouping.kind == "square"
