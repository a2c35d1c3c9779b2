"""Describe a whole run for a machine: memory contents, and commands that need no host."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from diastole_sim.program.memory_plan import PlannedArea
from diastole_sim.program.roundings import Rounding
from diastole_sim.program.stretches import EvaluationParts, TrainingStretches
from diastole_sim.spec.command import Command
from diastole_sim.train.loss_scaling import LossScaling

TRAINING, EVALUATION = "commands of training", "commands of evaluation"
"""Names of the areas of commands."""
STEP_TABLE, LOSSES, OUTPUT = "constants of steps", "losses of steps", "result of an evaluation"
"""Names of areas: constants of every step, losses of every step, and the network's result for the
held-out samples."""
FLOORS = "floors of the loss scale"
"""Name of the area with the smallest scale of the loss in every step."""


@dataclass(frozen=True, kw_only=True)
class TrainingProgram:
    """Program of a training and of evaluations.

    - ``training``: commands of the training. A run begins at number 0 and later continues at
      ``resume``. The run ends when the register ``step`` equals ``step_end``, at most ``steps``.
    - ``evaluation``: commands that compute the logits of the held-out samples, at any time between
      runs.
    - ``areas``: all used memory by name, from address 0 to ``memory_bytes``.
    - ``initial``: bytes of the areas that the host fills before the first run, including commands.
      All further areas begin as zeros.
    - ``panel``: vectors that chains keep in the panel, by name: the first vector and the vector
      after the last.

    - ``state``: names of the areas that hold the whole state of the training between two runs,
      besides the registers of the loss's scale and the number of steps done.
    - ``parameters``: names of the parameters in the order of the layers. The areas of these names
      have the parameters. A weight is stored as inputs x outputs.
    - ``frozen``: names of the parameters that no update changes.
    - ``layers``: number of the linear layer of every command of the training, None for commands
      that are no products.
    - ``sent``: training samples that the host sends before the steps, None if memory has all.
    - ``held_out``: held-out samples that the host sends in parts, each for a run of the commands of
      the evaluation; None if memory has all.
    - ``roundings``: roundings of tensors when they are stored, by name of the area. Only machines
      without a vector unit run a program with roundings.

    After a run, the area :data:`LOSSES` has the loss of every step. After an evaluation, the area
    :data:`OUTPUT` has the network's result.
    """

    training: tuple[Command, ...]
    resume: int
    evaluation: tuple[Command, ...]
    steps: int
    areas: Mapping[str, PlannedArea]
    initial: Mapping[str, bytes]
    panel: Mapping[str, tuple[int, int]]
    memory_bytes: int
    parameters: tuple[str, ...]
    state: tuple[str, ...]
    frozen: tuple[str, ...] = ()
    loss_scaling: LossScaling | None = None
    layers: tuple[int | None, ...] = ()
    sent: TrainingStretches | None = None
    held_out: EvaluationParts | None = None
    roundings: Mapping[str, Rounding] = field(default_factory=dict[str, Rounding])
