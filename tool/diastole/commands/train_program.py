"""Train on a machine with a vector unit, which does whole steps: options and work."""

import argparse
from collections.abc import Mapping
from contextlib import ExitStack
from math import nan
from typing import Any

from diastole.backend import SIZE_ERRORS, make_machine, program_limits
from diastole.commands.arguments import fraction, integer
from diastole.commands.own import OWN_PAGE, NamesOrOwn, named_or_own
from diastole.commands.progress import progress
from diastole.commands.scaling import scale_argument
from diastole.config.keys import PANELS_KIB, Config
from diastole.config.numbers import NUMBERS
from diastole.errors import BadInput, CheckFailed
from diastole.execution import Execution
from diastole.learning.task import MOMENTUM, RATE
from diastole_sim.lowering.parameters import PanelTooSmallError
from diastole_sim.lowering.recipe import NoParameterError
from diastole_sim.program.chains.activations import ACTIVATIONS
from diastole_sim.program.optimizer_table import (
    BETAS,
    DECOUPLED_DECAY,
    OF_OPTIMIZERS,
    OPTIMIZERS,
    TRUST,
    with_option,
)
from diastole_sim.program.own_code import FORM, OwnCode, OwnCodeError
from diastole_sim.program.own_parts import own_activation, own_optimizer
from diastole_sim.program.packing import peak_of
from diastole_sim.program.program import EVALUATION, TRAINING
from diastole_sim.program.run import MachineStoppedError, ProgramRun, golden_machine
from diastole_sim.program.schedules import GAMMA, LINEAR, SCHEDULES, STEP
from diastole_sim.program.verified_run import VerifiedRun
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.limits import MAX_STEPS
from diastole_sim.spec.require import excerpt, real_number, whole_number
from diastole_sim.train.tasks import HIDDEN, Task
from diastole_sim.trainer.job import Keeper, ProgramResult, run_program
from diastole_sim.trainer.options import (
    MAX_CLIP,
    MAX_DECAY,
    MAX_LAYERS,
    MAX_TRUST,
    MAX_UNITS,
    GroupOptions,
    ProgramOptions,
)
from diastole_sim.trainer.tasks import TaskProgram

MAX_RATE = 1000.0
KIB, MAX_MEMORY_KIB = 1024, 1 << 30
SHOWN_AREAS = 3
"""Number of areas that a message about memory names."""
OPTIONS = (
    "optimizer", "rate", *OF_OPTIMIZERS, "groups", "hidden", "activation", "clip", "schedule",
    "warmup", "step_size", "gamma",
)  # fmt: skip
HOST_OPTIONS = {
    "master": "keeps the weights in float32",
    "master_rounding": "keeps the weights in float32",
    "master_bits": "keeps the weights in float32",
    "gradient": "keeps the gradients of weights in float32",
    "switch": "changes no width at a step",
}
"""Options for a host that trains, with the behaviour of a machine with a vector unit instead."""


class NoVectorUnit(BadInput):
    """An option asks for whole steps, and the machine has no vector unit."""


def rate(text: str) -> float:
    """Parse a learning rate, as a type for argparse."""
    value = _number(text)
    if not 0 < value <= MAX_RATE:
        raise argparse.ArgumentTypeError(
            f"must be a number above 0 and at most {MAX_RATE:g}, not {excerpt(text)}"
        )
    return value


def norm(text: str) -> float:
    """Parse the largest norm of all gradients together, as a type for argparse."""
    value = _number(text)
    if not 0 < value <= MAX_CLIP:
        raise argparse.ArgumentTypeError(
            f"must be a number above 0 and at most {MAX_CLIP:g}, not {excerpt(text)}"
        )
    return value


def weight_decay(text: str) -> float:
    """Parse a weight decay, as a type for argparse."""
    value = _number(text)
    if not 0 <= value <= MAX_DECAY:
        raise argparse.ArgumentTypeError(
            f"must be a number from 0 to {MAX_DECAY:g}, not {excerpt(text)}"
        )
    return value


def trust(text: str) -> float:
    """Parse the factor of the trust ratio, as a type for argparse."""
    value = _number(text)
    if not 0 < value <= MAX_TRUST:
        raise argparse.ArgumentTypeError(
            f"must be a number above 0 and at most {MAX_TRUST:g}, not {excerpt(text)}"
        )
    return value


