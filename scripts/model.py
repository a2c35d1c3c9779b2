"""Print what the cycle-and-byte model says of a machine: utilisation, traffic, and what if.

python scripts/model.py [--size 512] [--rows 2 --cols 2 --block 8 --data-width 64] ...
"""

import argparse
import sys

from diastole.cli import exit_code
from diastole.console import say
from diastole.errors import BadInput
from diastole.measure.cycles_model import cycles_table, what_if
from diastole_sim.perf import Memory, ModelledMachine


def main(given: argparse.Namespace) -> int:
    try:
        machine = ModelledMachine(
            rows=given.rows,
            cols=given.cols,
            block=given.block,
            element_bits=(given.bits,) * 3,
            data_width=given.data_width,
            in_place=not given.edge,
            memory=Memory.axi(given.latency),
        )
        lines = [*cycles_table(machine, given.size), "", *what_if(machine, given.size)]
    except ValueError as error:
        raise BadInput(str(error)) from error
    say("\n".join(lines))
    return 0


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=512, help="of M, N and K, elements")
    for name, default in (("rows", 2), ("cols", 2), ("block", 8), ("data-width", 64)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--bits", type=int, default=5, help="of a stored element of every class")
    parser.add_argument("--latency", type=int, default=20, help="of the memory, cycles")
    parser.add_argument("--edge", action="store_true", help="transposition at the edge")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(read_arguments())))
