"""A program on a machine, as a host runs it: it fills memory, and rings."""

import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from diastole_sim.golden.golden_machine import GoldenMachine, Outcome
from diastole_sim.golden.loss_scale import LossScale
from diastole_sim.golden.memory import Bytes
from diastole_sim.program.memory_plan import PlannedArea
from diastole_sim.program.perceptron_tensors import LOGITS, LOSSES
from diastole_sim.program.program import EVALUATION, TRAINING, TrainingProgram
from diastole_sim.program.step_widths import LOGGED
from diastole_sim.spec.command_errors import ERROR_MEANINGS, ErrorCode
from diastole_sim.spec.command_table import COMMAND_BYTES
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.numerics import Numerics

Floats = NDArray[np.float32]
Words = NDArray[np.uint32]


class ProgramMachine(Protocol):
    """A machine with a vector unit, to its host:
    :class:`diastole_sim.golden.golden_machine.GoldenMachine` and
    :class:`diastole_sim.host.bell.BellMachine` are such.

    ``step``, ``step_end``, ``command_first``: registers, as a run begins, and ``step`` as it ends.
    ``loss``: the registers of the loss's scale. Of the last run, ``counters``, none without a
    clock, and what is ``reported`` of conversions.
    """

    step: int
    step_end: int
    command_first: int

    @property
    def loss(self) -> LossScale: ...
    @loss.setter
    def loss(self, loss: LossScale) -> None: ...
    def read_rows(self, address: int, count: int, pitch: int, length: int) -> Bytes: ...
    def write(self, address: int, data: Bytes) -> None: ...
    def run_at(self, address: int, count: int) -> Outcome: ...
    def counters(self) -> dict[str, int]: ...
    def reported(self) -> dict[str, int]: ...


class MachineStoppedError(Exception):
    """A run ended with an error of the machine, ``code``, in ``step``, at the command of that
    ``index``. ``counters``: of the run. ``not_finite``: for the code of that name, in words, which
    tensor first had a NaN or an Inf, where that was found."""

    not_finite: str | None = None

    def __init__(self, outcome: Outcome, *, step: int, counters: dict[str, int]):
        self.code, self.index = outcome.error, outcome.index
        self.step, self.counters = step, counters
        meaning = ERROR_MEANINGS[self.code]
        super().__init__(f"step {step}, command {self.index}: {meaning}")

    def __str__(self) -> str:
        first = f"; first not finite: {self.not_finite}" if self.not_finite else ""
        return f"{self.args[0]}{first}"


@dataclass(kw_only=True)
class ProgramRun:
    """A program on a machine whose memory holds it. ``done``: steps so far. ``training``,
    ``evaluating``: counters of all runs so far, added up; ``reported`` likewise."""

    program: TrainingProgram
    machine: ProgramMachine
    done: int = 0
    training: Counter[str] = field(default_factory=Counter[str])
    evaluating: Counter[str] = field(default_factory=Counter[str])
    reported: Counter[str] = field(default_factory=Counter[str])

    def __post_init__(self) -> None:
        self.fill(self.machine)

    def fill(self, machine: ProgramMachine) -> None:
        """Memory and registers of a new machine, as the first step finds them."""
        for name, data in self.program.initial.items():
            machine.write(self.program.areas[name].address, np.frombuffer(data, np.uint8))
        scaling = self.program.loss_scaling
        if scaling is not None:
            machine.loss = scaling.begin()

    def train(self, steps: int) -> None:
        """Go on for so many steps. MachineStoppedError if one fails."""
        first = self.program.resume if self.done else 0
        self.ring(TRAINING, first, self.done + steps, self.training)
        self.done = self.machine.step

    def evaluate(self) -> Floats:
        """The logits of the held-out samples."""
        self.ring(EVALUATION, 0, self.machine.step_end, self.evaluating)
        return self.floats(LOGITS)

    def losses(self) -> Floats:
        """Of every step that was done."""
        return self.floats(LOSSES)[: self.done, 0]

    def floats(self, name: str) -> Floats:
        """What an area of floats holds now: a tensor, or a vector."""
        return self._words(name).view("<f4")

    def parameters(self) -> dict[str, Floats]:
        """Weights, then bias of every layer in order, by name, as the last run left them."""
        layers = itertools.count()
        names = (f"layer {layer} {each}" for layer in layers for each in ("w", "bias w"))
        found = itertools.takewhile(lambda name: name in self.program.areas, names)
        return {name: self.floats(name) for name in found}

    def widths(self) -> Words:
        """Of every step that was done, what slots then said of widths, by slot."""
        return self._words(LOGGED)[: self.done]

    def _words(self, name: str) -> Words:
        """What an area of words holds now."""
        area = self.program.areas[name]
        columns = area.shape[-1]
        rows = area.length // area.pitch if area.pitch else 1
        found = self.machine.read_rows(area.address, rows, area.pitch, 4 * columns)
        return np.ascontiguousarray(found).view("<u4").reshape(area.shape)

    def ring(self, name: str, first: int, step_end: int, counters: Counter[str]) -> None:
        """Run the commands of an area from number ``first`` on, until they end, or the register
        ``step`` is ``step_end``."""
        machine = self.machine
        machine.command_first, machine.step_end = first, step_end
        self.require_done(self.run(self.program.areas[name]), counters)

    def run(self, commands: PlannedArea) -> Outcome:
        """Of an area, as the registers are."""
        return self.machine.run_at(commands.address, commands.length // COMMAND_BYTES)

    def require_done(self, outcome: Outcome, counters: Counter[str]) -> None:
        """Count what the machine counted. MachineStoppedError if it stopped."""
        found = self.machine.counters()
        counters.update(found)
        self.reported.update(self.machine.reported())
        if outcome.error != ErrorCode.NONE:
            raise MachineStoppedError(outcome, step=self.machine.step, counters=found)


def golden_machine(
    program: TrainingProgram, numerics: Numerics, limits: Limits, *, seed: int
) -> GoldenMachine:
    """A golden machine with as much memory as a program needs."""
    return GoldenMachine(numerics, limits, memory_bytes=program.memory_bytes, seed=seed)
