"""Where a training first had a NaN or an Inf: it is done again on the golden machine, command by
command, and all that a command writes is looked at."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from diastole_sim.golden.areas import Area
from diastole_sim.golden.golden_machine import GoldenMachine
from diastole_sim.program.program import TRAINING, TrainingProgram
from diastole_sim.program.run import Floats, MachineStoppedError, ProgramRun
from diastole_sim.program.stepped import FLOATS, areas_written, described, in_their_order
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.limits import VectorTable
from diastole_sim.train.history import content


@dataclass(kw_only=True)
class WatchedRun(ProgramRun):
    """``golden`` is the machine itself. ``first``: the step, the command and the tensor that had
    the first NaN or Inf, in words; None while there was none. A step that loss scaling skips has
    none."""

    golden: GoldenMachine
    first: str | None = None

    def ring(self, name: str, first: int, step_end: int, counters: Counter[str]) -> None:
        """As that of any run, but one command at a time."""
        machine, area = self.golden, self.program.areas[name]
        commands = self.program.training if name == TRAINING else self.program.evaluation
        machine.step_end = step_end
        before = self.first
        for number, command in in_their_order(commands, machine, first, step_end):
            areas = areas_written(machine, command)
            step, skipped = machine.step, self.program.loss_scaling and machine.overflow
            machine.command_first = number
            outcome = machine.run_at(area.address, number + 1)
            self._look(areas, f"step {step}, command {number}")
            if command.opcode == Opcode.NEXT:
                before = self.first = before if skipped else self.first
            self.require_done(outcome, counters)

    def _look(self, areas: list[Area], place: str) -> None:
        for name, values in self._floats(areas):
            if self.first is None and not np.isfinite(values).all():
                self.first = f"{place}: {name} {content(values)}"

    def _floats(self, areas: list[Area]) -> Iterator[tuple[str, Floats]]:
        """The numbers in memory and in the panel; constants may be Inf by intention."""
        for area in areas:
            if area.which not in (None, VectorTable.PANEL):
                continue
            name, kind, columns = described(self.program, self.golden.limits.block, area)
            if kind == FLOATS:
                held = np.ascontiguousarray(self.golden.contents(area))
                yield name, held.view(kind).reshape(-1, columns)


def first_not_finite(program: TrainingProgram, golden: GoldenMachine, steps: int) -> str | None:
    """Return where the first ``steps`` first have a number that is not finite, in words; None where
    they have none. ``golden``: a new machine for the program."""
    run = WatchedRun(program=program, machine=golden, golden=golden)
    with suppress(MachineStoppedError):
        while run.done < steps and run.first is None:
            run.train(1)
    return run.first
