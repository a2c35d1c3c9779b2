"""Area of the cell of every format, in NAND2 equivalents per MAC, beside what was asked."""

# pyright: reportMissingTypeStubs=false
# Amaranth has no annotations.
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from amaranth.lib import wiring

from diastole.errors import BadInput
from diastole.measure.area import Mapper
from diastole.measure.figure import write_json
from diastole.measure.float_mac import FloatCell
from diastole_hw.cell.cell import Cell
from diastole_hw.plan.plan import Plan
from diastole_sim.spec.formats import FAST
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.sizes.tiling import default_tiling

BLOCK, SIDE, DATA_WIDTH = 8, 2, 64
COMMAND = "make bench-formats"
BOTH = ("east", "north")


@dataclass(frozen=True, kw_only=True)
class FormatCell:
    """A cell to measure: format of all three classes and what differs from the defaults.

    ``grouping`` of all classes; ``directions`` instead of those that the generator chooses;
    ``asked``: the largest area that will do, None where any will.
    """

    name: str
    label: str
    format: str
    asked: float | None = None
    grouping: str | None = None
    window: int | None = None
    fraction: int = 18
    in_place: bool = True
    directions: tuple[str, ...] | None = None

    @property
    def macs(self) -> int:
        return BLOCK * BLOCK

    @property
    def numerics(self) -> Numerics:
        chosen = {"format": self.format, "rounding": "nearest"}
        if self.grouping:
            chosen["grouping"] = self.grouping
        return Numerics.from_dict(
            dict.fromkeys(CLASS_NAMES, chosen)
            | {"block": BLOCK, "random_bits": 8, "fraction": self.fraction}
            | {"headroom": 8, "window": self.window}
        )

    def component(self) -> wiring.Component:
        """The cell that ``diastole generate`` emits for such a configuration."""
        sizes: dict[str, Any] = {
            "rows": SIDE,
            "cols": SIDE,
            "numerics": self.numerics,
            "data_width": DATA_WIDTH,
        }
        plan = Plan(**sizes, in_place=self.in_place, tiling=default_tiling(**sizes))
        shape = plan.shape
        if self.directions:
            shape = replace(shape, directions=self.directions)
        growth = (SIDE - 1).bit_length()
        return Cell(shape=shape, psum_bits=shape.sum_bits + shape.fraction + growth)


@dataclass(frozen=True, kw_only=True)
class FloatReference:
    """What the cells are measured against."""

    name: str = "bf16 multiply-add"
    label: str = "one bfloat16 multiply-add into binary32, one direction, with its registers"
    asked: float | None = None
    macs: int = 1

    def component(self) -> wiring.Component:
        return FloatCell()


def _bfp(bits: int, asked: float | None) -> FormatCell:
    return FormatCell(name=f"bfp{bits}", label="8x8", format=f"bfp{bits}", asked=asked)


def _vectors(
    name: str, format: str, grouping: str, asked: float | None, fraction: int = 18
) -> list[FormatCell]:
    """Vector groups as they are generated, and in a cell of both directions, of which as much is
    asked but in ``fast``."""
    keys: dict[str, Any] = {"format": format, "grouping": grouping, "fraction": fraction}
    cell = FormatCell(name=name, label=grouping, asked=asked, **keys)
    label = f"{grouping}, both directions"
    of_both = None if format == FAST.name else asked
    both = FormatCell(name=f"{name}, in place", label=label, asked=of_both, directions=BOTH, **keys)
    return [cell, both]


