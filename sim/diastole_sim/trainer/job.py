"""Run the training job of a machine that does whole steps: run a task's program and collect the
results."""

import hashlib
import math
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

from diastole_sim.golden.compare import GoldenComparison
from diastole_sim.golden.golden_machine import ALL_CYCLES, PRODUCT_CYCLES
from diastole_sim.program.not_finite import first_not_finite
from diastole_sim.program.run import MachineStoppedError, ProgramRun, golden_machine
from diastole_sim.program.step_widths import widths_of
from diastole_sim.program.verified_run import CommandCost, VerifiedRun
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import CHAINED, PRODUCTS, Opcode
from diastole_sim.spec.registers import WAIT_REGISTERS
from diastole_sim.train.history import HELD_OUT_LOGITS, HELD_OUT_LOSS, MINIBATCH_LOSS, History
from diastole_sim.train.job import Progress, TrainResult
from diastole_sim.train.master import FLOAT32, Master
from diastole_sim.train.precision import Widths
from diastole_sim.trainer.float_run import FloatRun
from diastole_sim.trainer.options import GroupOptions, ProgramOptions
from diastole_sim.trainer.tasks import TaskProgram, TaskRecipe


@dataclass(frozen=True, kw_only=True)
class ProgramResult(TrainResult):
    """Result of a training by a program: a :class:`TrainResult` with further members.

    ``accuracy`` and ``float_accuracy`` are NaN if the network learns numbers.

    - ``optimizer``, ``rate``, ``hidden``, ``activation``, ``clip``, ``accumulate``, ``schedule``,
      ``warmup``, ``step_size``, ``gamma``: options as in
      :class:`diastole_sim.trainer.options.ProgramOptions`.
    - ``momentum``, ``betas``, ``weight_decay``, ``trust``: options of the optimiser, None if the
      optimiser lacks the option.
    - ``groups``: options of groups of parameters.
    - ``optimizer_sha256``, ``activation_sha256``: SHA-256 of the user's file with the optimiser or
      the activation.
    - ``cycles_total``: cycles of all training steps.
    - ``waits``: waiting cycles of the training by cause. ``busy_slots``: all remaining cycles of
      the training.
    - ``steps_in_memory``: steps whose training samples are in memory at the same time, None if
      memory has all samples.
    - ``memory_bytes``: memory of the whole program: samples, tables, parameters, tensors, commands.
    - ``commands``: costs of every command of the training, for a verified run with a clock.

    ``cycles_total``, ``waits`` and ``busy_slots`` are None without a clock, and with a host.
    ``cycles`` and ``total_cycles`` are None without a clock. They include evaluations. With a host,
    ``cycles`` are those of products, and ``total_cycles`` those of products and conversions.
    ``inexact_products`` is None, since no machine counts inexact products.
    """

    optimizer: str
    optimizer_sha256: str | None
    rate: float
    momentum: float | None
    betas: tuple[float, float] | None
    weight_decay: float | None
    trust: float | None
    groups: tuple[GroupOptions, ...]
    hidden: tuple[int, ...]
    activation: str | None
    activation_sha256: str | None
    clip: float | None
    accumulate: int
    schedule: str
    warmup: int
    step_size: int | None
    gamma: float | None
    cycles_total: int | None
    busy_slots: int | None
    waits: dict[str, int] | None
    steps_in_memory: int | None
    memory_bytes: int
    commands: list[CommandCost] | None

    def to_json(self) -> dict[str, Any]:
        """Return everything except the curves as plain values."""
        values = super().to_json()
        if self.commands is not None:
            values["commands"] = [each.to_json() for each in self.commands]
        betas = None if self.betas is None else list(self.betas)
        groups = [asdict(group) for group in self.groups]
        return values | {"hidden": list(self.hidden), "betas": betas, "groups": groups}


@dataclass(kw_only=True)
class Learnt:
    """Curves, number of evaluations and wall time of a run."""

    history: History = field(default_factory=History)
    evaluations: int = 0
    seconds: float = 0.0


class Keeper(Protocol):
    """Keeper of the state of a training."""

    def begin(self, run: ProgramRun) -> Learnt:
        """Restore a kept state, if any, and return what was learnt before."""
        ...

    def keep(self, run: ProgramRun, learnt: Learnt) -> None:
        """Keep the state, after the last step or an evaluation."""
        ...


