# amaranth: UnusedElaboratable=no
"""What is measured of planes: which parts of which machines, and what is asked of them."""

from amaranth.hdl import Fragment

from diastole.measure.planes import figures, nano_of
from diastole_hw.convert.monitor import Monitor
from diastole_hw.convert.quantise import LaneQuantiser


class Sizes:
    """A mapper that finds what a test says, and remembers what of."""

    def __init__(self, areas, machines):
        self.areas, self.machines = list(areas), list(machines)
        self.components, self.asked = [], []

    def area_nand2(self, component):
        Fragment.get(component, None)
        self.components.append(component)
        return self.areas.pop(0)

    def parts(self, config, *parts):
        accumulator, bus = config.accumulator, config.bus
        self.asked.append((config.format.x, accumulator.fraction, bus.data_width, *parts))
        return self.machines.pop(0)


def test_figures():
    cells = [64 * each for each in (225, 228.1, 450)]
    # A lane with the monitor and without, and its sums: of 2 lanes and of 4.
    monitors = [30, 10, 870, 40, 20, 1030]
    machines = [[1000, 400, 200], [1112, 400, 300], [1200, 600, 200], [0, 18_200]]
    mapper = Sizes([*cells, *monitors], machines)
    found = {each.what: (each.measured, each.met) for each in figures(mapper)}
    per_mac = "NAND2 equivalents per MAC of the cell of"
    assert found[f"{per_mac} fast"] == ("225.0", True)
    assert found[f"{per_mac} fast 1x16"] == ("228.1", False)
    assert found["area x 2 passes of fast over the cell of bfp4"] == ("1.00", None)
    assert found["passes at which fast and bfp4 have the same area x passes"] == ("2.00", None)
    assert found["NAND2 equivalents of nano in fast, rest"] == ("412", None)
    assert found["the rest of nano in fast, over that in bfp2"] == ("1.030", True)
    assert found["NAND2 equivalents of the monitor, 2 lanes"] == ("910", True)
    assert found["NAND2 equivalents of the monitor, 4 lanes"] == ("1,110", False)
    share = found["the monitor's share of the converter, `nano` at 64 bits"]
    assert share == ("5.0%", False)
    assert mapper.asked == [
        ("bfp2", 22, 128, "array", "converter"),
        ("fast", 22, 128, "array", "converter"),
        ("bfp4", 18, 128, "array", "converter"),
        ("fast", 22, 64, "converter"),
    ]
    lanes = [each for each in mapper.components if isinstance(each, LaneQuantiser)]
    assert [lane.monitored for lane in lanes] == [True, False] * 2
    assert [each.lanes for each in mapper.components if isinstance(each, Monitor)] == [2, 4]


def test_nano():
    config = nano_of("fast", 22, 64)
    assert config.numerics.planes_of("w") == (1, 2)
    assert (config.array.rows, config.array.cols, config.array.block) == (2, 2, 8)
