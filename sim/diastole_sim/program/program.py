"""A whole run as a machine gets it: memory, and commands that need no host."""

from collections.abc import Mapping
from dataclasses import dataclass

from diastole_sim.program.memory_plan import PlannedArea
from diastole_sim.spec.command import Command
from diastole_sim.train.loss_scaling import LossScaling

TRAINING, EVALUATION = "commands of training", "commands of evaluation"
"""Areas of commands."""


@dataclass(frozen=True, kw_only=True)
class TrainingProgram:
    """``training``: commands; a run begins at number 0, and goes on later at ``resume``; it ends
    when the register ``step`` is ``step_end``, at most ``steps``. ``evaluation``: commands that
    make the logits of the held-out samples, at any time between runs.

    ``areas``: by name, all of memory that is used, from address 0 to ``memory_bytes``. ``initial``:
    the bytes of those that the host fills before the first run, commands among them; the rest
    begins as zeros. ``panel``: by name, what chains keep there: its first vector, and the one
    behind its last. After a run ``layer 0 w`` and so on have the weights, ``losses`` one of every
    step; after an evaluation ``logits`` has those.
    """

    training: tuple[Command, ...]
    resume: int
    evaluation: tuple[Command, ...]
    steps: int
    areas: Mapping[str, PlannedArea]
    initial: Mapping[str, bytes]
    panel: Mapping[str, tuple[int, int]]
    memory_bytes: int
    loss_scaling: LossScaling | None = None