CELLS: tuple[FormatCell | FloatReference, ...] = (
    _bfp(1, None),
    _bfp(2, 235),
    _bfp(3, 315),
    _bfp(4, 420),
    _bfp(5, 545),
    _bfp(6, None),
    _bfp(7, 840),
    _bfp(8, 1005),
    FormatCell(name="bfp4, edge", label="8x8, one direction", format="bfp4", in_place=False),
    *_vectors("bfp2 1x16", "bfp2", "1x16", 275),
    *_vectors("bfp4 1x16", "bfp4", "1x16", 460),
    FormatCell(name="fast", label="8x8, F = 22", format="fast", fraction=22, asked=225),
    *_vectors("fast 1x16", "fast", "1x16", 228, fraction=22),
    *_vectors("mxint8", "mxint8", "1x32", 885),
    FormatCell(name="fp8_e4m3", label="tensor, w = 16", format="fp8_e4m3", asked=750),
    FormatCell(name="fp8_e4m3, w = 20", label="tensor", format="fp8_e4m3", window=20, asked=800),
    FormatCell(
        name="fp8_e4m3, exact",
        label="tensor, w = 36, F = 0",
        format="fp8_e4m3",
        window=0,
        fraction=0,
        asked=1100,
    ),
    *_vectors("mxfp8_e4m3", "mxfp8_e4m3", "1x32", 785),
    FormatCell(name="mxfp8_e4m3, w = 20", label="1x32", format="mxfp8_e4m3", window=20, asked=845),
    FormatCell(
        name="fp8_e5m2, w = 16",
        label="tensor, F = 14",
        format="fp8_e5m2",
        window=16,
        fraction=14,
        asked=680,
    ),
    FormatCell(name="fp8_e5m2", label="tensor, w = 24", format="fp8_e5m2", asked=835),
    FormatCell(name="mxfp8_e5m2", label="1x32, w = 24", format="mxfp8_e5m2"),
    FormatCell(name="e3m2", label="8x8", format="e3m2", grouping="8x8", asked=670),
    *_vectors("mxfp6_e3m2", "mxfp6_e3m2", "1x32", 710),
    FormatCell(name="e2m3", label="8x8", format="e2m3", grouping="8x8", asked=605),
    *_vectors("mxfp6_e2m3", "mxfp6_e2m3", "1x32", None),
    FormatCell(name="e2m1", label="8x8", format="e2m1", grouping="8x8", asked=385),
    *_vectors("mxfp4_e2m1", "mxfp4_e2m1", "1x32", 420),
    FormatCell(name="nvfp4, squares", label="16x16", format="nvfp4", grouping="16x16", asked=565),
    FormatCell(name="nvfp4, vectors", label="1x16", format="nvfp4", grouping="1x16", asked=645),
    FormatCell(name="nvfp4", label="1x16, W 16x16", format="nvfp4", asked=645),
    FormatCell(name="bf16", label="w = 24", format="bf16"),
    FloatReference(),
)


def choose_cells(names: Sequence[str]) -> list[FormatCell | FloatReference]:
    """The cells of these names, all if there are none; BadInput for one that is unknown."""
    known = {cell.name: cell for cell in CELLS}
    unknown = [name for name in names if name not in known]
    if unknown:
        listed = ", ".join(map(repr, known))
        raise BadInput(*(f"no row {name!r}; known: {listed}" for name in unknown))
    return [known[name] for name in names] or list(CELLS)


def measure(cell: FormatCell | FloatReference, mapper: Mapper) -> dict[str, Any]:
    """A row of the table as plain values."""
    return {
        "name": cell.name,
        "label": cell.label,
        "asked": cell.asked,
        "area_per_mac_nand2": round(mapper.area_nand2(cell.component()) / cell.macs, 1),
    }


def line(row: dict[str, Any]) -> str:
    """A row for people."""
    asked = "" if row["asked"] is None else f"at most {row['asked']:g}"
    named = f"{row['name']} ({row['label']})"
    return f"{named:72} {row['area_per_mac_nand2']:7.1f}  {asked}".rstrip()


def too_large(row: dict[str, Any]) -> bool:
    return row["asked"] is not None and row["area_per_mac_nand2"] > row["asked"]


def keep(rows: Iterable[dict[str, Any]], path: Path) -> None:
    """Puts what was measured into the data that ``diastole formats`` shows, in the order of
    :data:`CELLS`; leaves there what was not."""
    areas: dict[str, Any] = {"formats": {}, "command": COMMAND}
    if path.is_file():
        areas = json.loads(path.read_text())
    kept = {cell.name: areas["formats"].get(cell.name) for cell in CELLS}
    for row in rows:
        kept[row["name"]] = {key: row[key] for key in ("label", "area_per_mac_nand2")}
    areas["formats"] = {name: each for name, each in kept.items() if each}
    write_json(path, areas)
