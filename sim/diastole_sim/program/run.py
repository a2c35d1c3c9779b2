"""Run a program on a machine as a host does: fill memory and start the machine."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from diastole_sim.golden.golden_machine import Engine, GoldenMachine, Outcome
from diastole_sim.golden.loss_scale import LossScale
from diastole_sim.golden.memory import Bytes
from diastole_sim.program.memory_plan import PlannedArea
from diastole_sim.program.program import EVALUATION, LOSSES, OUTPUT, TRAINING, TrainingProgram
from diastole_sim.program.roundings import by_address
from diastole_sim.program.step_widths import LOGGED
from diastole_sim.program.stretches import Stretches
from diastole_sim.spec.command_errors import ERROR_MEANINGS, ErrorCode
from diastole_sim.spec.command_table import COMMAND_BYTES
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.numerics import Numerics

Floats = NDArray[np.float32]
Words = NDArray[np.uint32]


class ProgramMachine(Protocol):
    """Interface of a machine with a vector unit to a host.
    :class:`diastole_sim.golden.golden_machine.GoldenMachine` and
    :class:`diastole_sim.host.vector_machine.VectorMachine` have the interface.

    - ``step``, ``step_end``, ``command_first``: registers at the start of a run. After a run
      ``step`` has the final value.
    - ``loss``: registers of the loss's scale.

    ``counters`` returns the counters of the last run, none without a clock. ``reported`` returns
    the counts of conversions in the last run.
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
    """Report that a run ended with an error of the machine.

    - ``code``: error of the machine.
    - ``step``, ``index``: step and number of the command that stopped the machine.
    - ``counters``: counters of the run.
    - ``not_finite``: for the code NOT_FINITE, text about the tensor with the first NaN or Inf, if
      found.
    """

    not_finite: str | None = None

    def __init__(self, outcome: Outcome, *, step: int, counters: dict[str, int]):
        self.code, self.index = outcome.error, outcome.index
        self.step, self.counters = step, counters
        meaning = ERROR_MEANINGS[self.code]
        super().__init__(f"step {step}, command {self.index}: {meaning}")

    def __str__(self) -> str:
        first = (
            (f"; the first value that is not finite: {self.not_finite}") if self.not_finite else ""
        )
        return f"{self.args[0]}{first}"


