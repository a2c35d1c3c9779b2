"""Measured areas of cells, and the choice of the cell that is like a machine's cell."""

import json
from pathlib import Path
from typing import Any

from diastole_sim.spec.formats import Grouping, parse_format
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics

AREAS = Path(__file__).with_name("areas.json")
"""File of measured cells: {"formats": {NAME: {"label": TEXT, "area_per_mac_nand2": NUMBER}},
"command": the command of the measurement}; absent before a measurement."""


MEASURED_BLOCK = 8
"""Side of the blocks of all measured cells."""
STATIONARY_CLASSES = ("w", "dy")
"""Classes whose groups influence the cell."""


def areas() -> dict[str, Any]:
    """Return the measured cells by format, and the command of the measurement. Empty without
    measurements."""
    if not AREAS.is_file():
        return {"formats": {}, "command": None}
    return json.loads(AREAS.read_text())


def cell_area(numerics: Numerics) -> float | None:
    """Return the NAND2 equivalents per MAC of a machine's cell. None unless a similar cell was
    measured: blocks of 8, one format, no window of the configuration, and equal kinds of groups of
    W and dY.

    The kinds are vectors, and squares or ``tensor``, where all elements of a block have one
    exponent. The length of vectors, roundings and scales do not change the cell.
    """
    names = {numerics.tensor_class(name).format.name for name in CLASS_NAMES}
    if numerics.block != MEASURED_BLOCK or numerics.window is not None or len(names) > 1:
        return None
    (name,) = names
    format = parse_format(name)
    kinds = tuple(_is_vector(numerics.tensor_class(each).grouping) for each in STATIONARY_CLASSES)
    usual = tuple(
        _is_vector(format.default_grouping(MEASURED_BLOCK, each)) for each in STATIONARY_CLASSES
    )
    cells = areas()["formats"]
    measured = {usual: name}
    for vectors, ending in ((False, ", squares"), (True, ", vectors"), (True, " 1x16")):
        if name + ending in cells:
            measured.setdefault((vectors, vectors), name + ending)
    cell = cells.get(measured.get(kinds))
    return cell and cell["area_per_mac_nand2"]


def _is_vector(grouping: Grouping) -> bool:
    return grouping.kind == "vector"
