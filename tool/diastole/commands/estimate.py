"""`diastole estimate`: cycles and bytes of layers on a machine, by its model: in seconds."""

import argparse
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diastole import install
from diastole.commands.arguments import (
    MAX_LATENCY,
    Commands,
    add_config,
    add_json,
    integer,
    read_config,
)
from diastole.config.keys import Config
from diastole.console import print_json, say
from diastole.errors import BadInput
from diastole.files import atomic
from diastole.files.layers import NamedLayer, read_layers
from diastole.layers.costs import PHASES, layer_costs, total
from diastole.measure.networks import LISTS, layers_of
from diastole.report import estimate_table
from diastole_sim.perf.machine import LATENCY
from diastole_sim.spec.image import DATA_WIDTHS, MAX_SIZE

PICTURES = (".png", ".svg")


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "estimate",
        help="cycles and bytes of a list of layers, without compiling anything",
        description=__doc__,
        epilog="example: diastole estimate --preset edge --shapes resnet-50 --batch 4",
        allow_abbrev=False,
    )
    add_config(parser, presets=True)
    parser.add_argument(
        "--shapes",
        metavar="LIST",
        required=True,
        help="a CSV file of layers (columns M, K, N and a name; or the columns of a topology of "
        f"SCALE-Sim), or one of {', '.join(LISTS)}",
    )
    parser.add_argument(
        "--batch",
        metavar="B",
        type=integer(1, 1 << 16),
        default=1,
        help="samples at a time: M of a file is multiplied by it (default: 1)",
    )
    parser.add_argument(
        "--phases",
        metavar="A,B,...",
        default="forward,backward",
        help=f"of {', '.join(PHASES)}; backward is both gradients, in one pass where they fit "
        "(default: forward,backward)",
    )
    parser.add_argument(
        "--latency",
        metavar="CYCLES",
        type=integer(1, MAX_LATENCY),
        default=LATENCY,
        help=f"of the memory (default: {LATENCY})",
    )
    parser.add_argument("--out", metavar="PICTURE", type=Path, help="a roofline, .png or .svg")
    add_json(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    config = read_config(arguments)
    phases = parse_phases(arguments.phases)
    _check_picture(arguments.out)
    layers = read_shapes(arguments.shapes, arguments.batch)
    costs = layer_costs(config, layers, phases, arguments.latency)
    sums = total(costs)
    if arguments.out is not None:
        title = f"{config.name}: {arguments.shapes}"
        estimate_table.write_roofline(costs, arguments.out, title)
    if arguments.json:
        machine = {"name": config.name, "multipliers": config.macs, "latency": arguments.latency}
        print_json(machine | {"layers": [cost.record() for cost in costs], "total": sums})
        return 0
    for line in estimate_table.lines_of(costs, sums):
        say(line)
    wider = functools.partial(_wider, config, layers, phases, arguments.latency)
    if help_ := estimate_table.advice(config, sums, wider):
        say(help_)
    if arguments.out is not None:
        say(f"wrote {arguments.out}")
    return 0


def _wider(
    config: Config, layers: Sequence[NamedLayer], phases: Sequence[str], latency: int
) -> dict[str, Any] | None:
    """The total with a bus of twice the width, if there is one."""
    width = 2 * config.bus.data_width
    if width > max(DATA_WIDTHS):
        return None
    bus = config.bus.model_copy(update={"data_width": width})
    return total(layer_costs(config.model_copy(update={"bus": bus}), layers, phases, latency))


def parse_phases(text: str) -> list[str]:
    """Of "a,b", each once."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    wrong = [name for name in names if name not in PHASES]
    if wrong:
        raise BadInput(f"--phases must each be one of {', '.join(PHASES)}, not {', '.join(wrong)}")
    return names


def read_shapes(text: str, batch: int) -> list[NamedLayer]:
    """Of a list that we have, or of a file."""
    if text in LISTS:
        return layers_of(text, batch)
    path = Path(text)
    if not path.exists():
        raise BadInput(f"--shapes: there is no file {text}; known lists are {', '.join(LISTS)}")
    layers = read_layers(path)
    large = [layer.name for layer in layers if layer.m * batch > MAX_SIZE]
    if large:
        raise BadInput(f"--batch makes M larger than {MAX_SIZE} in {', '.join(large)}")
    return [
        NamedLayer(name=layer.name, m=layer.m * batch, k=layer.k, n=layer.n, repeats=layer.repeats)
        for layer in layers
    ]


def _check_picture(path: Path | None) -> None:
    """Refuses, before any work, a picture that cannot be made."""
    if path is None:
        return
    if path.suffix.lower() not in PICTURES:
        raise BadInput(f"--out must end in {' or '.join(PICTURES)}, not {path}")
    atomic.check_writable(path)
    install.require(*(tool for tool in install.OPTIONAL if tool.name == "matplotlib"))