def run_program(
    run: ProgramRun,
    made: TaskProgram,
    options: ProgramOptions,
    *,
    backend: str,
    seed: int,
    multipliers: int | None = None,
    progress: Progress | None = None,
    float_run: bool = True,
    hosted: bool = False,
    keeper: Keeper | None = None,
) -> ProgramResult:
    """Train to the last step of ``made``, and evaluate the held-out samples as often as the task
    says. The host starts the machine once for each stretch of steps between two evaluations.

    ``keeper`` restores a kept state first, and keeps the state after each stretch. ``progress`` is
    called after each stretch. ``backend``, ``seed``, ``multipliers``, ``progress``
    and ``float_run`` are arguments of :func:`diastole_sim.train.job.run_task`.
    :class:`diastole_sim.program.run.MachineStoppedError` if the machine stops, for example because
    the loss is not finite.
    """
    learnt = _train(run, made, seed, progress, keeper)
    float_history = train_in_float32(made)[1] if float_run else History()
    _, float_loss, float_accuracy = (float_history.held_out or [(0, math.nan, math.nan)])[-1]
    _, loss, accuracy = learnt.history.held_out[-1]
    products, macs = _work(made, learnt.evaluations)
    every = run.training + run.evaluating
    cycles = every.get("cycles_total", every.get(PRODUCT_CYCLES))
    comparison = run.comparison if isinstance(run, VerifiedRun) else GoldenComparison()
    available = (cycles or 0) * (multipliers or 0)
    precision, widths = options.precision, _widths(run, made, options)
    return ProgramResult(
        task=made.task.name,
        backend=backend,
        steps=made.program.steps,
        seed=seed,
        loss=loss,
        accuracy=accuracy,
        float_loss=float_loss,
        float_accuracy=float_accuracy,
        cycles=cycles,
        total_cycles=every.get(ALL_CYCLES, cycles),
        macs=macs,
        utilisation=macs / available if available else None,
        weights_sha256=weights_sha256(run, options.master),
        verified=isinstance(run, VerifiedRun) and comparison.mismatches == 0,
        mismatches=comparison.mismatches,
        compared=comparison.compared,
        seconds=learnt.seconds,
        products=products,
        inexact_products=None,
        converted=_converted(made, learnt.evaluations),
        saturated=run.reported["saturated"],
        underflowed=run.reported["underflowed"],
        master=options.master.kind,
        master_rounding=options.master.rounding,
        master_bits=options.master.bits,
        gradient=options.gradient,
        last_loss_scale=run.machine.loss.exponent if made.recipe.loss_scaling else None,
        skipped_steps=None,
        precision=precision and precision.kind,
        mean_passes=widths and widths.mean_passes,
        pass_shares=widths and widths.shares,
        widths=widths and widths.log(),
        first_mismatch=comparison.first,
        reports_differ=comparison.reports_differ,
        history=learnt.history,
        float_history=float_history,
        hosted=hosted,
        cycles_total=run.training.get("cycles_total"),
        busy_slots=run.training.get("busy_slots"),
        waits=_waits(run.training),
        steps_in_memory=made.program.sent and made.program.sent.steps,
        memory_bytes=made.program.memory_bytes,
        commands=_costs(run),
        **options.description(made.task),
    )


def weights_sha256(run: ProgramRun | FloatRun, master: Master = FLOAT32) -> str:
    """Return the SHA-256 of the weights, then the bias, of every layer in order. The bytes are the
    parameters of the run in the format ``master``, as the host reads them from the machine's
    memory."""
    digest = hashlib.sha256()
    for values in run.parameters().values():
        digest.update(master.to_bytes(values))
    return digest.hexdigest()


def _train(
    run: ProgramRun,
    made: TaskProgram,
    seed: int,
    progress: Progress | None,
    keeper: Keeper | None,
) -> Learnt:
    learnt = Learnt() if keeper is None else keeper.begin(run)
    history, steps = learnt.history, made.program.steps
    started = time.monotonic() - learnt.seconds
    while run.done < steps:
        before = run.done
        try:
            run.train(min(made.task.evaluate_every, steps - before))
        except MachineStoppedError as stopped:
            if stopped.code == ErrorCode.NOT_FINITE:
                stopped.not_finite = _first(run, made, stopped.step + 1, seed)
            raise
        learnt.evaluations += 1
        with np.errstate(all="ignore"):  # a faulty machine may return any number
            z = run.evaluate()
            metrics = made.measures(z)
        history.held_out.append((run.done, *metrics))
        if not history.not_finite:
            _note_evaluation(history, run, before, made, seed)
        history.look_at(HELD_OUT_LOGITS, z, f"step {run.done - 1}")
        history.look_at(HELD_OUT_LOSS, metrics[0], f"step {run.done - 1}")
        learnt.seconds = time.monotonic() - started
        if keeper is not None and not history.not_finite:
            keeper.keep(run, learnt)
        if progress is not None:
            progress(run.done, steps, float(run.losses()[-1]))
    history.losses.extend(map(float, run.losses()))
    for step, each in enumerate(history.losses):  # a correct machine has stopped
        history.look_at(MINIBATCH_LOSS, each, f"step {step}")
    learnt.seconds = time.monotonic() - started
    return learnt


