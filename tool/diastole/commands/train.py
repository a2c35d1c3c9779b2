"""`diastole train`: train a network, with every product and conversion on the device."""

import argparse
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from diastole import install
from diastole.backend import make_device
from diastole.commands import (
    network_options,
    recipe_options,
    scaling,
    train_logs,
    train_program,
    train_state,
)
from diastole.commands.arguments import (
    Commands,
    add_config,
    add_execution,
    fraction,
    integer,
    read_config,
)
from diastole.commands.backends import execution_of
from diastole.commands.progress import progress
from diastole.config.keys import Config
from diastole.config.numbers import NUMBERS
from diastole.console import fail, print_json, say, say_next
from diastole.errors import BadInput
from diastole.execution import Execution
from diastole.files import atomic
from diastole.files.outputs import check_picture
from diastole.layers.cell_areas import cell_area
from diastole.learning.checkpoint import Checkpoint
from diastole.learning.log import TrainingLog
from diastole.learning.task import OwnTask, own_task, task_with_graph
from diastole.nearest import suggestion
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.limits import MAX_STEPS
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.rounding import DRAW_BITS, RULES, is_stochastic
from diastole_sim.train import TASKS, TrainResult, gradient, run_task
from diastole_sim.train.history import History
from diastole_sim.train.master import DEFAULT_ROUNDING, FLOAT32, FORMATS, NARROW, Master
from diastole_sim.train.precision import (
    ALPHA,
    BETA,
    HIGH,
    LOW,
    PRECISIONS,
    Precision,
)
from diastole_sim.train.report import write_picture
from diastole_sim.train.tasks import TASK_NAMES, Task, find_task
from diastole_sim.trainer.job import Keeper, ProgramResult
from diastole_sim.trainer.options import ProgramOptions

OPTION_PRECISIONS = {"alpha": "fast", "beta": "fast", "switch": "low-to-high"}
"""Precision of every option."""


def listed_tasks() -> str:
    """Return the tasks as text for people."""
    return "; ".join(f"{name}, {task.about}" for name, task in TASKS.items())


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "train",
        help="train a network",
        description=__doc__,
        epilog="example: diastole train my.toml --task digits --steps 20 --verify",
        allow_abbrev=False,
    )
    add_config(parser)
    parser.add_argument("--task", metavar="NAME", help=f"task to learn: {listed_tasks()}")
    parser.add_argument(
        "--steps",
        metavar="N",
        type=integer(1, MAX_STEPS),
        help="minibatches to train on (default: the number of the task)",
    )
    parser.add_argument(
        "--min-accuracy",
        metavar="A",
        type=fraction,
        help="exit with 1 if the held-out accuracy is below A, from 0 to 1",
    )
    parser.add_argument(
        "--picture",
        metavar="FILE",
        type=Path,
        help="picture of loss, accuracy and, in the format fast, widths over the steps, .png "
        "or .svg",
    )
    train_logs.add_logs(parser)
    train_state.add_state(parser)
    add_master(parser)
    add_precision(parser)
    scaling.add_loss_scale(parser)
    network_options.add_network(parser)
    network_options.add_network_files(parser)
    recipe_options.add_program(parser)
    recipe_options.add_memory(
        parser,
        "memory of the machine: the host sends the samples in stretches if KIB have no room for "
        "all samples, and a program that needs more is refused (default: memory for all samples)",
    )
    add_execution(parser)
    parser.set_defaults(execute=execute)


def add_master(parser: argparse.ArgumentParser) -> None:
    """Add options of weights and gradients in few bits."""
    group = parser.add_argument_group(
        "weights and gradients in few bits",
        "on machines without a vector unit, and for the task text",
    )
    group.add_argument(
        "--master",
        choices=tuple(FORMATS),
        help="format of the master weights (default: from the key numbers, else float32, not "
        "rounded)",
    )
    group.add_argument(
        "--master-rounding",
        choices=tuple(RULES),
        help=f"rounding of updates to {NARROW} (default: {DEFAULT_ROUNDING})",
    )
    group.add_argument(
        "--master-bits",
        metavar="R",
        type=integer(1, DRAW_BITS),
        help=f"random bits of stochastic rounding to {NARROW} (default: {DRAW_BITS})",
    )
    group.add_argument(
        "--gradient",
        choices=tuple(gradient.FORMATS),
        help="format of weight gradients, to which gradients with the scale of the loss are "
        "rounded stochastically (default: from the key numbers, else float32)",
    )


