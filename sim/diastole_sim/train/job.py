"""Run a training job: one task on one device, compared with a second device and with a float
run."""

import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole_sim.golden.compare import Mismatch, ReportMismatch
from diastole_sim.spec.limits import MAX_STEPS
from diastole_sim.spec.require import require_int
from diastole_sim.train import host
from diastole_sim.train.draws import ORDER_TAG, permutation
from diastole_sim.train.float_device import FloatDevice
from diastole_sim.train.history import HELD_OUT_LOSS, MINIBATCH_LOSS, History
from diastole_sim.train.loss_scaling import UNSCALED, Floors, HostScale, LossScaling
from diastole_sim.train.master import FLOAT32, Master
from diastole_sim.train.network import Network
from diastole_sim.train.precision import Precision, Widths
from diastole_sim.train.samples import Samples
from diastole_sim.train.session import Session, Trainer
from diastole_sim.train.state import StateKeeper, TrainingState
from diastole_sim.train.tasks import Task, find_task

Progress = Callable[[int, int, float], None]
"""Callback after every step. The arguments are the steps done, all steps, and the loss of the last
minibatch."""


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """Results of a training run. :meth:`to_json` gives the keys of ``diastole train --json``.

    - ``loss``, ``accuracy``: results on the held-out samples after the last step, by products of
      the device.
    - ``float_loss``, ``float_accuracy``: results of the same network, data and order with binary32
      products, NaN without a float run.
    - ``hosted``: True if the machine converts and multiplies, and a host does the rest.
    - ``cycles``: cycles of all product commands, in training and on held-out samples.
    - ``macs``: MACs of these products, without padding.
    - ``utilisation``: ``macs`` as a fraction of the MACs that the multipliers can do in ``cycles``.
    - ``total_cycles``: cycles of all commands, including conversions. Cycles of commands side by
      side count once.
    - ``verified``: True after a comparison with a reference without a mismatch.
    - ``compared``, ``mismatches``, ``first_mismatch``, ``reports_differ``: elements and reported
      values as :class:`diastole_sim.golden.compare.GoldenComparison` counts them.
    - ``master``: format of the master weights. ``weights_sha256``: SHA-256 of the weights' bytes in
      this format.
    - ``master_rounding``: rounding rule of updates, None without rounding. ``master_bits``: number
      of random bits, None without random bits.
    - ``gradient``: format of weight gradients.
    - ``loss_scale``: exponent of the first scale of the loss, None without loss scaling.
    - ``loss_scale_floor``: pairs of a step and the smallest exponent from the step on.
    - ``last_loss_scale``: exponent after the last step.
    - ``skipped_steps``: number of steps that overflowed, None if not counted.
    - ``precision``: rule for widths with the format ``fast``, else None, like the next three
      members.
    - ``mean_passes``: mean passes of the training products, weighted by MACs.
    - ``pass_shares``: fraction of all products by number of passes.
    - ``widths``: widths of every conversion by tensor, a digit each.
    - ``inexact_products``: inexact products among ``products``.
    - ``saturated``, ``underflowed``: elements among the ``converted`` elements, over all copies.
    - ``seconds``: wall time without the float run.

    ``cycles``, ``utilisation`` and ``total_cycles`` are None without a clock.
    """

    task: str
    backend: str
    steps: int
    seed: int
    loss: float
    accuracy: float
    float_loss: float
    float_accuracy: float
    hosted: bool
    cycles: int | None
    total_cycles: int | None
    macs: int
    utilisation: float | None
    weights_sha256: str
    verified: bool
    mismatches: int
    compared: int
    seconds: float
    products: int
    inexact_products: int | None
    converted: int
    saturated: int
    underflowed: int
    master: str
    master_rounding: str | None
    master_bits: int | None
    gradient: str
    loss_scale: int | None
    loss_scale_floor: Floors
    last_loss_scale: int | None
    skipped_steps: int | None
    precision: str | None
    mean_passes: float | None
    pass_shares: dict[str, float] | None
    widths: dict[str, str] | None
    first_mismatch: Mismatch | ReportMismatch | None
    reports_differ: list[str]
    history: History
    float_history: History

    @property
    def not_finite(self) -> list[str]:
        """Texts about every tensor and loss that held a NaN or an Inf, of the training and then of
        the float run. A result with a text is no success."""
        of_floats = [f"float32: {text}" for text in self.float_history.not_finite.values()]
        return [*self.history.not_finite.values(), *of_floats]

    def to_json(self) -> dict[str, Any]:
        """Return everything except the curves as plain values. Numbers that are not finite are
        None; ``not_finite`` has texts about them."""
        values = {
            name: value
            for name, value in vars(self).items()
            if name not in ("history", "float_history")
        }
        for name in ("loss", "accuracy", "float_loss", "float_accuracy"):
            if not math.isfinite(values[name]):
                values[name] = None
        values["first_mismatch"] = None if self.first_mismatch is None else str(self.first_mismatch)
        floors = [list(each) for each in self.loss_scale_floor]
        values["loss_scale_floor"] = None if self.loss_scale is None else floors
        values["not_finite"] = self.not_finite
        return values