def _first(run: ProgramRun, made: TaskProgram, steps: int, seed: int) -> str | None:
    """Return a text about the first tensor with a NaN or an Inf on a machine that stopped. If the
    golden machine finds no NaN or Inf, because the machine differs from the golden machine, the
    text is about the first parameter that is not finite."""
    golden = golden_machine(made.program, made.numerics, made.limits, seed=seed)
    first = first_not_finite(made.program, golden, steps)
    if first is not None:
        return first
    history = History()
    _note(history, run, f"step {steps - 1}")
    return next(iter(history.not_finite.values()), None)


def _note_evaluation(
    history: History, run: ProgramRun, before: int, made: TaskProgram, seed: int
) -> None:
    """Note which parameters are not finite after a stretch of steps. A golden machine repeats the
    stretch step by step to find the step in which a parameter became NaN or Inf."""
    if all(np.isfinite(values).all() for values in run.parameters().values()):
        return
    golden = golden_machine(made.program, made.numerics, made.limits, seed=seed)
    again = ProgramRun(program=made.program, machine=golden)
    with suppress(MachineStoppedError):
        while again.done < run.done:
            again.train(1)
            _note(history, again, f"step {again.done - 1}")
    _note(history, run, f"steps {before} to {run.done - 1}")


def _note(history: History, run: ProgramRun, steps: str) -> None:
    for name, values in run.parameters().items():
        history.look_at(name, values, steps)


def train_in_float32(made: TaskRecipe) -> tuple[FloatRun, History]:
    """Train the same network without quantisation, by the same recipe and on the same samples.
    Return the run and the curves."""
    history, run, steps = History(), FloatRun(made.recipe, made.training), made.recipe.steps
    with np.errstate(all="ignore"):
        for step in range(steps):
            history.losses.append(run.step(step))
            history.look_at(MINIBATCH_LOSS, history.losses[-1], f"step {step}")
            for name, values in run.parameters().items():
                history.look_at(name, values, f"step {step}")
            done = step + 1
            if done % made.task.evaluate_every == 0 or done == steps:
                metrics = made.measures(run.result(made.held_out))
                history.held_out.append((done, *metrics))
                history.look_at(HELD_OUT_LOSS, metrics[0], f"step {step}")
    return run, history


def _work(made: TaskProgram, evaluations: int) -> tuple[int, int]:
    """Return the number of products, and of MACs without padding, of a training with
    ``evaluations`` evaluations."""
    program, evaluations = made.program, evaluations * _parts(made)
    step = _products(_step_of(made))
    evaluation = _products(program.evaluation)
    products, macs = (
        program.steps * of_step + evaluations * of_evaluation
        for of_step, of_evaluation in zip(step, evaluation, strict=True)
    )
    return products, macs


def _parts(made: TaskProgram) -> int:
    """Return the number of runs of an evaluation's commands for all held-out samples."""
    held_out = made.program.held_out
    return 1 if held_out is None else len(held_out.order)


def _step_of(made: TaskProgram) -> tuple[Command, ...]:
    """Return the commands of a step."""
    training = made.program.training
    (end,) = (n for n, each in enumerate(training) if each.opcode == Opcode.NEXT)
    return training[training[end].target : end]


def _widths(run: ProgramRun, made: TaskProgram, options: ProgramOptions) -> Widths | None:
    """Return the widths that the machine chose; None if the machine chooses no widths."""
    if options.precision is None:
        return None
    return widths_of(
        run.widths(),
        _step_of(made),
        options.precision,
        steps=made.program.steps,
        layers=made.recipe.depth,
    )


def _products(commands: Iterable[Command]) -> tuple[int, int]:
    multiplying = {*PRODUCTS, *CHAINED}
    sizes = [each.m * each.n * each.k for each in commands if each.opcode in multiplying]
    return len(sizes), sum(sizes)


def _converted(made: TaskProgram, evaluations: int) -> int:
    """Return the number of converted elements over all copies. Every image is converted once in
    each step, or in each evaluation. Weights are converted once more before the first step, frozen
    weights only then."""
    frozen = {f"{name} image" for name in made.program.frozen}
    first = step = evaluation = 0
    evaluations *= _parts(made)
    for area in made.program.areas.values():
        if area.kind.startswith("image"):
            size = area.shape[0] * area.shape[1]
            first += size * (area.kind == "image w")
            if area.name.startswith("evaluation"):
                evaluation += size
            elif area.name.removesuffix(", second copy") not in frozen:
                step += size
    return first + made.program.steps * step + evaluations * evaluation


def _waits(counters: Counter[str]) -> dict[str, int] | None:
    if "cycles_total" not in counters:
        return None
    return {cause: counters[register] for cause, register in WAIT_REGISTERS.items()}


def _costs(run: ProgramRun) -> list[CommandCost] | None:
    if not isinstance(run, VerifiedRun) or "cycles_total" not in run.training:
        return None
    return [run.costs[number] for number in sorted(run.costs)]