@dataclass(kw_only=True)
class ProgramRun:
    """Run of a program on a machine whose memory holds the program. ``done``: number of steps done.
    ``training``, ``evaluating``, ``reported``: sums of counters and of reported counts over all
    runs so far."""

    program: TrainingProgram
    machine: ProgramMachine
    done: int = 0
    training: Counter[str] = field(default_factory=Counter[str])
    evaluating: Counter[str] = field(default_factory=Counter[str])
    reported: Counter[str] = field(default_factory=Counter[str])
    _in_memory: int | None = None
    """Number of the stretch of training samples in memory."""

    def __post_init__(self) -> None:
        self.fill(self.machine)

    def fill(self, machine: ProgramMachine) -> None:
        """Write memory and registers of a new machine for the first step."""
        for name, data in self.program.initial.items():
            machine.write(self.program.areas[name].address, np.frombuffer(data, np.uint8))
        scaling = self.program.loss_scaling
        if scaling is not None:
            machine.loss = scaling.begin()

    def state(self) -> dict[str, Bytes]:
        """Return the bytes of every area of the training's state, by name, between two runs."""
        areas = {name: self.program.areas[name] for name in self.program.state}
        return {
            name: self.machine.read_rows(area.address, 1, 0, area.length)[0].copy()
            for name, area in areas.items()
        }

    def restore(self, state: Mapping[str, Bytes], done: int, loss: LossScale) -> None:
        """Continue a training of which :meth:`state` was the state after ``done`` steps. ``loss``:
        registers of the loss's scale after these steps."""
        for machine in self.machines:
            for name in self.program.state:
                machine.write(self.program.areas[name].address, state[name])
            machine.step, machine.loss = done, replace(loss)
        self.done, self._in_memory = done, None

    @property
    def machines(self) -> Sequence[ProgramMachine]:
        """Machines that run the program."""
        return [self.machine]

    def train(self, steps: int) -> None:
        """Continue for ``steps`` steps. MachineStoppedError if a step fails."""
        end = self.done + steps
        while self.done < end:
            first = self.program.resume if self.done else 0
            self.ring(TRAINING, first, self._sent_to(end), self.training)
            self.done = self.machine.step

    def evaluate(self) -> Floats:
        """Return the network's result for the held-out samples, such as logits."""
        held_out = self.program.held_out
        if held_out is None:
            return self._evaluated()
        results: list[Floats] = []
        for number in range(len(held_out.order)):
            self._send(held_out, number)
            results.append(self._evaluated())
        return np.concatenate(results)[: held_out.count]

    def _evaluated(self) -> Floats:
        """Return the result for the held-out samples in memory."""
        self.ring(EVALUATION, 0, self.machine.step_end, self.evaluating)
        return self.floats(OUTPUT)

    def _sent_to(self, end: int) -> int:
        """Send the training samples of the next step, if memory has others. Return the first step
        whose samples memory has not, at most ``end``."""
        sent = self.program.sent
        if sent is None:
            return end
        number = sent.number(self.done)
        if number != self._in_memory:
            self._send(sent, number)
            self._in_memory = number
        return min(end, sent.end(self.done))

    def _send(self, stretches: Stretches, number: int) -> None:
        for name, data in stretches.of(number):
            for machine in self.machines:
                machine.write(self.program.areas[name].address, data)

    def losses(self) -> Floats:
        """Return the losses of all steps done."""
        return self.floats(LOSSES)[: self.done, 0]

    def floats(self, name: str) -> Floats:
        """Return the present contents of an area of floats: a tensor or a vector."""
        return self._words(name).view("<f4")

    def parameters(self) -> dict[str, Floats]:
        """Return all parameters by name, in the order of the layers, after the last run. A weight
        has the shape inputs x outputs."""
        return {name: self.floats(name) for name in self.program.parameters}

    def widths(self) -> Words:
        """Return the widths in the slots at the end of all steps done, (steps, slots)."""
        return self._words(LOGGED)[: self.done]

    def _words(self, name: str) -> Words:
        """Return a copy of the present contents of an area of words."""
        area = self.program.areas[name]
        columns = area.shape[-1]
        rows = area.length // area.pitch if area.pitch else 1
        contents = self.machine.read_rows(area.address, rows, area.pitch, 4 * columns)
        # A golden machine returns a view of its memory, which the next run changes.
        return np.array(contents, order="C").view("<u4").reshape(area.shape)

    def ring(self, name: str, first: int, step_end: int, counters: Counter[str]) -> None:
        """Run the commands of an area from number ``first`` on, until the commands end or the
        register ``step`` equals ``step_end``."""
        machine = self.machine
        machine.command_first, machine.step_end = first, step_end
        self.require_done(self.run(self.program.areas[name]), counters)

    def run(self, commands: PlannedArea) -> Outcome:
        """Run the commands of an area with the present registers."""
        return self.machine.run_at(commands.address, commands.length // COMMAND_BYTES)

    def require_done(self, outcome: Outcome, counters: Counter[str]) -> None:
        """Add the machine's counts to the sums. MachineStoppedError if the machine stopped."""
        counts = self.machine.counters()
        counters.update(counts)
        self.reported.update(self.machine.reported())
        if outcome.error != ErrorCode.NONE:
            raise MachineStoppedError(outcome, step=self.machine.step, counters=counts)


def golden_machine(
    program: TrainingProgram,
    numerics: Numerics,
    limits: Limits,
    *,
    seed: int,
    memory_bytes: int | None = None,
    engine: Engine | None = None,
) -> GoldenMachine:
    """Return a golden machine for a program. ``memory_bytes``: size of the memory, by default what
    the program needs. ``engine``: as for :class:`GoldenMachine`."""
    return GoldenMachine(
        numerics,
        limits,
        memory_bytes=program.memory_bytes if memory_bytes is None else memory_bytes,
        seed=seed,
        engine=engine,
        roundings=by_address(program.roundings, program.areas, seed=seed),
    )
