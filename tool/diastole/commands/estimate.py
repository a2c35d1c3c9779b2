"""`diastole estimate`: model cycles and bytes of layers on a machine, within seconds."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from diastole.commands import recipe_options, scaling, train_program
from diastole.commands.arguments import (
    Commands,
    add_config,
    add_json,
    integer,
    megahertz,
    read_config,
)
from diastole.commands.network_options import add_loss, loss_of
from diastole.commands.progress import progress
from diastole.commands.task_step import program_step, task_step
from diastole.config.keys import Config
from diastole.console import print_json, say, say_next
from diastole.errors import BadInput
from diastole.files.layers import NamedLayer, read_layers
from diastole.files.outputs import check_picture
from diastole.layers.bounds import percents
from diastole.layers.graph_costs import graph_costs
from diastole.layers.layer_costs import CONVERT, PHASES, Mapped, layer_costs, total
from diastole.layers.layer_widths import filled, parse_widths, widths_of
from diastole.layers.machine_size import machine_size
from diastole.layers.networks import LISTS, layers_of
from diastole.layers.sweep import (
    Front,
    SweptMachine,
    configurations,
    merge_overrides,
    on_all_cores,
    same_key,
    swept,
)
from diastole.learning.task import MOST_BATCH, blank_task
from diastole.nearest import suggestion
from diastole.report import estimate_table
from diastole.report.graph_table import graph_lines
from diastole.report.roofline import write_roofline
from diastole.report.sweep_table import sweep_lines, write_front
from diastole_sim.machines.verilator.simulation import MAX_LATENCY
from diastole_sim.perf.modelled_machine import LATENCY
from diastole_sim.program.own_code import FORM, OwnCode, OwnCodeError
from diastole_sim.spec.image import DATA_WIDTHS, MAX_SIZE
from diastole_sim.spec.require import excerpt, whole_number
from diastole_sim.spec.sizes.uses import Widths
from diastole_sim.train.tasks import TASK_NAMES, find_task

MAX_SAMPLES = 1 << 40
LOSS, OPTIMIZER = "mse", "sgd"
"""Defaults with --graph."""
MANY = 20
"""Number of layers that are worth the start of worker processes."""
NAMED = 5
"""Largest number of layers that a note names."""
BACKWARD, BACKWARD_OPTIONS = "backward", ("dx", "dw")
STEP_TASKS = tuple(name for name in TASK_NAMES if find_task(name).classifies)
"""Tasks with steps that a machine does alone."""
LAYERS_ALONE = {"batch": None, "phases": f"forward,{BACKWARD}", "widths": None}
"""Options of layers that a step of a task does not have, with the defaults."""


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "estimate",
        help="estimate cycles and bytes of layers, without compiling anything",
        description=__doc__,
        epilog="example: diastole estimate --preset edge --shapes resnet-50 --batch 4",
        allow_abbrev=False,
    )
    add_config(parser, presets=True)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--task",
        choices=STEP_TASKS,
        help="estimate a training step of a task on a machine with a vector unit, by causes of "
        "waiting",
    )
    what.add_argument(
        "--graph",
        metavar=FORM,
        help="estimate a training step of a network of your own by layers, on a machine with a "
        "vector unit; needs --inputs",
    )
    what.add_argument(
        "--shapes",
        metavar="LIST",
        help="layers to estimate: a CSV file with the columns M, K, N, or with the columns of "
        "a topology of SCALE-Sim (one or two strides, and groups), and optionally repeats "
        f"and batch; or one of {', '.join(LISTS)}",
    )
    parser.add_argument(
        "--batch",
        metavar="B",
        type=integer(1, 1 << 16),
        help="samples in a batch, a factor of M for a file without a column batch (default: 1, and "
        f"{MOST_BATCH} with --graph)",
    )
    _add_graph(parser)
    parser.add_argument(
        "--phases",
        metavar="A,B,...",
        default=LAYERS_ALONE["phases"],
        help=f"phases to estimate, of {', '.join(PHASES)}; backward is both gradients, in one "
        "pass where both fit, else one after the other (a machine has two in flight and "
        "takes no longer); convert is the conversions of X, W and dY (default: "
        "forward,backward)",
    )
    parser.add_argument(
        "--latency",
        metavar="CYCLES",
        type=integer(1, MAX_LATENCY),
        default=LATENCY,
        help=f"latency of the memory (default: {LATENCY})",
    )
    parser.add_argument(
        "--clock",
        metavar="MHZ",
        type=megahertz(),
        help="clock of the machine, for seconds, GB/s and TOPS in the report",
    )
    parser.add_argument(
        "--widths",
        metavar="V",
        help="bits of magnitude of converted tensors in the format fast, such as 4 or "
        "x=4,w=2,dy=4 (default: the widest)",
    )
    parser.add_argument(
        "--over",
        metavar="KEY=A,B,...",
        action="append",
        default=[],
        help="compare machines with these values of a key, a line for each machine, and name "
        "the machines that no other machine beats in cycles and area; several --over give "
        "all combinations",
    )
    parser.add_argument(
        "--out",
        metavar="PICTURE",
        type=Path,
        help="picture to write, .png or .svg: a roofline, or cycles against area with --over",
    )
    recipe_options.add_program(parser, "for --task and --graph only, as in train")
    scaling.add_loss_scale(parser)
    add_json(parser)
    parser.set_defaults(execute=execute)


def _add_graph(parser: argparse.ArgumentParser) -> None:
    """Add options of networks of a user."""
    parser.add_argument(
        "--inputs",
        metavar="SHAPE",
        type=sample_shape,
        help="shape of a sample for --graph, such as 8 or 1,28,28",
    )
    add_loss(parser, f"loss for --graph, default {LOSS}")
    parser.add_argument(
        "--samples",
        metavar="N",
        type=integer(1, MAX_SAMPLES),
        help="training samples of an epoch for --graph, for the cycles of an epoch",
    )


def sample_shape(text: str) -> tuple[int, ...]:
    """Parse the shape of a sample, as a type for argparse."""
    sizes = [whole_number(word.strip()) for word in text.split(",")]
    found = tuple(size for size in sizes if size is not None and 1 <= size <= MAX_SIZE)
    if len(found) != len(sizes):
        raise argparse.ArgumentTypeError(
            f"must be integers in 1..{MAX_SIZE}, such as 8 or 1,28,28, not {excerpt(text)}"
        )
    return found


def execute(arguments: argparse.Namespace) -> int:
    if arguments.graph is not None:
        return _graph_step(arguments)
    for name in ("inputs", "loss", "samples"):
        if getattr(arguments, name) is not None:
            raise BadInput(f"--{name} works only with --graph: leave --{name} out")
    if arguments.task is not None:
        return _one_step(arguments)
    for name in (*recipe_options.OPTIONS, *scaling.OPTIONS):
        if getattr(arguments, name) is not None:
            raise BadInput(
                f"{recipe_options.option(name)} needs --task: the option belongs to a training step"
            )
    phases = parse_phases(arguments.phases)
    requested = {} if arguments.widths is None else parse_widths(arguments.widths)
    if arguments.over:
        return _sweep(arguments, phases, requested)
    config = read_config(arguments)
    widths = widths_of(config.numerics, requested)
    _check_picture(arguments.out)
    if arguments.out is not None and phases == [CONVERT]:
        raise BadInput(
            f"--out needs a product to draw, and --phases {CONVERT} has no product: add a "
            "phase, or leave --out out"
        )
    layers = read_shapes(arguments.shapes, arguments.batch or 1)
    with on_all_cores() if len(layers) >= MANY else nullcontext(map) as mapped:
        return _one_machine(arguments, config, layers, phases, mapped, widths)


def _refuse_layers(arguments: argparse.Namespace, what: str, names: Iterable[str]) -> None:
    """Raise BadInput for options of layers with a training step."""
    if arguments.over or arguments.out is not None:
        raise BadInput(f"--over and --out work only with --shapes, not with {what}")
    for name in names:
        if getattr(arguments, name) != LAYERS_ALONE[name]:
            raise BadInput(f"--{name} works only with --shapes, not with {what}")


def _graph_step(arguments: argparse.Namespace) -> int:
    """Report the cycles of a training step of a user's network, by layers."""
    _refuse_layers(arguments, "--graph", [name for name in LAYERS_ALONE if name != "batch"])
    for name in ("hidden", "activation"):
        if getattr(arguments, name) is not None:
            raise BadInput(f"--{name} does not work with --graph: leave --{name} out")
    if arguments.inputs is None:
        raise BadInput("--graph needs --inputs, the shape of a sample, such as 8 or 1,28,28")
    config, batch = read_config(arguments), _batch_of(arguments)
    try:
        network = OwnCode.read(arguments.graph)
    except OwnCodeError as error:
        raise BadInput(f"--graph: {error}") from None
    loss, optimizer = arguments.loss or LOSS, arguments.optimizer or OPTIMIZER
    task = blank_task(network, arguments.inputs, loss=loss_of(loss), batch=batch)
    options = train_program.program_of(config, None, arguments)
    made, step = program_step(config, task, arguments.latency, options)
    costs = graph_costs(made.recipe, made.program, step, beat_bytes=config.bus.data_width // 8)
    steps = None if arguments.samples is None else arguments.samples // batch
    epoch = None if steps is None else steps * step.cycles
    seconds = None if arguments.clock is None else step.cycles / (arguments.clock * 1e6)
    if arguments.json:
        record = {"graph": arguments.graph, "batch": batch, "cycles": step.cycles}
        record |= {"loss": str(loss), "optimizer": str(optimizer)}
        record |= {"causes": step.cause_cycles, "latency": arguments.latency}
        record |= {"seconds": seconds, "cycles_per_epoch": epoch}
        print_json(record | {"layers": [cost.record(config.macs) for cost in costs]})
        return 0
    for line in graph_lines(costs, config.macs):
        say(line)
    timed = "" if seconds is None else f", {estimate_table.significant(1e3 * seconds)} ms"
    say(f"a step of {batch} samples with {loss} and {optimizer}: {step.cycles:,} cycles{timed}")
    if epoch is not None:
        timed = "" if seconds is None else f", {estimate_table.significant(steps * seconds)} s"
        say(f"an epoch of {steps} steps: {epoch:,} cycles{timed}")
    return 0


def _batch_of(arguments: argparse.Namespace) -> int:
    """Return the samples of a step of a network. BadInput for more than an epoch has."""
    samples = MAX_SAMPLES if arguments.samples is None else arguments.samples
    batch = arguments.batch or min(MOST_BATCH, samples)
    if batch > samples:
        raise BadInput(f"--batch must be at most {samples}, the number of --samples, not {batch}")
    return batch


def _one_step(arguments: argparse.Namespace) -> int:
    """Report the cycles of a step of a task."""
    _refuse_layers(arguments, "--task", LAYERS_ALONE)
    config, task = read_config(arguments), find_task(arguments.task)
    options = train_program.program_of(config, task, arguments)
    estimated = task_step(config, task, arguments.latency, options)
    causes = estimated.cause_cycles
    if arguments.json:
        commands = [
            {**vars(each), "opcode": each.opcode.name.lower()} for each in estimated.commands
        ]
        step = {"task": arguments.task, "cycles": estimated.cycles, "causes": causes}
        if arguments.clock is not None:
            step["seconds"] = estimated.cycles / (arguments.clock * 1e6)
        print_json(step | {"latency": arguments.latency, "commands": commands})
        return 0
    timed = ""
    if arguments.clock is not None:
        milliseconds = estimate_table.significant(estimated.cycles / (arguments.clock * 1e3))
        timed = f", {milliseconds} ms at {arguments.clock:g} MHz"
    say(f"a step of {arguments.task}: {estimated.cycles:,} cycles{timed}")
    parts = percents({cause: cycles / estimated.cycles for cause, cycles in causes.items()})
    for cause, cycles in causes.items():
        say(f"  {cause:<14}{cycles:>8,}  {parts[cause]:>5.1f}%")
    return 0


def _one_machine(
    arguments: argparse.Namespace,
    config: Config,
    layers: Sequence[NamedLayer],
    phases: Sequence[str],
    mapped: Mapped,
    widths: Widths,
) -> int:
    """Report the cost of every layer."""
    costs = layer_costs(config, layers, phases, arguments.latency, mapped, widths)
    bits = filled(config.numerics, widths)
    clock = arguments.clock
    sums, size = total(costs, config.macs, clock), machine_size(config)
    depthwise = [layer.name for layer in layers if layer.depthwise]
    if arguments.out is not None:
        title = f"{config.name}: {arguments.shapes}"
        write_roofline(costs, arguments.out, title, clock)
    if arguments.json:
        machine = {"name": config.name, **size.record(), "latency": arguments.latency}
        machine["widths"] = bits
        machine["depthwise"] = depthwise
        machine["clock_mhz"] = clock
        print_json(machine | {"layers": [cost.record(clock) for cost in costs], "total": sums})
        return 0
    for line in estimate_table.lines_of(costs, sums, bits, clock):
        say(line)
    if depthwise:
        summary = (
            "depthwise layers, computed as a product for each channel (groups = 1 in the file "
            "makes a layer dense)"
        )
        say(f"{summary}: {_few(depthwise)}")
    say(f"{config.name}: {size}")
    if clock is not None:
        say(estimate_table.pace_line(config, sums, clock))
    wider = partial(_wider, config, layers, phases, arguments.latency, mapped, widths)
    if help_ := estimate_table.advice(config, sums, wider):
        say(help_)
    if arguments.out is not None:
        say(f"wrote {arguments.out}")
    others = ",".join(str(each) for each in DATA_WIDTHS if each != config.bus.data_width)
    say_next(
        f"--over bus.data_width={others} compares machines; --phases convert estimates conversions"
    )
    return 0


def _few(names: Sequence[str]) -> str:
    """Return the first names, and the number of further names."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _sweep(
    arguments: argparse.Namespace, phases: Sequence[str], requested: Mapping[str, int]
) -> int:
    """Report the cost of all layers, for every machine."""
    if any(same_key(text.partition("=")[0]) == "preset" for text in arguments.over):
        raise BadInput(
            "--over: preset cannot be varied here: estimate each --preset with a command of its own"
        )
    machines = configurations(arguments.over, partial(_overridden, arguments, requested))
    _check_picture(arguments.out)
    layers, clock = read_shapes(arguments.shapes, arguments.batch or 1), arguments.clock
    machines_done: list[SweptMachine] = []
    with progress("estimating all machines") as report:
        for each in swept(machines, layers, phases, arguments.latency, requested, clock):
            machines_done.append(each)
            report(len(machines_done), len(machines), None)
    if arguments.out is not None:
        write_front(machines_done, arguments.out, f"{arguments.shapes}: cycles against size", clock)
    if arguments.json:
        front = Front.of(machines_done)
        record = [each.record() | {"pareto": each in front.machines} for each in machines_done]
        print_json(
            {
                "latency": arguments.latency, "clock_mhz": clock, "area": front.measure,
                "machines": record,
            }
        )  # fmt: skip
        return 0
    for line in sweep_lines(machines_done, clock):
        say(line)
    if arguments.out is not None:
        say(f"wrote {arguments.out}")
    return 0


def _overridden(
    arguments: argparse.Namespace, requested: Mapping[str, int], overrides: Sequence[str]
) -> Config:
    """Return the machine of the command with further overrides. BadInput if the machine does not
    have the ``requested`` widths."""
    changed = {**vars(arguments), "overrides": merge_overrides(arguments.overrides, overrides)}
    config = read_config(argparse.Namespace(**changed))
    widths_of(config.numerics, requested)
    return config


def _wider(
    config: Config,
    layers: Sequence[NamedLayer],
    phases: Sequence[str],
    latency: int,
    mapped: Mapped,
    widths: Widths,
) -> dict[str, Any] | None:
    """Return the total with a bus of twice the width, None if no bus is wider."""
    width = 2 * config.bus.data_width
    if width > max(DATA_WIDTHS):
        return None
    bus = config.bus.model_copy(update={"data_width": width})
    wider = config.model_copy(update={"bus": bus})
    return total(layer_costs(wider, layers, phases, latency, mapped, widths), wider.macs)


def parse_phases(text: str) -> list[str]:
    """Parse different phases such as "a,b". BadInput for unknown names and for overlapping
    phases."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    wrong = [name for name in names if name not in PHASES]
    if wrong:
        near = suggestion(wrong[0], PHASES)
        raise BadInput(
            f"every phase of --phases must be one of {', '.join(PHASES)}, not "
            f"{', '.join(wrong)}{near}"
        )
    twice = [name for name in names if name in BACKWARD_OPTIONS] if BACKWARD in names else []
    if twice:
        raise BadInput(
            f"--phases has {' and '.join(twice)} twice: {BACKWARD} includes "
            f"{' and '.join(BACKWARD_OPTIONS)}"
        )
    return names


def read_shapes(text: str, batch: int) -> list[NamedLayer]:
    """Return the layers of a known list, or of a file."""
    if not text:
        raise BadInput("--shapes must not be empty")
    if text in LISTS:
        return layers_of(text, batch)
    path = Path(text)
    if not path.exists():
        raise BadInput(
            f"--shapes: there is no file {text}; known lists are {', '.join(LISTS)}"
            + suggestion(text, LISTS)
        )
    return read_layers(path, batch)


def _check_picture(path: Path | None) -> None:
    """Refuse a picture that cannot be made, before any work."""
    if path is None:
        return
    check_picture("--out", path)
