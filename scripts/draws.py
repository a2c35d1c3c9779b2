"""Measures the kinds of draws of stochastic rounding: rounding.kind.

    python scripts/draws.py build/draws.json [area machine bias accuracy]

``area``: two lanes that draw 24 bits beside two of `lfsr3`. ``machine``: all of `nano`, by kind.
``bias``: by the definition, and of the generated Verilog. ``accuracy``: digits, seeds 0 to 4, on
the golden model. Without names measures all. Writes and prints what bench.py does. ``--require``:
exit 1 if a figure is not met.
"""

import argparse
import sys
from pathlib import Path

from diastole.cli import exit_code
from diastole.measure import draw_accuracy, draw_bias, rounding_area
from diastole.measure.area import Mapper
from diastole.measure.figure import bench, choose


def main(arguments: argparse.Namespace) -> int:
    known = {
        "area": lambda: rounding_area.figures(Mapper.find()),
        "machine": lambda: rounding_area.machines(Mapper.find()),
        "bias": draw_bias.figures,
        "accuracy": draw_accuracy.figures,
    }
    return bench(choose(known, arguments.names), arguments.output, require=arguments.require)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, metavar="FILE")
    parser.add_argument("names", nargs="*", metavar="MEASUREMENT")
    parser.add_argument("--require", action="store_true", help="exit 1 if a figure is not met")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(read_arguments())))
