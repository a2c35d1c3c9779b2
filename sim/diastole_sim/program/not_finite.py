"""Find the first NaN or Inf of a training: repeat the training on the golden machine command by
command, and check everything that a command writes."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from diastole_sim.golden.areas import Area
from diastole_sim.golden.golden_machine import GoldenMachine
from diastole_sim.program.program import TRAINING, TrainingProgram
from diastole_sim.program.run import Floats, MachineStoppedError, ProgramRun
from diastole_sim.program.stepped import FLOATS, area_description, areas_written, in_their_order
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.limits import VectorTable
from diastole_sim.train.history import content


@dataclass(kw_only=True)
class WatchedRun(ProgramRun):
    """Run that checks the numbers after every command.

    - ``golden``: the machine of the run.
    - ``first``: text with the step, the command and the tensor of the first NaN or Inf, None if all
      numbers are finite. Steps that loss scaling skips do not count.
    """

    golden: GoldenMachine
    first: str | None = None

    def ring(self, name: str, first: int, step_end: int, counters: Counter[str]) -> None:
        """Start the machine for each command of an area, as :meth:`ProgramRun.ring` does for all
        commands together. After each command, note the first NaN or Inf of the command's tensors.
        """
        machine, area = self.golden, self.program.areas[name]
        commands = self.program.training if name == TRAINING else self.program.evaluation
        machine.step_end = step_end
        before = self.first
        for number, command in in_their_order(commands, machine, first, step_end):
            areas = areas_written(machine, command)
            step, skipped = machine.step, self.program.loss_scaling and machine.overflow
            machine.command_first = number
            outcome = machine.run_at(area.address, number + 1)
            self._note_not_finite(areas, name, number, step)
            if command.opcode == Opcode.NEXT:
                before = self.first = before if skipped else self.first
            self.require_done(outcome, counters)

    def _note_not_finite(self, areas: list[Area], run: str, number: int, step: int) -> None:
        for name, values in self._floats(areas, run, number):
            if self.first is None and not np.isfinite(values).all():
                self.first = f"step {step}, command {number}: {name} {content(values)}"

    def _floats(self, areas: list[Area], run: str, number: int) -> Iterator[tuple[str, Floats]]:
        """Yield the numbers in memory and in the panel that a command wrote. Constants are left
        out, since a constant may be Inf on purpose."""
        for area in areas:
            if area.table not in (None, VectorTable.PANEL):
                continue
            name, kind, columns = area_description(
                self.program, self.golden.limits.block, area, run, number
            )
            if kind == FLOATS:
                contents = np.ascontiguousarray(self.golden.contents(area))
                yield name, contents.view(kind).reshape(-1, columns)


def first_not_finite(program: TrainingProgram, golden: GoldenMachine, steps: int) -> str | None:
    """Return a text with the step, command and tensor of the first number that is not finite in the
    first ``steps`` steps; None if all are finite. ``golden``: a new machine for the program."""
    run = WatchedRun(program=program, machine=golden, golden=golden)
    with suppress(MachineStoppedError):
        while run.done < steps and run.first is None:
            run.train(1)
    return run.first
