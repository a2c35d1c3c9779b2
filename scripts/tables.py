"""Writes the tables of special functions, which hardware and golden model read.

    python scripts/tables.py [FOLDER]

Without a folder renews those in `sim/diastole_sim/spec/tables`; a test compares them with this.
"""

import argparse
import sys
from pathlib import Path

from diastole.cli import exit_code
from diastole.console import say
from diastole_sim.spec.function_tables import write_tables
from diastole_sim.spec.functions import TABLES


def main(arguments: argparse.Namespace) -> int:
    arguments.folder.mkdir(parents=True, exist_ok=True)
    write_tables(arguments.folder)
    say(f"wrote the tables to {arguments.folder}")
    return 0


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", default=TABLES)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(read_arguments())))