def run_task(
    task: str | Task,
    device: Trainer,
    *,
    backend: str,
    steps: int | None = None,
    seed: int = 0,
    reference: Trainer | None = None,
    master: Master = FLOAT32,
    loss_scaling: LossScaling | None = None,
    gradient: str = "float32",
    precision: Precision | None = None,
    multipliers: int | None = None,
    progress: Progress | None = None,
    float_run: bool = True,
    keeper: StateKeeper | None = None,
) -> TrainResult:
    """Train a task, given by name or as an object, on ``device``.

    - ``backend``: name of the device in the result.
    - ``seed``: seed of initial weights, split and order. Roundings draw random bits from the seed
      of the devices, which must be equal for all devices.
    - ``steps``: 1 to 1 000 000, the task's own number by default.
    - ``reference``: a second device. Every converted operand and every product of every step must
      have the same bits on both devices, and equal reports.
    - ``master``: format of the weights, except in the float run. Roundings of the format draw
      random bits from ``seed``.
    - ``loss_scaling``: scaling of the loss, except in the float run.
    - ``gradient``: format of weight gradients, of :data:`diastole_sim.train.gradient.FORMATS`,
      except in the float run.
    - ``precision``: rule for the widths of classes in the format ``fast``.
    - ``multipliers``: number of multipliers in the array, for the utilisation.
    - ``float_run``: True to train with binary32 products too.
    - ``keeper``: keeps the state after every step. A run continues from the state in the keeper.
      ``compared`` counts this run only. A conversion ahead of a step is repeated and counted again.
      Must be None with chosen widths or delayed scales, which are no part of the state.

    ValueError for an unknown task, a task that a program trains, or an unknown number of steps.
    """
    entry = find_task(task) if isinstance(task, str) else task
    make = entry.network
    if make is None:
        raise ValueError(f"a program trains {entry.name}: no host has a network for the task")
    count = entry.steps if steps is None else require_int("steps", steps, 1, MAX_STEPS)
    require_int("seed", seed, 0, 2**32 - 1)
    training, held_out = entry.split(entry.load(), seed=seed)

    def train(
        session: Session,
        report: Progress | None,
        master: Master,
        scale: HostScale = UNSCALED,
        keeper: StateKeeper | None = None,
    ) -> tuple[Network, History]:
        network = make(training, seed=seed, master=master)
        every = (training, held_out, session, count, seed, report, scale, keeper)
        return network, _train(entry, network, *every)

    widths = None
    if precision is not None:
        layers = make(training, seed=seed).depth
        widths = Widths(precision=precision, steps=count, layers=layers)
    # The run on the device, then the float run.
    session = Session(device, reference, widths)
    started = time.monotonic()
    scale = HostScale(loss_scaling, gradient=gradient, seed=seed)
    network, history = train(session, progress, master, scale, keeper)
    seconds = time.monotonic() - started
    float_history = train(Session(FloatDevice()), None, FLOAT32)[1] if float_run else History()
    _, float_loss, float_accuracy = (float_history.held_out or [(0, math.nan, math.nan)])[-1]
    _, loss, accuracy = history.held_out[-1]
    available = (session.cycles or 0) * (multipliers or 0)
    return TrainResult(
        task=entry.name,
        backend=backend,
        steps=count,
        seed=seed,
        loss=loss,
        accuracy=accuracy,
        float_loss=float_loss,
        float_accuracy=float_accuracy,
        hosted=True,
        cycles=session.cycles,
        total_cycles=session.total_cycles,
        macs=session.macs,
        utilisation=session.macs / available if available else None,
        weights_sha256=network.sha256(),
        verified=reference is not None and session.comparison.mismatches == 0,
        mismatches=session.comparison.mismatches,
        compared=session.comparison.compared,
        seconds=seconds,
        products=session.products,
        inexact_products=session.inexact,
        converted=session.converted,
        saturated=session.saturated,
        underflowed=session.underflowed,
        master=master.kind,
        master_rounding=master.rounding,
        master_bits=master.bits,
        gradient=gradient,
        loss_scale=loss_scaling and loss_scaling.exponent,
        loss_scale_floor=loss_scaling.floors if loss_scaling else (),
        last_loss_scale=scale.state.exponent if loss_scaling else None,
        skipped_steps=scale.skipped if loss_scaling else None,
        precision=precision and precision.kind,
        mean_passes=widths and widths.mean_passes,
        pass_shares=widths and widths.shares,
        widths=widths and widths.log(),
        first_mismatch=session.comparison.first,
        reports_differ=session.comparison.reports_differ,
        history=history,
        float_history=float_history,
    )


