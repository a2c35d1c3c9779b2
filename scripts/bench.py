"""Measures what the README claims.

    python scripts/bench.py build/bench.json [utilisation formats area ...] [--require]

Prints a table, and writes {"rows": [{"what", "asked", "measured", "met"}]}; all without names.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from area import LIBRARY

from diastole.backend import cached_product
from diastole.cli import exit_code
from diastole.config.keys import Config
from diastole.config.presets import PRESETS
from diastole.measure import (
    accuracy,
    area,
    chooser,
    comparing,
    emission,
    estimating,
    geometry,
    golden_speed,
    gradient_order,
    model_error,
    precisions,
    sizes,
    utilisation,
)
from diastole.measure.figure import Figure, bench, choose
from diastole_sim.rtl import Device


def on(config: Config, measure: Callable[[Config, Device], Iterator[Figure]]) -> Iterator[Figure]:
    with Device(cached_product(config)) as device:
        yield from measure(config, device)


def larger() -> Iterator[Figure]:
    for name, cases in sizes.CASES.items():
        with Device(cached_product(PRESETS[name])) as device:
            yield utilisation.memories(name, device)
            for case in cases:
                yield from sizes.cube_products(name, PRESETS[name], device, case)


def far() -> Iterator[Figure]:
    options = dict.fromkeys(("read_latency", "write_latency"), sizes.FAR_LATENCY)
    for name, case in sizes.FAR.items():
        with Device(cached_product(PRESETS[name]), **options) as device:
            yield from sizes.cube_products(name, PRESETS[name], device, case, where=sizes.FAR_AWAY)


def main(arguments: argparse.Namespace) -> int:
    mapper = area.Mapper.find(LIBRARY) if not arguments.names or "area" in arguments.names else None
    known = {
        "utilisation": lambda: on(PRESETS["nano"], utilisation.products),
        "formats": utilisation.in_every_format,
        "narrow": lambda: on(area.widened(PRESETS["nano"], 64), utilisation.digits_step),
        "larger": larger,
        "far": far,
        "model": model_error.figures,
        "estimating": estimating.figures,
        "chooser": lambda: chooser.figures("nano", PRESETS["nano"]),
        "area": lambda: area.figures(mapper),
        "emission": emission.figures,
        "accuracy": accuracy.figures,
        "precision": precisions.figures,
        "geometry": geometry.figures,
        "orders": gradient_order.figures,
        "stacks": golden_speed.figures,
        "comparing": comparing.figures,
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
