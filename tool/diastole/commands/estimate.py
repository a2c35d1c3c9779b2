"""`diastole estimate`: cycles and bytes of layers on a machine, by its model: in seconds."""

import argparse
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from diastole.commands.arguments import (
    MAX_LATENCY,
    Commands,
    add_config,
    add_json,
    integer,
    read_config,
)
from diastole.commands.progress import progress
from diastole.config.keys import Config
from diastole.console import print_json, say, say_next
from diastole.errors import BadInput
from diastole.files.layers import NamedLayer, read_layers
from diastole.files.outputs import check_picture
from diastole.layers.costs import CONVERT, PHASES, Mapped, layer_costs, total
from diastole.layers.sizes import machine_size
from diastole.layers.sweep import SweptMachine, configurations, laid_over, on_all_cores, swept
from diastole.layers.widths import filled, parse_widths, widths_of
from diastole.measure.networks import LISTS, layers_of
from diastole.measure.steps import task_step
from diastole.nearest import meant
from diastole.report import estimate_table
from diastole_sim.perf.machine import LATENCY, Widths
from diastole_sim.spec.image import DATA_WIDTHS, MAX_SIZE
from diastole_sim.train.tasks import TASK_NAMES

MANY = 20
"""Layers from which on other processes are worth their start."""


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "estimate",
        help="cycles and bytes of a list of layers, without compiling anything",
        description=__doc__,
        epilog="example: diastole estimate --preset edge --shapes resnet-50 --batch 4",
        allow_abbrev=False,
    )
    add_config(parser, presets=True)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--task",
        choices=TASK_NAMES,
        help="instead a step of a task on a machine with a vector unit, by what is waited for",
    )
    what.add_argument(
        "--shapes",
        metavar="LIST",
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
        help=f"of {', '.join(PHASES)}; backward is both gradients, in one pass where they fit, "
        "convert the conversions of X, W and dY (default: forward,backward)",
    )
    parser.add_argument(
        "--latency",
        metavar="CYCLES",
        type=integer(1, MAX_LATENCY),
        default=LATENCY,
        help=f"of the memory (default: {LATENCY})",
    )
    parser.add_argument(
        "--widths",
        metavar="V",
        help="bits of magnitude that tensors of the format fast are converted to, as 4 or "
        "x=4,w=2,dy=4 (default: the widest)",
    )
    parser.add_argument(
        "--over",
        metavar="KEY=A,B,...",
        action="append",
        default=[],
        help="instead a line for each of many machines, with these values of a key of FILE; given "
        "several times, for all their combinations",
    )
    parser.add_argument("--out", metavar="PICTURE", type=Path, help="a roofline, .png or .svg")
    add_json(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    if arguments.task is not None:
        return _one_step(arguments)
    phases = parse_phases(arguments.phases)
    asked = {} if arguments.widths is None else parse_widths(arguments.widths)
    if arguments.over:
        return _sweep(arguments, phases, asked)
    config = read_config(arguments)
    widths = widths_of(config.numerics, asked)
    _check_picture(arguments.out, phases)
    layers = read_shapes(arguments.shapes, arguments.batch)
    with on_all_cores() if len(layers) >= MANY else nullcontext(map) as mapped:
        return _one_machine(arguments, config, layers, phases, mapped, widths)


def _one_step(arguments: argparse.Namespace) -> int:
    """Says what a step of a task takes."""
    if arguments.over or arguments.out is not None:
        raise BadInput("--over and --out are about layers: leave them out, or --task")
    found = task_step(read_config(arguments), arguments.task, arguments.latency)
    causes = found.by_cause
    if arguments.json:
        commands = [{**vars(each), "opcode": each.opcode.name.lower()} for each in found.commands]
        step = {"task": arguments.task, "cycles": found.cycles, "causes": causes}
        print_json(step | {"latency": arguments.latency, "commands": commands})
        return 0
    say(f"a step of {arguments.task}: {found.cycles:,} cycles")
    for cause, cycles in causes.items():
        say(f"  {cause:<14}{cycles:>8,}  {cycles / found.cycles:>6.1%}")
    return 0


def _one_machine(
    arguments: argparse.Namespace,
    config: Config,
    layers: Sequence[NamedLayer],
    phases: Sequence[str],
    mapped: Mapped,
    widths: Widths,
) -> int:
    """Says what every layer costs."""
    costs = layer_costs(config, layers, phases, arguments.latency, mapped, widths)
    bits = filled(config.numerics, widths)
    sums, size = total(costs, config.macs), machine_size(config)
    if arguments.out is not None:
        title = f"{config.name}: {arguments.shapes}"
        estimate_table.write_roofline(costs, arguments.out, title)
    if arguments.json:
        machine = {"name": config.name, **size.record(), "latency": arguments.latency}
        machine["widths"] = bits
        print_json(machine | {"layers": [cost.record() for cost in costs], "total": sums})
        return 0
    for line in estimate_table.lines_of(costs, sums, bits):
        say(line)
    say(f"{config.name}: {size}")
    wider = partial(_wider, config, layers, phases, arguments.latency, mapped, widths)
    if help_ := estimate_table.advice(config, sums, wider):
        say(help_)
    if arguments.out is not None:
        say(f"wrote {arguments.out}")
    say_next("--over bus.data_width=64,128,256 compares machines, --phases convert conversions")
    return 0


def _sweep(arguments: argparse.Namespace, phases: Sequence[str], asked: Mapping[str, int]) -> int:
    """Says what all layers cost, for every machine."""
    if arguments.out is not None:
        raise BadInput("--out draws one machine, --over is about many: leave one of them out")
    machines = configurations(arguments.over, partial(_overridden, arguments, asked))
    layers = read_shapes(arguments.shapes, arguments.batch)
    found: list[SweptMachine] = []
    with progress("estimating, of all machines") as report:
        for each in swept(machines, layers, phases, arguments.latency, asked):
            found.append(each)
            report(len(found), len(machines), None)
    if arguments.json:
        print_json({"latency": arguments.latency, "machines": [each.record() for each in found]})
        return 0
    for line in estimate_table.sweep_lines(found):
        say(line)
    return 0


def _overridden(
    arguments: argparse.Namespace, asked: Mapping[str, int], overrides: Sequence[str]
) -> Config:
    """The machine with other keys than those of the command. BadInput if it has not the widths that
    are ``asked`` for."""
    changed = {**vars(arguments), "overrides": laid_over(arguments.overrides, overrides)}
    config = read_config(argparse.Namespace(**changed))
    widths_of(config.numerics, asked)
    return config


def _wider(
    config: Config,
    layers: Sequence[NamedLayer],
    phases: Sequence[str],
    latency: int,
    mapped: Mapped,
    widths: Widths,
) -> dict[str, Any] | None:
    """The total with a bus of twice the width, if there is one."""
    width = 2 * config.bus.data_width
    if width > max(DATA_WIDTHS):
        return None
    bus = config.bus.model_copy(update={"data_width": width})
    wider = config.model_copy(update={"bus": bus})
    return total(layer_costs(wider, layers, phases, latency, mapped, widths), wider.macs)


def parse_phases(text: str) -> list[str]:
    """Of "a,b", each once."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    wrong = [name for name in names if name not in PHASES]
    if wrong:
        near = meant(wrong[0], PHASES)
        raise BadInput(
            f"--phases must each be one of {', '.join(PHASES)}, not {', '.join(wrong)}{near}"
        )
    return names


def read_shapes(text: str, batch: int) -> list[NamedLayer]:
    """Of a list that we have, or of a file."""
    if text in LISTS:
        return layers_of(text, batch)
    path = Path(text)
    if not path.exists():
        raise BadInput(
            f"--shapes: there is no file {text}; known lists are {', '.join(LISTS)}"
            + meant(text, LISTS)
        )
    layers = read_layers(path)
    large = [layer.name for layer in layers if layer.m * batch > MAX_SIZE]
    if large:
        raise BadInput(f"--batch makes M larger than {MAX_SIZE} in {', '.join(large)}")
    return [
        NamedLayer(name=layer.name, m=layer.m * batch, k=layer.k, n=layer.n, repeats=layer.repeats)
        for layer in layers
    ]


def _check_picture(path: Path | None, phases: Sequence[str]) -> None:
    """Refuses, before any work, a picture that cannot be made."""
    if path is None:
        return
    if phases == [CONVERT]:
        raise BadInput(f"--out draws products, of which --phases {CONVERT} has none")
    check_picture("--out", path)