def master_of(arguments: argparse.Namespace, default: Master = FLOAT32) -> Master:
    """Return the requested master weights, ``default`` without options. BadInput if options do not
    go together."""
    kind = arguments.master or default.kind
    rounding, bits = arguments.master_rounding, arguments.master_bits
    for option, value in (("--master-rounding", rounding), ("--master-bits", bits)):
        if value is not None and FORMATS[kind] is None:
            raise BadInput(
                f"{option} works only with --master {NARROW}, not with {kind}: leave {option} out"
            )
    if kind == default.kind:
        rounding = rounding or default.rounding
    if rounding is not None and not is_stochastic(rounding):
        if bits is not None:
            raise BadInput(
                f"--master-bits works only with stochastic rounding, not with {rounding}: "
                "leave --master-bits out"
            )
    elif kind == default.kind:
        bits = bits or default.bits
    return Master(kind=kind, rounding=rounding, bits=bits)


def add_precision(parser: argparse.ArgumentParser) -> None:
    """Add options of machines with the format fast."""
    group = parser.add_argument_group("precision", "for machines with the format fast")
    group.add_argument(
        "--precision",
        choices=PRECISIONS,
        help="choice of the width of each conversion (default: fast, by the monitor)",
    )
    group.add_argument(
        "--alpha",
        metavar="A",
        type=fraction,
        help=f"first threshold of --precision fast (default: {ALPHA})",
    )
    group.add_argument(
        "--beta",
        metavar="B",
        type=fraction,
        help="decrease of the threshold of --precision fast with steps and with layers "
        f"(default: {BETA})",
    )
    group.add_argument(
        "--switch",
        metavar="STEP",
        type=integer(0, MAX_STEPS),
        help="first step with 4 bits of --precision low-to-high",
    )


def precision_of(config: Config, arguments: argparse.Namespace) -> Precision | None:
    """Return the requested precision; None if no class has a width to choose. BadInput if options
    do not go together, or do not fit the machine."""
    options = {name: getattr(arguments, name) for name in ("alpha", "beta", "switch")}
    values = {name: value for name, value in options.items() if value is not None}
    numerics = config.numerics
    classes = tuple(n for n in CLASS_NAMES if numerics.tensor_class(n).format.planes)
    if not classes:
        for name in (*(["precision"] if arguments.precision else []), *values):
            fast = " ".join(f"--set format.{each}=fast" for each in CLASS_NAMES)
            raise BadInput(f"--{name} needs a machine with the format fast: give {fast}")
        return None
    kind = arguments.precision or "fast"
    for name in values:
        if OPTION_PRECISIONS[name] != kind:
            raise BadInput(
                f"--{name} works only with --precision {OPTION_PRECISIONS[name]}, not with {kind}: "
                f"leave --{name} out"
            )
    if kind == "low-to-high" and "switch" not in values:
        raise BadInput("--precision low-to-high needs --switch STEP, the first step with 4 bits")
    missing = {LOW, HIGH} - set(numerics.widths)
    if missing:
        shown = list(numerics.widths)
        raise BadInput(
            f"fast.widths must contain {LOW} and {HIGH} for training, not {shown}: give --set "
            f"fast.widths=[{LOW},{HIGH}]"
        )
    return Precision(kind=kind, classes=classes, **values)


def _machine_precision(config: Config, arguments: argparse.Namespace) -> Precision | None:
    """Return the requested precision of a program. None for the widest, if the machine cannot
    choose. BadInput as for :func:`precision_of`."""
    named = ("precision", "alpha", "beta", "switch")
    requested = any(getattr(arguments, name) is not None for name in named)
    if not requested and not {LOW, HIGH} <= set(config.numerics.widths):
        return None
    return precision_of(config, arguments)


