"""Measured areas: which of them a machine's cell has."""

import json

import pytest

from diastole.layers import cell_areas
from diastole.layers.cell_areas import cell_area
from diastole.report.format_table import record
from diastole_sim.spec.formats import FORMAT_NAMES
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics

AREAS = {
    "bfp4": 1,
    "bfp4 1x16": 2,
    "bfp4 1x16, in place": 3,
    "e3m2": 4,
    "mxint8": 5,
    "mxint8, in place": 6,
    "nvfp4": 7,
    "nvfp4, squares": 8,
    "nvfp4, vectors": 9,
}


@pytest.mark.parametrize(
    "formats, groups, area",
    [
        ("bfp4 bfp4 bfp4", "8x8 8x8 8x8", 1),
        ("bfp4 bfp4 bfp4", "16x16 8x8 32x32", 1),
        ("bfp4 bfp4 bfp4", "1x32 8x8 8x8", 1),  # the cell does not know of those of X
        ("bfp4 bfp4 bfp4", "1x16 1x16 1x32", 2),
        ("bfp4 bfp4 bfp4", "8x8 8x8 1x16", None),
        ("e3m2 e3m2 e3m2", "tensor tensor 8x8", 4),
        ("mxint8 mxint8 mxint8", "1x32 1x32 1x32", 5),
        ("mxint8 mxint8 mxint8", "1x32 32x32 1x32", None),
        ("nvfp4 nvfp4 nvfp4", "1x16 16x16 1x16", 7),
        ("nvfp4 nvfp4 nvfp4", "16x16 16x16 16x16", 8),
        ("nvfp4 nvfp4 nvfp4", "1x16 1x16 1x16", 9),
        ("bfp4 bfp4 mxint8", "8x8 8x8 1x32", None),
        ("bfp3 bfp3 bfp3", "8x8 8x8 8x8", None),
    ],
)
@pytest.mark.parametrize("block, window", [(8, None), (4, None), (8, 24)])
@pytest.mark.sampled(3)
def test_area_of_a_machines_cell(formats, groups, area, block, window, tmp_path, monkeypatch):
    cells = {name: {"area_per_mac_nand2": area} for name, area in AREAS.items()}
    path = tmp_path / "areas.json"
    path.write_text(json.dumps({"formats": cells, "command": ""}))
    monkeypatch.setattr(cell_areas, "AREAS", path)
    classes = {
        name: {"format": format, "grouping": grouping, "rounding": "stochastic-a"}
        for name, format, grouping in zip(CLASS_NAMES, formats.split(), groups.split(), strict=True)
    }
    sizes = {"block": block, "random_bits": 8, "fraction": 18, "headroom": 8, "window": window}
    expected = area if (block, window) == (8, None) else None
    assert cell_area(Numerics.from_dict(classes | sizes)) == expected


def test_cells_that_were_measured_have_their_area():
    """Every format alone, with its own groups."""
    for name in FORMAT_NAMES:
        chosen = {key: {"format": name, "rounding": "nearest"} for key in CLASS_NAMES}
        sizes = {"block": 8, "random_bits": 8, "fraction": 18, "headroom": 8}
        assert (
            cell_area(Numerics.from_dict(chosen | sizes)) == record(name, 8)["area_per_mac_nand2"]
        )
