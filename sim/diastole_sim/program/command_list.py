"""Collect commands with the areas that each command reads and writes, so that some may begin
early."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from diastole_sim.spec.command import Command
from diastole_sim.spec.command_table import VECTOR_OPCODES


@dataclass(frozen=True, kw_only=True)
class ListedCommand:
    """Listed command. ``reads``, ``writes``: names of areas, parts of the panel, constants and
    slots. ``layer``: number of the linear layer of a product, None for other commands. ``alone``:
    the command begins after all earlier commands are done, and no later command
    begins before the command is done."""

    command: Command
    reads: frozenset[str]
    writes: frozenset[str]
    alone: bool
    layer: int | None = None

    def may_overlap(self, other: "ListedCommand") -> bool:
        """Return whether the command may begin while the previous command runs.

        The command must read and write nothing that the previous command writes, and write nothing
        that the previous command reads. With two commands of the vector unit, the second may write
        what the first reads, since it writes after the first has read everything. A command that is
        ``alone`` or may be skipped never begins early.
        """
        if self.alone or other.alone or self.command.skip:
            return False
        in_order = {self.command.opcode, other.command.opcode} <= set(VECTOR_OPCODES)
        protected = other.writes if in_order else other.reads | other.writes
        return not (self.reads & other.writes or self.writes & protected)


class CommandList:
    """List of commands in order."""

    def __init__(self) -> None:
        self._listed: list[ListedCommand] = []

    def __len__(self) -> int:
        return len(self._listed)

    def add(
        self,
        command: Command,
        *,
        reads: Iterable[str] = (),
        writes: Iterable[str] = (),
        alone: bool = False,
        layer: int | None = None,
    ) -> None:
        """Append a command. The arguments are members of :class:`ListedCommand`."""
        listed = ListedCommand(
            command=command,
            reads=frozenset(reads),
            writes=frozenset(writes),
            alone=alone,
            layer=layer,
        )
        self._listed.append(listed)

    def extend(self, *others: "CommandList") -> None:
        """Append the commands of further lists."""
        for other in others:
            self._listed += other._listed

    def part(self, first: int, end: int) -> "CommandList":
        """Return the commands from number ``first`` to the command before ``end``."""
        found = CommandList()
        found._listed = self._listed[first:end]
        return found

    def layers(self) -> tuple[int | None, ...]:
        """Return the layer of every command."""
        return tuple(listed.layer for listed in self._listed)

    def commands(self, entries: Iterable[int] = ()) -> tuple[Command, ...]:
        """Return all commands, with ``ahead`` set wherever a command may begin early. ``entries``:
        numbers of the commands at which a run begins or continues; commands there are not ahead."""
        starts = {0, *entries}
        commands: list[Command] = []
        for number, listed in enumerate(self._listed):
            ahead = number not in starts and listed.may_overlap(self._listed[number - 1])
            commands.append(replace(listed.command, ahead=int(ahead)))
        return tuple(commands)