def program_options(config: Config, arguments: argparse.Namespace) -> ProgramOptions | None:
    """Return the options of the training if a program trains; None if a host trains. Weights and
    gradients have float32. BadInput as for :func:`precision_of`, and for options of other
    machines."""
    task = find_task(arguments.task) if arguments.task in TASK_NAMES else None
    program = train_program.program_of(config, task, arguments)
    return program and replace(program, precision=_machine_precision(config, arguments))


def _rounded(
    config: Config, arguments: argparse.Namespace, program: ProgramOptions
) -> ProgramOptions:
    """Return the options with the requested formats of weights and gradients."""
    if program.accumulate > 1 and _gradient(config, arguments) != "float32":
        raise BadInput(
            "--gradient and --accumulate exclude each other, because a gradient is rounded once"
        )
    master = master_of(arguments, _published_master(config))
    return replace(program, master=master, gradient=_gradient(config, arguments))


def _published_master(config: Config) -> Master:
    """Return the master weights of the published numbers of a configuration, float32 without
    published numbers."""
    if config.numbers is None:
        return FLOAT32
    published = NUMBERS[config.numbers]
    return Master(kind=published.master, rounding=published.master_rounding)


def _gradient(config: Config, arguments: argparse.Namespace) -> str:
    """Return the requested format of weight gradients, by default that of the published numbers of
    a configuration."""
    published = None if config.numbers is None else NUMBERS[config.numbers]
    return arguments.gradient or (published.gradient if published else "float32")


