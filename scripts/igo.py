"""Compares orders of loops of the backward pass with those of Interleaved Gradient Order.

    python scripts/igo.py [--machine M] [--network N] [--bytes 4] [--sum-bytes 4] [--json] ...

The paper (MICRO 2023, DOI 10.1145/3613424.3614299) has two machines and nine networks; what it does
not say is assumed, and told in tool/diastole/measure/gradient_order.py. Prints the time of a step
of training with each order, exactly counted, over square tiles and over the best separate products.
Some 20 seconds.
"""

import argparse
import sys
from dataclasses import replace

from diastole.cli import Parser, exit_code
from diastole.commands.arguments import integer, one_of
from diastole.console import print_json, say
from diastole.measure import gradient_order
from diastole.measure.networks import NETWORKS
from diastole_sim.perf.orders.systolic import WIDTHS


def main() -> int:
    given = read_arguments()
    sums = given.sum_bytes or given.bytes
    widths = {"element_bytes": given.bytes, "result_bytes": given.bytes, "sum_bytes": sums}
    networks = [each for each in NETWORKS if each.name in (given.network or (each.name,))]
    found = [
        gradient_order.order_record(
            replace(each, **widths), networks, given.several, given.depthwise
        )
        for each in gradient_order.MACHINES
        if each.name in (given.machine or (each.name,))
    ]
    if given.json:
        print_json({"machines": found})
        return 0
    for each in found:
        say("\n".join(gradient_order.order_table(each)))
    return 0


def read_arguments() -> argparse.Namespace:
    parser = Parser(description=__doc__.splitlines()[0])
    machines = [each.name for each in gradient_order.MACHINES]
    networks = [each.name for each in NETWORKS]
    parser.add_argument("--machine", choices=machines, action="append", help="of the paper's")
    parser.add_argument("--network", choices=networks, action="append", help="of the nine")
    parser.add_argument(
        "--bytes", type=one_of(*WIDTHS), choices=WIDTHS, default=gradient_order.BYTES
    )
    parser.add_argument(
        "--sum-bytes", type=one_of(*WIDTHS), choices=WIDTHS, help="of a sum, if another"
    )
    parser.add_argument("--several", type=integer(2, 64), action="append", metavar="COUNT",
        default=[], help="machines that share each layer")  # fmt: skip
    parser.add_argument("--depthwise", action="store_true", help="count these convolutions too")
    parser.add_argument("--json", action="store_true", help="one object instead of tables")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(exit_code(main))