def momentum(text: str) -> float:
    """Parse a momentum, as a type for argparse."""
    value = _number(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(
            f"must be a number of at least 0 and below 1, not {excerpt(text)}"
        )
    return value


def betas(text: str) -> tuple[float, float]:
    """Parse the factors of Adam's two means, as a type for argparse."""
    values = tuple(_number(word.strip()) for word in text.split(","))
    if len(values) != 2 or not all(0 <= each < 1 for each in values):
        raise argparse.ArgumentTypeError(
            f"must be two numbers of at least 0 and below 1, such as 0.9,0.999, not {excerpt(text)}"
        )
    return values


GROUP_OPTIONS = {"rate": rate, "weight-decay": weight_decay}
"""Options of a group of parameters, with the function that parses a value."""


def _number(text: str) -> float:
    """Return the number of a text; NaN for a text that is no number."""
    value = real_number(text)
    return nan if value is None else value


def parameter_group(text: str) -> GroupOptions:
    """Parse options of a group of parameters, as a type for argparse."""
    pattern, colon, rest = text.rpartition(":")
    words = [word.strip() for word in rest.split(",")]
    values: dict[str, float] = {}
    for name, equals, value in (word.partition("=") for word in words):
        parse = GROUP_OPTIONS.get(name.strip())
        if not pattern or not colon or not equals or parse is None or name in values:
            raise argparse.ArgumentTypeError(
                f"must be PATTERN:NAME=VALUE,NAME=VALUE with the names {', '.join(GROUP_OPTIONS)}, "
                f"such as *.bias:weight-decay=0, not {excerpt(text)}"
            )
        try:
            values[name.strip().replace("-", "_")] = parse(value.strip())
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(f"{name.strip()} of {pattern} {error}") from None
    return GroupOptions(pattern=pattern, **values)


def hidden(text: str) -> tuple[int, ...]:
    """Parse the units of hidden layers, as a type for argparse."""
    words = [word.strip() for word in text.split(",")]
    units = tuple(n for word in words if (n := whole_number(word)) is not None)
    if len(words) > MAX_LAYERS:
        raise argparse.ArgumentTypeError(f"must have at most {MAX_LAYERS} layers, not {len(words)}")
    whole = len(units) == len(words)
    if not whole or not all(1 <= each <= MAX_UNITS for each in units):
        raise argparse.ArgumentTypeError(
            f"must be 1 to {MAX_LAYERS} integers in 1..{MAX_UNITS}, such as 64,64, "
            f"not {excerpt(text)}"
        )
    return units


def add_program(
    parser: argparse.ArgumentParser,
    where: str = "for perceptrons such as digits, on machines with vector.enable = true",
) -> None:
    """Add options of machines that do whole steps. ``where`` names the machines, for people."""
    group = parser.add_argument_group("layers", where)
    group.add_argument(
        "--hidden",
        metavar="A,B,...",
        type=hidden,
        help=f"units of each hidden layer, of at most {MAX_LAYERS} (default: {HIDDEN})",
    )
    group.add_argument(
        "--activation",
        metavar=f"NAME|{FORM}",
        type=named_or_own(ACTIVATIONS, own_activation),
        choices=NamesOrOwn(ACTIVATIONS),
        help=f"function between two layers: {', '.join(ACTIVATIONS)} (default: relu), or your "
        f"own: an Activation, or a function that returns an Activation ({OWN_PAGE})",
    )
    _add_optimizer(parser)


def add_memory(parser: argparse.ArgumentParser) -> None:
    """Add the limit of a program's memory."""
    parser.add_argument(
        "--memory",
        dest="memory_kib",
        metavar="KIB",
        type=integer(1, MAX_MEMORY_KIB),
        help="refuse a program that needs more memory than KIB, for whole steps on the machine",
    )


def _add_optimizer(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("optimiser", "for whole steps on the machine")
    group.add_argument(
        "--optimizer",
        metavar=f"NAME|{FORM}",
        type=named_or_own(OPTIMIZERS, own_optimizer),
        choices=NamesOrOwn(OPTIMIZERS),
        help=f"update of the weights: {', '.join(OPTIMIZERS)} (default: sgd, with the momentum "
        "of --momentum; nesterov: with the momentum of Nesterov), or your own: a class that "
        "is called with rate=, and has chain(options), constants() and of_step(step) "
        f"({OWN_PAGE})",
    )
    rates = {name: choice.defaults.get("rate") for name, choice in OPTIMIZERS.items()}
    defaults = ", ".join(f"{each:g} for {name}" for name, each in rates.items() if each is not None)
    group.add_argument(
        "--rate",
        metavar="R",
        type=rate,
        help=f"learning rate of step 0 (default: {defaults} and for your own optimiser, the rate "
        f"of the task for sgd and nesterov, {RATE:g} with --graph)",
    )
    group.add_argument(
        "--schedule",
        choices=SCHEDULES,
        help="learning rate of later steps: linear and cosine fall to 0 at the end, constant "
        f"stays, step is multiplied by --gamma every --step-size steps (default: {LINEAR})",
    )
    group.add_argument(
        "--warmup",
        metavar="N",
        type=integer(0, MAX_STEPS),
        help="first steps in which the learning rate rises linearly (default: 0)",
    )
    group.add_argument(
        "--step-size",
        metavar="N",
        type=integer(1, MAX_STEPS),
        help="steps between two changes of --schedule step",
    )
    group.add_argument(
        "--gamma",
        metavar="G",
        type=fraction,
        help=f"factor of --schedule step, from 0 to 1 (default: {GAMMA:g})",
    )
    group.add_argument(
        "--clip",
        metavar="N",
        type=norm,
        help="largest norm of all gradients together; larger gradients are scaled down "
        "(default: off)",
    )
    group.add_argument(
        "--momentum",
        metavar="M",
        type=momentum,
        help="momentum of sgd, nesterov, rmsprop, and of your own optimiser if the class has a "
        "parameter of this name, as for the next two options (default: 0 for rmsprop, "
        f"else the momentum of the task, {MOMENTUM:g} with --graph)",
    )
    group.add_argument(
        "--betas",
        metavar="A,B",
        type=betas,
        help=f"factors of the two means of adam and adamw (default: {BETAS[0]:g},{BETAS[1]:g})",
    )
    group.add_argument(
        "--weight-decay",
        metavar="D",
        type=weight_decay,
        help="share of a weight that is added to the gradient; adamw takes the share, times "
        f"the rate, from the weight instead (default: {DECOUPLED_DECAY:g} for adamw, 0 for "
        "all others)",
    )
    group.add_argument(
        "--trust",
        metavar="E",
        type=trust,
        help=f"factor of the trust ratio of lars (default: {TRUST:g})",
    )
    group.add_argument(
        "--group",
        dest="groups",
        metavar="PATTERN:NAME=VALUE,...",
        action="append",
        type=parameter_group,
        help="rate and weight-decay of the parameters whose names match the pattern, such as "
        "'*.bias:weight-decay=0'; repeat the option for further groups. The first match counts",
    )


def option(name: str) -> str:
    """Return the name of an option as typed."""
    return "--group" if name == "groups" else f"--{name.replace('_', '-')}"


def has_other_masters(config: Config) -> bool:
    """Return whether the published numbers of a configuration need weights that only a host
    keeps."""
    return config.numbers is not None and NUMBERS[config.numbers].master != "float32"


def program_of(
    config: Config, task: Task | None, arguments: argparse.Namespace
) -> ProgramOptions | None:
    """Return the requested options of a program; None if a host trains. ``task`` is None for a task
    of a user. BadInput if options do not belong to the machine or the task."""
    values = {name: getattr(arguments, name) for name in OPTIONS}
    values = {name: value for name, value in values.items() if value is not None}
    by_program = task is None or task.classifies
    own = getattr(arguments, "graph", None) is not None
    if own and has_other_masters(config):
        raise BadInput(
            f"--graph keeps the weights in float32, unlike numbers = {config.numbers}: leave "
            "numbers out"
        )
    hosted = not config.vector.enable and not own
    if hosted or not by_program or has_other_masters(config):
        for name in values:
            if task is not None and not by_program:
                raise BadInput(
                    f"{option(name)} works only for perceptrons, such as digits, not for "
                    f"{task.name}: leave {option(name)} out"
                )
            if has_other_masters(config):
                raise BadInput(
                    f"{option(name)} needs whole steps on the machine, with weights in "
                    f"float32, but with numbers = {config.numbers} a host keeps the "
                    f"weights: leave {option(name)} out"
                )
            raise NoVectorUnit(
                f"{option(name)} needs a machine with a vector unit: give --set vector.enable=true"
            )
        return None
    for name, does in HOST_OPTIONS.items():
        if getattr(arguments, name, None) is not None:
            if own:
                raise BadInput(
                    f"{option(name)} does not work with --graph, a program that {does}: leave "
                    f"{option(name)} out"
                )
            raise BadInput(
                f"{option(name)} works only on machines without a vector unit: give --set "
                f"vector.enable=false; with vector.enable = true the machine {does}"
            )
    if "groups" in values:
        values["groups"] = tuple(values["groups"])
    kind = arguments.optimizer or "sgd"
    _check_options_of(kind, values)
    _check_schedule(values)
    if kind == "nesterov" and values.get("momentum") == 0:
        raise BadInput("--momentum of --optimizer nesterov must be above 0, not 0")
    if config.scale.source == "host" and own:
        raise BadInput(
            "scale.source must be current or delayed for --graph, not host: a program has no host "
            "that sets scales"
        )
    if config.scale.source == "host":
        raise BadInput(
            "scale.source must be current or delayed for training with vector.enable = "
            "true, not host: only a host sets scales; give --set vector.enable=false to "
            "train with a host"
        )
    try:
        return ProgramOptions(limits=program_limits(config), **values, **scale_argument(arguments))
    except OwnCodeError as error:
        raise BadInput(str(error)) from error
    except ValueError as error:  # a group asks for an option that the optimiser lacks
        raise BadInput(f"--group: {error}") from error


def _check_schedule(options: Mapping[str, Any]) -> None:
    """Raise BadInput for options of another schedule."""
    kind = options.get("schedule", LINEAR)
    for name in ("step_size", "gamma"):
        if name in options and kind != STEP:
            raise BadInput(
                f"{option(name)} is an option of --schedule {STEP}, not of {kind}: leave "
                f"{option(name)} out"
            )
    if kind == STEP and "step_size" not in options:
        raise BadInput(f"--schedule {STEP} needs --step-size N, the steps between two changes")


def _check_options_of(optimizer: str | OwnCode, options: Mapping[str, Any]) -> None:
    """Raise BadInput for options that an optimiser does not have."""
    own = isinstance(optimizer, OwnCode)
    takes = own_optimizer(optimizer).takes if own else OPTIMIZERS[optimizer].takes
    for name in OF_OPTIMIZERS:
        if name in options and name not in takes:
            optimizers = " and ".join(with_option(name))
            lacks = f", which has no parameter {name}" if own else ""
            raise BadInput(
                f"{option(name)} is an option of --optimizer {optimizers}, not of "
                f"{optimizer}{lacks}: leave {option(name)} out"
            )


def task_program_of(
    config: Config,
    task: Task,
    options: ProgramOptions,
    *,
    seed: int,
    memory_kib: int | None = None,
) -> TaskProgram:
    """Return the program of a task. ``memory_kib``: most memory that the program may need. BadInput
    if the machine or the memory is too small for the program."""
    made = _made_program(config, task, options, seed)
    if memory_kib is not None and made.program.memory_bytes > memory_kib * KIB:
        raise BadInput(_too_large(made, memory_kib))
    return made


def _too_large(made: TaskProgram, memory_kib: int) -> str:
    """Return the message for a program that needs more memory than allowed."""
    program, peak = made.program, peak_of(made.program)
    layer = program.layers[peak.number] if peak.run == TRAINING else None
    place = "the evaluation" if peak.run == EVALUATION else "a step"
    if layer is not None:
        place = f"layer {made.recipe.linears[layer].name}"
    largest = ", ".join(
        f"{area.name} ({area.length / KIB:,.1f} KiB)" for area in peak.areas[:SHOWN_AREAS]
    )
    return (
        f"--memory: the program of {made.task.name} needs {program.memory_bytes / KIB:,.1f} KiB of "
        f"memory, more than {memory_kib}; most is in use in {place}, and the largest are "
        f"{largest}: give more memory, a smaller --batch, or fewer samples"
    )


def _made_program(config: Config, task: Task, options: ProgramOptions, seed: int) -> TaskProgram:
    try:
        return options.program(task, config.numerics, steps=task.steps, seed=seed)
    except NoParameterError as error:
        raise BadInput(f"--group: {error}") from error
    except PanelTooSmallError as error:
        if error.kib > max(PANELS_KIB):
            advice = "make the layers smaller, or leave biases out"
        else:
            advice = f"set vector.panel_kib to at least {error.kib}"
        raise BadInput(
            f"the program of {task.name} needs {error.needed} vectors of the panel, for "
            "the gradients by the biases, but vector.panel_kib = "
            f"{config.vector.panel_kib} gives {error.available} vectors: {advice}"
        ) from error
    except OwnCodeError as error:
        raise BadInput(str(error)) from error
    except ValueError as error:
        raise BadInput(f"{task.name} has no program for this machine: {error}") from error


def train_on(
    config: Config,
    task: Task,
    options: ProgramOptions,
    execution: Execution,
    *,
    verify: bool = False,
    keeper: Keeper | None = None,
    memory_kib: int | None = None,
) -> ProgramResult:
    """Train a task for the task's number of steps. ``keeper`` keeps the state. ``memory_kib``: as
    for :func:`task_program_of`. A failure of the machine is a CheckFailed."""
    seed = execution.seed
    made = task_program_of(config, task, options, seed=seed, memory_kib=memory_kib)
    program = made.program
    with ExitStack() as stack:
        machine = stack.enter_context(make_machine(execution, config, program))
        run = ProgramRun(program=program, machine=machine)
        if verify:
            golden = golden_machine(program, config.numerics, options.limits, seed=seed)
            run = VerifiedRun(program=program, machine=machine, reference=golden)
        report = stack.enter_context(progress(f"{task.name} on {execution.backend}"))
        try:
            return run_program(
                run,
                made,
                options,
                backend=execution.backend,
                seed=seed,
                multipliers=config.macs,
                progress=report,
                keeper=keeper,
            )
        except MachineStoppedError as stopped:
            raise judged(stopped, run) from stopped


def judged(stopped: MachineStoppedError, run: ProgramRun) -> Exception:
    """Return the meaning of a stopped machine for the user, as an error."""
    if stopped.code in SIZE_ERRORS:
        return BadInput(f"the work is too large for the hardware: {stopped}")
    text = str(stopped)
    if stopped.code == ErrorCode.NOT_FINITE:
        opcode = Opcode(run.program.training[stopped.index].opcode).name.lower()
        text = (
            f"step {stopped.step}: the loss is NaN or Inf, and command {stopped.index}, "
            f"{opcode}, stopped the machine"
        )
        if stopped.not_finite is not None:
            text += f"; the first value that is not finite: {stopped.not_finite}"
    if stopped.counters:
        text += "; " + ", ".join(f"{name} {value}" for name, value in stopped.counters.items())
    if isinstance(run, VerifiedRun) and run.comparison.first is not None:
        text += f"; {run.comparison.first}"
    return CheckFailed(text)


def result_lines(result: ProgramResult) -> list[str]:
    """Return lines for people."""
    units = ", ".join(map(str, result.hidden))
    clip = "" if result.clip is None else f", gradients' norm at most {result.clip:g}"
    recipe = f"{_with_hash(result.optimizer, result.optimizer_sha256)}, rate {_rates(result)}"
    if result.momentum:
        recipe += f", momentum {result.momentum:g}"
    if result.betas is not None:
        recipe += f", betas {result.betas[0]:g} and {result.betas[1]:g}"
    if result.weight_decay:
        recipe += f", weight decay {result.weight_decay:g}"
    if result.trust is not None:
        recipe += f", trust {result.trust:g}"
    recipe += "".join(f", {group}" for group in result.groups)
    recipe += clip
    if result.hidden:
        activation = _with_hash(str(result.activation), result.activation_sha256)
        recipe += f", hidden {units}, {activation}"
    lines = [f"{recipe}; whole steps on the machine"]
    if result.cycles_total is not None and result.waits is not None:
        lines.append(
            f"{result.cycles_total} cycles of training, {result.cycles_total // result.steps} a "
            f"step: {_shares(result.waits, result.busy_slots or 0, result.cycles_total)}"
        )
    return lines


def _rates(result: ProgramResult) -> str:
    """Return the learning rates in words."""
    ways = {LINEAR: "falling", STEP: f"in steps of {result.step_size}"}
    warm = f", {result.warmup} steps of warm-up" if result.warmup else ""
    return f"{result.rate:g} {ways.get(result.schedule, result.schedule)}{warm}"


def _with_hash(name: str, sha256: str | None) -> str:
    """Return a name with the first digits of the hash of a user's file, if the name is from a
    file."""
    return name if sha256 is None else f"{name} (SHA-256 {sha256[:12]}...)"


def _shares(waits: Mapping[str, int], busy: int, total: int) -> str:
    """Return the shares of all cycles as text, the largest first."""
    named = {"busy": busy} | {f"waiting for {name}": count for name, count in waits.items()}
    shown = sorted(named.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{count / max(total, 1):.1%} {name}" for name, count in shown if count)
