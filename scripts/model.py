"""Print what the cycle-and-byte model says of a machine: utilisation, traffic, and what if.

python scripts/model.py [--size 512] [--rows 2 --cols 2 --block 8] [--format mxfp8_e4m3] ...
"""

import argparse
import sys

from diastole.cli import exit_code
from diastole.console import say
from diastole.errors import BadInput
from diastole.measure.cycles_model import (
    cycles_table,
    nests_table,
    parts_table,
    what_if,
)
from diastole_hw.plan.plan import Plan
from diastole_sim.perf import Memory, ModelledMachine
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.sizes.tiling import default_tiling


def main(given: argparse.Namespace) -> int:
    try:
        sizes = {"rows": given.rows, "cols": given.cols, "data_width": given.data_width}
        sizes |= {"ports": given.ports}
        numerics, in_place = numerics_of(given), not given.edge
        memory = Memory.axi(given.latency)
        machine = ModelledMachine.of(numerics, in_place=in_place, memory=memory, **sizes)
        tiling = default_tiling(numerics=numerics, **sizes)
        nests = Plan(in_place=in_place, numerics=numerics, tiling=tiling, **sizes).nests
        lines = [*cycles_table(machine, given.size), ""]
        lines += [*nests_table(machine, nests, given.size), "", *what_if(machine, given.size)]
        if given.machines > 1:
            lines += ["", *parts_table(machine, numerics, nests, given.size, given.machines)]
    except ValueError as error:
        raise BadInput(str(error)) from error
    say("\n".join(lines))
    return 0


def numerics_of(given: argparse.Namespace) -> Numerics:
    """All classes alike; what is no matter of time is as in the presets."""
    chosen = {"format": given.format, "rounding": "nearest"} | (
        {"grouping": given.grouping} if given.grouping else {}
    )
    scalars = {"block": given.block, "random_bits": 8, "fraction": 18, "headroom": 14}
    return Numerics.from_dict(scalars | dict.fromkeys(CLASS_NAMES, chosen))


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=512, help="of M, N and K, elements")
    for name, default in (("rows", 2), ("cols", 2), ("block", 8), ("data-width", 64)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--ports", type=int, choices=(1, 2), default=1, help="of so many bits")
    parser.add_argument("--format", default="bfp4", help="of every class of tensors")
    parser.add_argument(
        "--grouping", help="of every class: 8x8, 1x16, ...; the format's own if none"
    )
    parser.add_argument("--latency", type=int, default=20, help="of the memory, cycles")
    parser.add_argument("--machines", type=int, default=1, help="that share each product")
    parser.add_argument("--edge", action="store_true", help="transposition at the edge")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(read_arguments())))
