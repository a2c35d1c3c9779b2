"""A program on the golden machine, as a host runs it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diastole_sim.golden.loss_scale import LossScale
from diastole_sim.golden.machine import GoldenMachine
from diastole_sim.program.memory_plan import PlannedArea
from diastole_sim.program.perceptron_tensors import LOGITS, LOSSES
from diastole_sim.program.program import TrainingProgram
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.numerics import Numerics

Floats = NDArray[np.float32]


class MachineStoppedError(Exception):
    """A run ended with an error of the machine."""


@dataclass(kw_only=True)
class GoldenRun:
    """A program on a machine whose memory holds it. ``done``: steps so far."""

    program: TrainingProgram
    machine: GoldenMachine
    done: int = 0

    @classmethod
    def of(
        cls, program: TrainingProgram, numerics: Numerics, limits: Limits, *, seed: int
    ) -> "GoldenRun":
        """A new machine, before the first step. ``seed``: of all random bits."""
        machine = GoldenMachine(numerics, limits, memory_bytes=program.memory_bytes, seed=seed)
        for name, data in program.initial.items():
            machine.memory.write(program.areas[name].address, np.frombuffer(data, np.uint8))
        scaling = program.loss_scaling
        if scaling is not None:
            machine.loss = LossScale(on=True, **vars(scaling))
        return cls(program=program, machine=machine)

    def train(self, steps: int) -> None:
        """Go on for so many steps. MachineStoppedError if one fails."""
        machine = self.machine
        machine.step_end = self.done + steps
        machine.command_first = self.program.resume if self.done else 0
        self._run(self.program.training)
        self.done = machine.step

    def evaluate(self) -> Floats:
        """The logits of the held-out samples."""
        self.machine.command_first = 0
        self._run(self.program.evaluation)
        return self.floats(LOGITS)

    def losses(self) -> Floats:
        """Of every step that was done."""
        return self.floats(LOSSES)[: self.done, 0]

    def floats(self, name: str) -> Floats:
        """What an area of floats holds now: a tensor, or a vector."""
        area = self.program.areas[name]
        return _floats(area, self.machine)

    def _run(self, commands: tuple[Command, ...]) -> None:
        outcome = self.machine.run(commands)
        if outcome.error != ErrorCode.NONE:
            raise MachineStoppedError(f"command {outcome.index}: {outcome.error.name.lower()}")


def _floats(area: PlannedArea, machine: GoldenMachine) -> Floats:
    if len(area.shape) == 1:
        return machine.memory.read(area.address, area.length).copy().view("<f4")
    rows, cols = area.shape
    found = machine.memory.rows(area.address, rows, area.pitch, 4 * cols)
    return np.ascontiguousarray(found).view("<f4")