def batch_rows(count: int, size: int, *, seed: int) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of the samples of each minibatch, without end. Every epoch has a new order
    of ``count`` samples, without the last incomplete minibatch."""
    epoch = 0
    while True:
        order = permutation(count, seed=seed, tag=ORDER_TAG, step=epoch)
        for start in range(0, count - size + 1, size):
            yield order[start : start + size]
        epoch += 1


def minibatches(samples: Samples, size: int, *, seed: int) -> Iterator[Samples]:
    """Yield the minibatches of :func:`batch_rows`."""
    return map(samples.take, batch_rows(len(samples.labels), size, seed=seed))


def _train(
    task: Task,
    network: Network,
    training: Samples,
    held_out: Samples,
    session: Session,
    steps: int,
    seed: int,
    progress: Progress | None,
    scale: HostScale,
    keeper: StateKeeper | None,
) -> History:
    before = None if keeper is None else keeper.load()
    history = History() if before is None else before.restore(network, session, scale)
    session.watch(history, network.depth)
    first = 0 if before is None else before.steps
    batches = itertools.pairwise(minibatches(training, task.batch, seed=seed))
    batches = itertools.islice(batches, first, None)
    with np.errstate(all="ignore"):  # what a faulty device returns must not stop the comparison
        for step, (batch, following) in zip(range(first, steps), batches, strict=False):
            rate = host.learning_rate(task.rate, step, steps)
            done = step + 1
            scale.begin_step(step)
            session.overflowed = False  # an evaluation may have set the flag
            skipped, noted = scale.skipped, set(history.not_finite)
            loss, accuracy = network.train_step(
                session,
                batch,
                step=step,
                rate=rate,
                momentum=task.momentum,
                following=following if done < steps else None,
                scale=scale,
            )
            if scale.skipped > skipped:  # a skipped step leaves no NaN or Inf
                history.forget_all_but(noted)
            history.losses.append(loss)
            history.accuracies.append(accuracy)
            _look(history, network, loss, f"step {step}")
            if done % task.evaluate_every == 0 or done == steps:
                metrics = network.evaluate(session, held_out, step=step)
                history.held_out.append((done, *metrics))
                history.look_at(HELD_OUT_LOSS, metrics[0], f"step {step}")
            if keeper is not None:
                keeper.keep(TrainingState.of(done, network, session, history, scale))
            if progress is not None:
                progress(done, steps, loss)
    return history


def _look(history: History, network: Network, loss: float, step: str) -> None:
    """Note the results of a step that are not finite, in the order of the step's work."""
    history.look_at(MINIBATCH_LOSS, loss, step)
    for name, parameters in network.parameters_by_name.items():
        for number, parameter in enumerate(parameters):
            history.look_at(f"{name}[{number}]", parameter.value, step)
