"""The table of formats: rows, columns, what goes together."""

import json

import pytest

from diastole.layers import cell_areas
from diastole.layers.cell_areas import areas
from diastole.report.format_table import (
    COMBINATIONS,
    align,
    combinations,
    legend,
    power,
    record,
    table,
)
from diastole_sim.spec.formats import FORMAT_NAMES


@pytest.fixture
def measured(tmp_path, monkeypatch):
    path = tmp_path / "areas.json"
    cells = {"bfp4": {"label": "8x8", "area_per_mac_nand2": 386.5}}
    path.write_text(json.dumps({"formats": cells, "command": "pytest bench -k format_cells"}))
    monkeypatch.setattr(cell_areas, "AREAS", path)


@pytest.fixture
def unmeasured(tmp_path, monkeypatch):
    monkeypatch.setattr(cell_areas, "AREAS", tmp_path / "none.json")


def test_areas(measured):
    assert areas()["formats"]["bfp4"]["area_per_mac_nand2"] == 386.5
    assert legend(8)[-2] == "NAND2/MAC: area of a cell, by pytest bench -k format_cells"
    found = record("bfp4", 8)
    assert (found["cell"], found["area_per_mac_nand2"]) == ("8x8", 386.5)
    assert (record("bfp3", 8)["cell"], record("bfp3", 8)["area_per_mac_nand2"]) == (None, None)


def test_no_areas(unmeasured):
    assert areas() == {"formats": {}, "command": None}
    assert legend(8)[-2] == "NAND2/MAC: area of a cell; not measured here"
    assert table([record("bfp4", 8)])[1].split()[-1] == "-"


def test_a_record(measured):
    """MXFP4 by the OCP's text: E2M1, 32 to a scale of 8 bits, 6 the largest, 0.5 the smallest."""
    assert record("mxfp4_e2m1", 4) == {
        "name": "mxfp4_e2m1",
        "groups": dict.fromkeys(("x", "w", "dy"), "1x32"),
        "element_bits": 4,
        "bits": 4 + 8 / 32,
        "bits_both": 2 * (4 + 8 / 32),
        "largest": 6.0,
        "smallest": 0.5,
        "ulp": 0.5,
        "depth": 2,
        "window": 8,
        "exact_window": 8,
        "cell": None,
        "area_per_mac_nand2": None,
    }


def test_a_table(measured):
    lines = table([record("bfp4", 8), record("nvfp4", 8)])
    assert len({line.index("NAND2/MAC") for line in lines[:1]}) == 1
    assert lines[1].split() == "bfp4 8x8 5.125 5.125 1.875 2^-3 2^-3 0 8 exact 386".split()
    assert lines[2].split()[:5] == ["nvfp4", "1x16", "(W", "16x16)", "4.5"]
    assert len(table(record(name, 8) for name in FORMAT_NAMES)) == 1 + len(FORMAT_NAMES)


def test_combinations():
    lines = combinations()
    assert lines[0].split() == ["X", "W", "dY"]
    assert len(lines) == 1 + len(COMBINATIONS)


@pytest.mark.parametrize("block", [1, 8, 32])
def test_the_legend_names_the_block(block):
    assert f"with array.block = {block}" in legend(block)[0]


def test_align():
    rows = [["a", "bb", "1"], ["aaa", "b", "100"], ["", "", ""]]
    assert align(rows) == ["a    bb    1", "aaa  b   100", ""]
    assert align(rows, left=0) == ["  a  bb    1", "aaa   b  100", ""]
    with pytest.raises(ValueError, match="zip"):
        align([["a"], ["a", "b"]])


@pytest.mark.parametrize(
    "value, text", [(1, "1"), (2.0, "2"), (0.5, "2^-1"), (4.0, "2^2"), (2.0**-133, "2^-133")]
)
def test_power(value, text):
    assert power(float(value)) == text
