"""Measures what the README claims.

    python scripts/bench.py build/bench.json [utilisation formats area ...] [--require]

Prints a table, and writes {"rows": [{"what", "asked", "measured", "met"}]}; all without names.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from diastole.backend import cached_product
from diastole.cli import exit_code
from diastole.config.keys import Config
from diastole.config.presets import PRODUCTS_ONLY
from diastole.devices import Device
from diastole.measure import (
    accumulators,
    accuracy,
    area,
    cell_speed,
    chooser,
    comparing,
    drain_chains,
    emission,
    estimating,
    geometry,
    golden_speed,
    gradient_order,
    machine_luts,
    masters,
    model_error,
    plane_passes,
    planes,
    precisions,
    sizes,
    torch_speed,
    two_scales,
    utilisation,
    vector_areas,
    whole_steps,
)
from diastole.measure.figure import Figure, bench, choose


def on(config: Config, measure: Callable[[Config, Device], Iterator[Figure]]) -> Iterator[Figure]:
    with Device(cached_product(config)) as device:
        yield from measure(config, device)


def main(arguments: argparse.Namespace) -> int:
    gates = {"area", "accumulators", "plane_areas", "vector_areas", "scale_areas", "speed"}
    mapper = area.Mapper.find() if gates & {*arguments.names} or not arguments.names else None
    known = {
        "utilisation": lambda: on(PRODUCTS_ONLY["nano"], utilisation.products),
        "formats": utilisation.in_every_format,
        "narrow": lambda: on(area.widened(PRODUCTS_ONLY["nano"], 64), utilisation.digits_step),
        "larger": sizes.larger,
        "model": model_error.figures,
        "estimating": estimating.figures,
        "chooser": lambda: chooser.figures("nano", PRODUCTS_ONLY["nano"]),
        "area": lambda: area.figures(mapper),
        "emission": emission.figures,
        "accuracy": accuracy.figures,
        "planes": plane_passes.figures,
        "precision": precisions.figures,
        "accumulators": lambda: accumulators.figures(mapper),
        "plane_areas": lambda: planes.figures(mapper),
        "vector_areas": lambda: vector_areas.figures(mapper),
    }
    known |= {"torch": torch_speed.figures, "geometry": geometry.figures}
    known |= {"stacks": golden_speed.figures, "speed": lambda: cell_speed.figures(mapper)}
    known |= {"steps": whole_steps.figures, "drains": drain_chains.figures, "far": sizes.far}
    known |= {"scale_areas": lambda: two_scales.rule_areas(mapper), "scales": two_scales.figures}
    known |= {"synth": machine_luts.figures, "comparing": comparing.figures}
    known |= {"master": masters.figures, "orders": gradient_order.figures}
    return bench(choose(known, arguments.names), arguments.output, require=arguments.require)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, metavar="FILE")
    parser.add_argument("names", nargs="*", metavar="MEASUREMENT")
    parser.add_argument("--require", action="store_true", help="exit 1 if a figure is not met")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(read_arguments())))
