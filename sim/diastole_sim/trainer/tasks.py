"""Turn tasks, which a host can also train, into recipes and programs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device.interface import Floats
from diastole_sim.graph.build import with_batch
from diastole_sim.graph.operations.operation import OperationUse
from diastole_sim.graph.perceptron import perceptron_graph
from diastole_sim.lowering.fitting import fitting_program
from diastole_sim.lowering.recipe import ParameterGroup, TrainingRecipe
from diastole_sim.lowering.samples import StoredSamples
from diastole_sim.program.chains.activations import Activation
from diastole_sim.program.program import TrainingProgram
from diastole_sim.program.recipe import Optimiser, Sgd, falling
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.numerics import Numerics
from diastole_sim.train import host
from diastole_sim.train.job import batch_rows
from diastole_sim.train.loss_scaling import LossScaling
from diastole_sim.train.master import FLOAT32, Master
from diastole_sim.train.precision import Precision
from diastole_sim.train.samples import Samples
from diastole_sim.train.tasks import HIDDEN, Task

BYTE_SCALES = {"digits": 1 / 16}
"""Value of a byte by name of the task, for tasks with samples in bytes."""


class AccumulateError(ValueError):
    """Report a number of microbatches that does not divide the samples of a step."""


@dataclass(frozen=True, kw_only=True)
class TaskRecipe:
    """Task with a recipe. ``training``, ``held_out``: samples. A step takes the training samples
    that the recipe names. Evaluations use the held-out samples."""

    task: Task
    recipe: TrainingRecipe
    training: Samples
    held_out: Samples

    def measures(self, result: Floats) -> tuple[float, float]:
        """Return loss and accuracy of the network's result for the held-out samples. The accuracy
        is NaN if the targets are numbers."""
        return measures(self.recipe, result, self.held_out.labels)


@dataclass(frozen=True, kw_only=True)
class TaskProgram(TaskRecipe):
    """Recipe of a task with the program. ``numerics``, ``limits``: parameters of the machine."""

    numerics: Numerics
    limits: Limits
    program: TrainingProgram


def measures(
    recipe: TrainingRecipe, result: Floats, targets: NDArray[np.generic]
) -> tuple[float, float]:
    """Return loss and accuracy of a network's result, in float32. The accuracy is NaN if the
    targets are numbers."""
    loss = recipe.loss
    if loss.labels:
        labels = targets.astype(np.int64)
        return float(host.softmax_cross_entropy(result, labels)[0]), host.accuracy(result, labels)
    use = OperationUse(attributes=recipe.loss_node.attributes, tag=0, draws=None)
    value, _ = loss.value([result, targets.astype(np.float32).reshape(result.shape)], use)
    return float(value), math.nan


def task_recipe(
    task: Task,
    *,
    steps: int | None = None,
    seed: int = 0,
    hidden: tuple[int, ...] = (HIDDEN,),
    activation: str | Activation = "relu",
    optimiser: Optimiser | None = None,
    groups: Sequence[ParameterGroup] = (),
    clip: float | None = None,
    accumulate: int = 1,
    loss_scaling: LossScaling | None = None,
    precision: Precision | None = None,
    master: Master = FLOAT32,
    gradient: str = "float32",
) -> TaskRecipe:
    """Return the recipe of a task of features and labels for a perceptron, or of a task with a
    graph.

    Split, order of samples and initial weights equal those of
    :func:`diastole_sim.train.job.run_task` with the same ``seed``. Without ``optimiser``, learning
    rate and momentum are equal too.

    - ``hidden``: units of hidden layers, without a graph.
    - ``activation``: name of an operation, or texts of a user, without a graph.
    - ``accumulate``: number of microbatches of a step. ValueError unless the microbatches have
      equal sizes.
    - ``groups``, ``clip``, ``loss_scaling``, ``precision``, ``master``, ``gradient``: as in
      :class:`TrainingRecipe`.
    """
    count = task.steps if steps is None else steps
    training, held_out = task.split(task.load(), seed=seed)
    rows = batch_rows(len(training.labels), task.batch, seed=seed)
    own = Sgd(rate=falling(task.rate, count), momentum=task.momentum)
    graph = task.graph
    if graph is None:
        classes = int(max(training.labels.max(), held_out.labels.max())) + 1
        widths = training.inputs.shape[1], *hidden, classes
        graph = perceptron_graph(widths, batch=task.batch, activation=activation)
    if accumulate > 1:
        graph = with_batch(graph, microbatch_size(task.batch, accumulate))
    recipe = TrainingRecipe(
        graph=graph,
        optimiser=own if optimiser is None else optimiser,
        groups=groups,
        batches=np.array(list(islice(rows, count))),
        clip=clip,
        loss_scaling=loss_scaling,
        precision=precision,
        master=master,
        gradient=gradient,
        seed=seed,
        first=task.first,
    )
    return TaskRecipe(task=task, recipe=recipe, training=training, held_out=held_out)


def microbatch_size(batch: int, accumulate: int) -> int:
    """Return the samples of a microbatch. AccumulateError if microbatches would differ in size."""
    if batch % accumulate:
        counts = [count for count in range(1, batch + 1) if batch % count == 0]
        near = [*[n for n in counts if n < accumulate][-1:], *[n for n in counts if n > accumulate]]
        raise AccumulateError(
            f"accumulate must divide the {batch} samples of a step, as "
            f"{' and '.join(map(str, near[:2]))}, not {accumulate}"
        )
    return batch // accumulate


def task_program(
    task: Task,
    *,
    numerics: Numerics,
    limits: Limits,
    memory_bytes: int | None = None,
    **how: Any,
) -> TaskProgram:
    """Return the program of a task for a machine with these numerics and limits. ``memory_bytes``:
    memory, as for :func:`diastole_sim.lowering.fitting.fitting_program`. ``how``: arguments of
    :func:`task_recipe`.

    The numbers equal the numbers of :func:`diastole_sim.train.job.run_task` with the same ``seed``,
    apart from the roundings of functions and sums.
    """
    made = task_recipe(task, **how)
    scale = BYTE_SCALES.get(task.name)
    stored = StoredSamples.of(made.training, scale), StoredSamples.of(made.held_out, scale)
    program = fitting_program(
        made.recipe, *stored, numerics=numerics, limits=limits, memory_bytes=memory_bytes
    )
    return TaskProgram(**vars(made), numerics=numerics, limits=limits, program=program)
