# amaranth: UnusedElaboratable=no
"""The cells of the formats' bench: which they are, what is kept, what is too large."""

import json

import pytest
from amaranth.hdl import Fragment

from diastole.errors import BadInput
from diastole.layers.cell_areas import AREAS
from diastole.measure import area_formats
from diastole.measure.area_formats import (
    CELLS,
    FormatCell,
    choose_cells,
    keep,
    line,
    measure,
    too_large,
)
from diastole.measure.float_mac import FloatCell
from diastole_hw.cell.cell import Cell
from diastole_sim.spec.formats import FORMAT_NAMES


class Sizes:
    def __init__(self, found):
        self.found, self.components = found, []

    def area_nand2(self, component):
        Fragment.get(component, None)  # Amaranth warns of what nobody elaborates
        self.components.append(component)
        return self.found


def named(name):
    (cell,) = choose_cells([name])
    return cell


def component(name):
    made = named(name).component()
    Fragment.get(made, None)
    return made


def test_names_are_of_one_cell_each():
    names = [cell.name for cell in CELLS]
    assert len(set(names)) == len(names)


def test_every_published_format_has_a_cell_of_its_name():
    """One that is added may do without: its area is not known then, and said to be so."""
    published = (
        "bfp1 bfp2 bfp3 bfp4 bfp5 bfp6 bfp7 bfp8 fp8_e4m3 fp8_e5m2 bf16 mxint8 mxfp8_e4m3 "
        "mxfp8_e5m2 mxfp6_e3m2 mxfp6_e2m3 mxfp4_e2m1 nvfp4"
    ).split()
    assert set(published) <= {cell.name for cell in CELLS} & set(FORMAT_NAMES)


@pytest.mark.parametrize("name", [cell.name for cell in CELLS])
@pytest.mark.sampled(4)
def test_every_cell_can_be_made(name):
    made = component(name)
    assert isinstance(made, FloatCell if name == "bf16 multiply-add" else Cell)


def test_a_cell_is_what_its_row_says():
    cell = component("fp8_e4m3, exact")
    assert (cell.shape.rows, cell.shape.block, cell.shape.fraction) == (2, 8, 0)
    assert component("bfp4").shape.directions == ("east", "north")
    assert component("bfp4, edge").shape.directions == ("east",)
    plain, both = component("mxint8"), component("mxint8, in place")
    assert len(plain.shape.directions) == 1
    assert both.shape.directions == ("east", "north")
    assert isinstance(component("bf16 multiply-add"), FloatCell)


def test_choose():
    assert choose_cells([]) == list(CELLS)
    assert [cell.name for cell in choose_cells(["nvfp4", "bfp1"])] == ["nvfp4", "bfp1"]
    with pytest.raises(BadInput) as caught:
        choose_cells(["bfp9"])
    assert caught.value.problems[0].startswith("no row 'bfp9'; known: 'bfp1', 'bfp2', ")


def test_measure_is_per_mac():
    assert measure(named("bfp4"), Sizes(64 * 386.04)) == {
        "name": "bfp4",
        "label": "8x8",
        "asked": 420,
        "area_per_mac_nand2": 386.0,
    }
    assert measure(named("bf16 multiply-add"), Sizes(2976))["area_per_mac_nand2"] == 2976


@pytest.mark.parametrize(
    "asked, area, large", [(420, 420, False), (420, 420.1, True), (None, 9999, False), (0, 1, True)]
)
def test_too_large(asked, area, large):
    assert too_large({"asked": asked, "area_per_mac_nand2": area}) is large


def test_line():
    row = {"name": "bfp4", "label": "8x8", "asked": 420, "area_per_mac_nand2": 386.04}
    assert line(row).split() == ["bfp4", "(8x8)", "386.0", "at", "most", "420"]
    assert line(row | {"asked": None}).split() == ["bfp4", "(8x8)", "386.0"]


def test_what_was_not_measured_stays(tmp_path):
    path = tmp_path / "areas.json"
    row = {"name": "bfp4", "label": "8x8", "asked": 420, "area_per_mac_nand2": 386.0}
    keep([row | {"name": "nvfp4"}], path)
    keep([row], path)
    areas = json.loads(path.read_text())
    assert areas["command"] == area_formats.COMMAND
    assert list(areas["formats"]) == ["bfp4", "nvfp4"]  # in the order of the cells
    assert areas["formats"]["bfp4"] == {"label": "8x8", "area_per_mac_nand2": 386.0}
    keep([row | {"area_per_mac_nand2": 400.0}], path)
    areas = json.loads(path.read_text())["formats"]
    assert [each["area_per_mac_nand2"] for each in areas.values()] == [400.0, 386.0]


def test_a_row_that_is_gone_goes(tmp_path):
    path = tmp_path / "areas.json"
    old = {"gone": {"label": "", "area_per_mac_nand2": 1}}
    path.write_text(json.dumps({"formats": old, "command": "make bench-formats"}))
    keep([], path)
    assert json.loads(path.read_text())["formats"] == {}


def test_what_the_package_has_meets_what_is_asked():
    areas = json.loads(AREAS.read_text())["formats"]
    for cell in CELLS:
        area = areas[cell.name]["area_per_mac_nand2"]
        assert areas[cell.name]["label"] == cell.label
        assert cell.asked is None or area <= cell.asked, cell.name


def test_format_cells_are_checked():
    with pytest.raises(ValueError, match="bfp9"):
        FormatCell(name="a", label="b", format="bfp9").component()
