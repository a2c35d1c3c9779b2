"""Train by a program, on a machine with or without a vector unit."""

import argparse
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from diastole.backend import SIZE_ERRORS, make_machine, program_limits
from diastole.commands.progress import progress
from diastole.commands.recipe_options import OPTIONS, option
from diastole.commands.scaling import scale_argument
from diastole.config.keys import PANELS_KIB, Config
from diastole.config.numbers import NUMBERS
from diastole.errors import BadInput, CheckFailed
from diastole.execution import Execution
from diastole_sim.lowering.parameters import PanelTooSmallError
from diastole_sim.lowering.recipe import NoParameterError
from diastole_sim.program.memory_plan import PlannedArea
from diastole_sim.program.optimizer_table import (
    OF_OPTIMIZERS,
    OPTIMIZERS,
    with_option,
)
from diastole_sim.program.own_code import OwnCode, OwnCodeError
from diastole_sim.program.own_parts import own_optimizer
from diastole_sim.program.packing import peak_of
from diastole_sim.program.program import EVALUATION, TRAINING
from diastole_sim.program.run import MachineStoppedError, ProgramRun, golden_machine
from diastole_sim.program.schedules import LINEAR, STEP
from diastole_sim.program.verified_run import VerifiedRun
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import Opcode
from diastole_sim.train.tasks import Task
from diastole_sim.trainer.job import Keeper, ProgramResult, run_program
from diastole_sim.trainer.options import (
    ProgramOptions,
)
from diastole_sim.trainer.tasks import AccumulateError, TaskProgram

KIB = 1024
TABLES = ("commands", "instructions", "descriptors")
"""Beginnings of the names of areas that grow with the commands of a step."""
SHOWN_AREAS = 3
"""Number of areas that a message about memory names."""
UNIT_LACKS = {
    "master": "keeps the weights in float32",
    "master_rounding": "keeps the weights in float32",
    "master_bits": "keeps the weights in float32",
    "gradient": "keeps the gradients of weights in float32",
}
"""Options that a machine with a vector unit lacks, with the behaviour of the machine instead."""


def has_other_masters(config: Config) -> bool:
    """Return whether the published numbers of a configuration need weights that only a host
    keeps."""
    return config.numbers is not None and NUMBERS[config.numbers].master != "float32"


def program_of(
    config: Config, task: Task | None, arguments: argparse.Namespace
) -> ProgramOptions | None:
    """Return the requested options of a program; None for a task that a host trains. ``task`` is
    None for a task of a user. BadInput if options do not belong to the machine or the task."""
    values = {name: getattr(arguments, name) for name in OPTIONS}
    values = {name: value for name, value in values.items() if value is not None}
    if task is not None and not task.classifies:
        for name in values:
            raise BadInput(
                f"{option(name)} works only for perceptrons, such as digits, and for --graph, not "
                f"for {task.name}: leave {option(name)} out"
            )
        return None
    if config.vector.enable and has_other_masters(config):
        raise BadInput(
            f"numbers = {config.numbers} trains only on machines without a vector unit: give --set "
            "vector.enable=false; with vector.enable = true the machine keeps the weights in "
            "float32"
        )
    if getattr(arguments, "state", None) is not None:
        raise BadInput(
            "--state works only for --task text: give --save FILE, and later --save FILE --resume"
        )
    for name, does in UNIT_LACKS.items():
        if config.vector.enable and getattr(arguments, name, None) is not None:
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
    published = None if config.numbers is None else NUMBERS[config.numbers]
    scaling = scale_argument(arguments, published)
    try:
        return ProgramOptions(limits=program_limits(config), **values, **scaling)
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
    whole: bool = False,
) -> TaskProgram:
    """Return the program of a task. ``memory_kib``: most memory that the program may need. Unless
    the program must be ``whole``, with all samples in memory, the host may send samples during the
    training. BadInput if the machine or the memory is too small for the program."""
    memory_bytes = None if whole or memory_kib is None else memory_kib * KIB
    made = _made_program(config, task, options, seed, memory_bytes)
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
    least = "" if program.sent is None else "at least "
    return (
        f"--memory: the program of {made.task.name} needs {least}"
        f"{program.memory_bytes / KIB:,.1f} KiB of memory, more than {memory_kib}; most is in use "
        f"in {place}, and the largest are {largest}: "
        f"{_advice(made, peak.areas[:SHOWN_AREAS])}"
    )


def _advice(made: TaskProgram, largest: Sequence[PlannedArea]) -> str:
    """Return what makes the largest areas of a program smaller."""
    recipe, names = made.recipe, [area.name for area in largest]
    advice = ["give more memory"]
    if any(name.startswith(TABLES) for name in names) and recipe.microbatches > 1:
        advice.append("a smaller --accumulate")
    if any("samples" in name or "targets" in name for name in names):
        advice += ["a smaller --batch"] if made.program.sent else ["fewer samples"]
    if any("of steps" in name for name in names):
        advice.append("fewer steps")
    if any(name.startswith(tuple(recipe.graph.parameters)) for name in names):
        advice.append("smaller layers")
    if len(advice) == 1:
        advice += ["a smaller --batch", "a larger --accumulate"]
    return f"{', '.join(advice[:-1])} or {advice[-1]}"


def _made_program(
    config: Config, task: Task, options: ProgramOptions, seed: int, memory_bytes: int | None
) -> TaskProgram:
    try:
        return options.program(
            task, config.numerics, steps=task.steps, seed=seed, memory_bytes=memory_bytes
        )
    except NoParameterError as error:
        raise BadInput(f"--group: {error}") from error
    except AccumulateError as error:
        raise BadInput(f"--{error}") from error
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
                hosted=not config.vector.enable,
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
    if result.accumulate > 1:
        recipe += f", {result.accumulate} microbatches a step"
    if result.hidden:
        activation = _with_hash(str(result.activation), result.activation_sha256)
        recipe += f", hidden {units}, {activation}"
    where = "conversions and products" if result.hosted else "whole steps"
    lines = [f"{recipe}; {where} on the machine"]
    if result.steps_in_memory is not None:
        lines.append(f"memory holds the training samples of {_steps(result.steps_in_memory)}")
    if result.cycles_total is not None and result.waits is not None:
        lines.append(
            f"{result.cycles_total} cycles of training, {result.cycles_total // result.steps} a "
            f"step: {_shares(result.waits, result.busy_slots or 0, result.cycles_total)}"
        )
    return lines


def _steps(count: int) -> str:
    return "a step" if count == 1 else f"{count} steps"


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
