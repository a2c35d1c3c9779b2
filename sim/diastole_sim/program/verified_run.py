"""Run a program on two machines command by command, and compare everything that a command
writes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from diastole_sim.golden.areas import Area
from diastole_sim.golden.compare import GoldenComparison
from diastole_sim.golden.golden_machine import GoldenMachine, Outcome
from diastole_sim.golden.memory import Bytes
from diastole_sim.program.memory_plan import PlannedArea
from diastole_sim.program.program import TRAINING, TrainingProgram
from diastole_sim.program.run import MachineStoppedError, ProgramMachine, ProgramRun
from diastole_sim.program.stepped import area_description, areas_written, in_their_order
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import COMMAND_BYTES, Opcode
from diastole_sim.spec.limits import STORABLE_TABLES, Limits, entry_words
from diastole_sim.spec.registers import WAIT_REGISTERS


@dataclass(kw_only=True)
class CommandCost:
    """Counters of the command with the number ``number``, summed over all ``runs`` of the
    command."""

    number: int
    opcode: str
    runs: int = 0
    counters: Counter[str] = field(default_factory=Counter[str])

    def to_json(self) -> dict[str, Any]:
        """Return the costs as plain values."""
        waits = {cause: self.counters[name] for cause, name in WAIT_REGISTERS.items()}
        document = {"number": self.number, "opcode": self.opcode, "runs": self.runs}
        counted = {name: self.counters[name] for name in ("cycles_total", "busy_slots")}
        return document | counted | {"waits": waits}


def memory_needed(program: TrainingProgram, limits: Limits) -> int:
    """Return the bytes of memory for a machine whose run is verified. Memory of the program is
    followed by space for a command that stores a table, and for the longest table."""
    longest = max(
        limits.entries(Opcode.STORE, each) * 4 * entry_words(each, limits.block)
        for each in STORABLE_TABLES
    )
    return program.memory_bytes + COMMAND_BYTES + longest


@dataclass(kw_only=True)
class VerifiedRun(ProgramRun):
    """Run that executes every command on ``machine`` and on ``reference``, and compares all
    results.

    Everything that a command wrote must be equal on the two machines: images, masks, floats,
    vectors in the panel, constants, scale slots. Errors and the counts of conversions must be equal
    too. The memory of ``machine`` must have the size of :func:`memory_needed`.

    - ``comparison``: result of the comparison so far.
    - ``costs``: costs of the commands of the training, by number.
    """

    reference: GoldenMachine
    comparison: GoldenComparison = field(default_factory=GoldenComparison)
    costs: dict[int, CommandCost] = field(default_factory=dict[int, CommandCost])

    def __post_init__(self) -> None:
        super().__post_init__()
        self.fill(self.reference)

    @property
    def machines(self) -> Sequence[ProgramMachine]:
        return [self.machine, self.reference]

    def ring(self, name: str, first: int, step_end: int, counters: Counter[str]) -> None:
        """Run as :meth:`ProgramRun.ring` does, one command at a time."""
        program = self.program
        commands = program.training if name == TRAINING else program.evaluation
        self.machine.step_end = self.reference.step_end = step_end
        for number, command in in_their_order(commands, self.machine, first, step_end):
            step = self.machine.step
            before = counters.copy()
            # The areas must be found before the command runs.
            areas = areas_written(self.reference, command)
            self._do(program.areas[name], number, counters)
            if name == TRAINING:
                cost = self.costs.setdefault(
                    number, CommandCost(number=number, opcode=Opcode(command.opcode).name.lower())
                )
                cost.runs += 1
                cost.counters.update(counters - before)
            for area in areas:
                self._compare(area, name, number, step)
            self._same("step", f"command {number}", self.machine.step, self.reference.step, step)

    def _do(self, area: PlannedArea, number: int, counters: Counter[str]) -> None:
        """Run a command on the two machines. MachineStoppedError if a machine stopped."""
        outcomes: list[Outcome] = []
        step = self.machine.step
        for machine in (self.machine, self.reference):
            machine.command_first = number
            outcomes.append(machine.run_at(area.address, number + 1))
        got, expected = outcomes
        self._same("error", f"command {number}", got.error.name, expected.error.name, step)
        reference = self.reference.reported()
        for name, value in self.machine.reported().items():
            self._same(name, f"command {number}", value, reference[name], step)
        self.require_done(got, counters)
        if expected.error != ErrorCode.NONE:
            raise MachineStoppedError(expected, step=step, counters=self.machine.counters())

    def _same(self, report: str, of: str, got: object, expected: object, step: int) -> None:
        self.comparison.report(report, of, got, expected, step)

    def _compare(self, area: Area, run: str, number: int, step: int) -> None:
        block = self.reference.limits.block
        name, kind, columns = area_description(self.program, block, area, run, number)
        got, expected = (
            np.ascontiguousarray(each).view(kind).reshape(-1, columns)
            for each in (self._contents(area), self.reference.contents(area))
        )
        self.comparison.array(name, got, expected, step)

    def _contents(self, area: Area) -> Bytes:
        """Return the contents of an area of the machine, side by side. A table is first stored to
        memory."""
        if area.table is None:
            rows = self.machine.read_rows(area.first, area.count, area.pitch, area.length)
            return rows.reshape(-1)
        place = self.program.memory_bytes
        scratch = place + COMMAND_BYTES
        store = Command.store(area.table, address=scratch, first=area.first, count=area.length)
        self.machine.write(place, np.frombuffer(store.encode(), np.uint8))
        self.machine.command_first = 0
        self.require_done(self.machine.run_at(place, 1), Counter())
        length = 4 * entry_words(area.table, self.reference.limits.block) * area.length
        return self.machine.read_rows(scratch, 1, 0, length).reshape(-1)
