"""Step through a program: the order of commands, and the areas that each command writes, with
names."""

from collections.abc import Iterator, Sequence

import numpy as np

from diastole_sim.golden.areas import Area
from diastole_sim.golden.golden_machine import GoldenMachine, StoppedError
from diastole_sim.program.program import TrainingProgram
from diastole_sim.program.run import ProgramMachine
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.limits import STORABLE_TABLES, VectorTable

ELEMENTS = {"f32": "<f4", "row": "<f4", "column": "<f4", "bf16": "<u2", "int32": "<i4"}
"""Types of elements by the kind of an area; bytes for further kinds."""
OF_TABLES = {VectorTable.AMAX: "<u4", VectorTable.WIDTHS: "<u4"}
"""Types of elements by table; floats for further tables."""
FLOATS = "<f4"


def in_their_order(
    commands: Sequence[Command], machine: ProgramMachine, first: int, step_end: int
) -> Iterator[tuple[int, Command]]:
    """Yield every command and the number of the command, in the machine's order from ``first`` on,
    until the commands end. The caller must run each command before the next."""
    number = first
    while number < len(commands):
        command = commands[number]
        yield number, command
        ends = command.opcode != Opcode.NEXT or machine.step >= step_end
        number = number + 1 if ends else command.target


def areas_written(machine: GoldenMachine, command: Command) -> list[Area]:
    """Return the areas that a command is about to write, as far as the areas can be read."""
    try:
        areas = machine.written_areas(command)
    except StoppedError:  # a refused command writes nothing
        return []
    return [area for area in areas if area.table is None or area.table in STORABLE_TABLES]


def area_description(
    program: TrainingProgram, block: int, area: Area, run: str, number: int
) -> tuple[str, str, int]:
    """Return the name of an area that command ``number`` of a run writes, the type of the elements,
    and the number of elements in a row."""
    if area.table == VectorTable.PANEL:
        for name, (first, end) in program.panel.items():
            if first <= area.first < end:
                return name, FLOATS, block
    if area.table is not None:
        name = f"{area.table.name.lower()} {area.first}"
        return name, OF_TABLES.get(area.table, FLOATS), 1
    planned = next(
        each
        for each in program.areas.values()
        if each.address <= area.first < each.address + max(each.length, 1)
        and (each.life is None or each.life.at(run, number))
    )
    kind = ELEMENTS.get(planned.kind, "u1")
    return planned.name, kind, area.length // np.dtype(kind).itemsize
