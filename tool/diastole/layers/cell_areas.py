"""The areas of cells as they were measured, and which of them a machine's is."""

import json
from pathlib import Path
from typing import Any

from diastole_sim.spec.formats import Grouping, parse_format
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics

AREAS = Path(__file__).with_name("areas.json")
"""Cells as measured: {"formats": {NAME: {"label": TEXT, "area_per_mac_nand2": NUMBER}},
"command": what measured them}; absent until that was done."""


MEASURED_BLOCK = 8
"""Side of the blocks of all cells that were measured."""
HELD = ("w", "dy")
"""Classes whose groups a cell knows of."""


def areas() -> dict[str, Any]:
    """The measured cells by format, and their command; nothing where none were measured."""
    if not AREAS.is_file():
        return {"formats": {}, "command": None}
    return json.loads(AREAS.read_text())


def cell_area(numerics: Numerics) -> float | None:
    """NAND2 equivalents per MAC of a machine's cell, if one like it was measured: in blocks of 8,
    with one format, and its groups of W and dY of the same kinds.

    Vectors differ from squares and ``tensor``, where each element of a block has one exponent;
    their length, roundings and scales are none of the cell's concern.
    """
    names = {numerics.tensor_class(name).format.name for name in CLASS_NAMES}
    if numerics.block != MEASURED_BLOCK or numerics.window is not None or len(names) > 1:
        return None
    (name,) = names
    chosen = parse_format(name)
    kinds = tuple(_is_vector(numerics.tensor_class(each).grouping) for each in HELD)
    usual = tuple(_is_vector(chosen.default_grouping(MEASURED_BLOCK, each)) for each in HELD)
    cells = areas()["formats"]
    known = {usual: name}
    for vectors, ending in ((False, ", squares"), (True, ", vectors"), (True, " 1x16")):
        if name + ending in cells:
            known.setdefault((vectors, vectors), name + ending)
    found = cells.get(known.get(kinds))
    return found and found["area_per_mac_nand2"]


def _is_vector(grouping: Grouping) -> bool:
    return grouping.kind == "vector"