def training_options(config: Config, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the training: ``program`` if the machine does the whole training, else
    arguments of :func:`diastole_sim.train.run_task`.

    `compare` calls the function too, with a task that may be a user's. BadInput as for
    :func:`precision_of`, and for options of other machines.
    """
    program = program_options(config, arguments)
    if program is not None:
        return {"program": _rounded(config, arguments, program)}
    published = None if config.numbers is None else NUMBERS[config.numbers]
    return {
        "precision": precision_of(config, arguments),
        "master": master_of(arguments, _published_master(config)),
        "gradient": _gradient(config, arguments),
        "loss_scaling": scaling.scaling_of(scaling.scale_argument(arguments, published)),
    }


def named_task(name: str, option: str = "--task") -> Task:
    """Return the task of this name, the value of ``option``. BadInput for an unknown name."""
    if name not in TASK_NAMES:
        near = suggestion(name, TASK_NAMES)
        raise BadInput(f"{option} must be one of {', '.join(TASK_NAMES)}, not {name}{near}")
    return find_task(name)


def require_samples(task: Task) -> None:
    """Raise ToolMissing if a task needs an absent package for its samples."""
    if task.needs is not None:
        install.require(*(tool for tool in install.OPTIONAL if tool.package == task.needs))


def execute(arguments: argparse.Namespace) -> int:
    config = read_config(arguments)
    training = network_options.own_training(arguments)
    network_options.check_network_files(arguments)
    own = None if training is None else own_task(training, seed=arguments.seed)
    task = own.task if own is not None else named_task(arguments.task)
    execution = execution_of(arguments)
    options = training_options(config, arguments)
    if own is None:
        require_samples(task)
    check_picture("--picture", arguments.picture)
    state = None if own is not None else train_state.state_of(config, arguments, task, options)
    if state is not None:
        state.load()  # a mistake is found before the hardware is built
    if "program" not in options:
        _refuse_program_options(arguments)
    train_logs.check_logs(arguments)
    if "program" in options:
        keeper = _keeper(config, arguments, task, own, options["program"])
        result = train_program.train_on(
            config,
            replace(task, steps=arguments.steps or task.steps),
            options["program"],
            execution,
            verify=arguments.verify,
            keeper=keeper,
            memory_kib=arguments.memory_kib,
        )
    else:
        with train_state.resumable(state):
            result = train(execution, config, arguments, task, options | {"keeper": state})
    if arguments.picture is not None:
        kind = arguments.picture.suffix[1:].lower()
        atomic.replace(arguments.picture, lambda file: write_picture(result, file, kind))
    if arguments.json:
        print_json(result.to_json() | costs_of(config, result))
    else:
        say("\n".join([describe(result), *cost_lines(costs_of(config, result))]))
        say_next(
            "--set format.x=... --set format.w=... --set format.dy=... trains in other formats"
        )
    return judge(result, arguments.min_accuracy)


def _refuse_program_options(arguments: argparse.Namespace) -> None:
    """Raise BadInput for options that a training by a host lacks."""
    for option, name in (
        ("--memory", "memory_kib"),
        ("--log", "log"),
        ("--tensorboard", "tensorboard"),
        *((f"--{name}", name) for name in network_options.FILES),
    ):
        if getattr(arguments, name):
            raise BadInput(
                f"{option} does not work where a host trains, as for --task text: leave {option} "
                "out"
            )


def _keeper(
    config: Config,
    arguments: argparse.Namespace,
    task: Task,
    own: OwnTask | None,
    options: ProgramOptions,
) -> Keeper | None:
    """Return the keeper of a training's state and log, None without files."""
    keeper = None
    if any(getattr(arguments, name) for name in network_options.FILES):
        kept = own or _with_graph(arguments, task, options)
        keeper = _checkpoint(config, arguments, kept, options)
    journals = train_logs.journals_of(arguments)
    if not journals:
        return keeper
    steps = arguments.steps or task.steps
    rate = options.rates().rate(options.first_rate(task), steps)
    return TrainingLog(journals=journals, rate=rate, inner=keeper)


def _with_graph(arguments: argparse.Namespace, task: Task, options: ProgramOptions) -> OwnTask:
    """Return a task of Diastole with the graph that learns it."""
    steps = arguments.steps or task.steps
    recipe = options.in_float32.recipe(task, steps=steps, seed=arguments.seed).recipe
    return task_with_graph(replace(task, steps=steps), recipe.graph)


def _checkpoint(
    config: Config, arguments: argparse.Namespace, own: OwnTask, options: ProgramOptions
) -> Checkpoint:
    """Return the keeper of a user's network. BadInput if the file is of another training."""
    keeper = Checkpoint(
        path=arguments.save,
        weights=arguments.weights,
        config=config,
        task=own,
        options=options,
        seed=arguments.seed,
        resume=arguments.resume,
    )
    keeper.check()
    return keeper


def train(
    execution: Execution,
    config: Config,
    arguments: argparse.Namespace,
    task: Task,
    options: Mapping[str, Any],
) -> TrainResult:
    """Train on a device, by a host."""
    reference = NumpyDevice(config.numerics, execution.seed) if arguments.verify else None
    with (
        make_device(execution, config) as device,
        progress(f"{task.name} on {execution.backend}") as report,
    ):
        return run_task(
            task,
            device,
            backend=execution.backend,
            steps=arguments.steps,
            seed=execution.seed,
            reference=reference,
            multipliers=config.macs,
            progress=report,
            **options,
        )


def judge(result: TrainResult, min_accuracy: float | None) -> int:
    """Return 0 if all requirements hold, else 1, with a line for every unmet requirement."""
    failures: list[str] = []
    if result.mismatches:
        first = str(result.first_mismatch)
        failures.append(
            f"{result.mismatches} of {result.compared} elements and reported values differ from "
            f"the golden model; {first}"
        )
        failures += [line for line in result.reports_differ if line != first]
    for of, history in (("", result.history), ("float32: ", result.float_history)):
        failures += [of + text for text in not_finite(history)]
    if min_accuracy is not None and not result.accuracy >= min_accuracy:
        failures.append(
            f"the accuracy is {result.accuracy:.4f}, below the required {min_accuracy:g}"
        )
    for failure in failures:
        fail(failure)
    return 1 if failures else 0


def not_finite(history: History) -> list[str]:
    """Return a line about the first step with NaN or Inf in a training, and the place. Empty if all
    was finite."""
    if not history.not_finite:
        return []
    (_, first), *others = history.not_finite.items()
    names = [name for name, _ in others]
    later = f"; from then on or later also {', '.join(names)}" if names else ""
    return [f"{first}{later}"]


def costs_of(config: Config, result: TrainResult) -> dict[str, float | None]:
    """Return costs of a training with widths: the area of the machine's cell per multiplier, the
    area times the passes of the products, and the area of a cell with the most bits. None for an
    area without a measurement. Empty if no width was chosen."""
    if result.mean_passes is None:
        return {}
    wide = replace_formats(config, f"bfp{config.fast.widths[-1]}")
    areas = {"area_per_mac_nand2": cell_area(config.numerics), "wide_area_nand2": cell_area(wide)}
    area = areas["area_per_mac_nand2"]
    return areas | {"area_passes": None if area is None else area * result.mean_passes}


def replace_formats(config: Config, name: str) -> Numerics:
    """Return the numerics of a machine whose classes all have the named format, with equal
    groups."""
    values = config.numerics.to_dict()
    classes = {each: values[each] | {"format": name} for each in CLASS_NAMES}
    return Numerics.from_dict({k: v for k, v in values.items() if k != "widths"} | classes)


def cost_lines(costs: Mapping[str, float | None]) -> list[str]:
    """Return a line for people if the areas are known."""
    passes, wide = costs.get("area_passes"), costs.get("wide_area_nand2")
    if passes is None or wide is None:
        return []
    widest = f"a cell for the widest has {wide:.0f}"
    return [f"area x passes {passes:.0f} NAND2 per multiplier; {widest}"]


def scale_line(result: TrainResult) -> str:
    """Return a line about the scale of the loss."""
    skipped = result.skipped_steps
    counted = "" if skipped is None else f"; {skipped} steps overflowed and were skipped"
    steps = ", ".join(f"2^{low} from step {step} on" for step, low in result.loss_scale_floor)
    floors = f", at least {steps}" if steps else ""
    ends = f"2^{result.last_loss_scale} at the end"
    return f"loss times 2^{result.loss_scale} at first, {ends}{floors}{counted}"


def _accuracies(result: TrainResult) -> str:
    """Return the accuracies as text, nothing for a network that learns numbers."""
    if math.isnan(result.accuracy):
        return ""
    return f"accuracy {result.accuracy:.2%} (float32: {result.float_accuracy:.2%}), "


def describe(result: TrainResult) -> str:
    """Return a few lines for people."""
    lines = [
        (
            f"{result.task} on {result.backend}: {result.steps} steps in {result.seconds:.1f} s, "
            f"seed {result.seed}"
        ),
        f"held-out {_accuracies(result)}loss {result.loss:.4f} (float32: {result.float_loss:.4f})",
        f"weights {result.weights_sha256}",
    ]
    if isinstance(result, ProgramResult):
        lines += train_program.result_lines(result)
    else:
        lines.append("trained by a host; conversions and products on the machine")
    if result.loss_scale is not None:
        lines.append(scale_line(result))
    if result.master_rounding is not None:
        drawn = "" if result.master_bits is None else f" with {result.master_bits} random bits"
        lines.append(f"master weights in {result.master}, {result.master_rounding}{drawn}")
    if result.gradient != "float32":
        lines.append(f"weight gradients in {result.gradient}, {gradient.RULE}")
    if result.mean_passes is not None and result.pass_shares is not None:
        shares = ", ".join(f"{part:.0%} of {n}" for n, part in result.pass_shares.items())
        lines.append(
            f"precision {result.precision}: {result.mean_passes:.2f} passes by MACs "
            f"(products: {shares} passes)"
        )
    whole = isinstance(result, ProgramResult) and not result.hosted
    if result.cycles is not None and not whole:
        lines.append(
            f"{result.cycles} cycles of products, utilisation {result.utilisation:.1%}; "
            f"{result.total_cycles} with conversions"
        )
    if result.underflowed or result.saturated:
        lines.append(
            f"of {result.converted} elements {result.underflowed} became zeros when converted, "
            f"{result.saturated} saturated"
        )
    if result.verified:
        lines.append(
            f"{result.compared} elements and reported values equal to the golden model, bit for bit"
        )
    return "\n".join(lines)
