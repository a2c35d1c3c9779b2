"""Commands in their order, each with what it reads and writes, so that some may begin early."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from diastole_sim.spec.command import Command
from diastole_sim.spec.command_table import VECTOR_OPCODES


@dataclass(frozen=True, kw_only=True)
class ListedCommand:
    """``reads``, ``writes``: names of areas, pieces of the panel, constants and slots. ``alone``:
    nothing begins before it is done, nor it before all is done that came before."""

    command: Command
    reads: frozenset[str]
    writes: frozenset[str]
    alone: bool

    def may_begin_before_the_end_of(self, other: "ListedCommand") -> bool:
        """Whether it touches nothing that the command before it writes, and writes nothing that
        that one touches; of two commands of the vector unit the second one writes when the first
        has read all."""
        if self.alone or other.alone or self.command.skip:
            return False
        in_turn = {self.command.opcode, other.command.opcode} <= set(VECTOR_OPCODES)
        kept = other.writes if in_turn else other.reads | other.writes
        return not (self.reads & other.writes or self.writes & kept)


class CommandList:
    """Collects commands."""

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
    ) -> None:
        """Behind those that there are."""
        listed = ListedCommand(
            command=command, reads=frozenset(reads), writes=frozenset(writes), alone=alone
        )
        self._listed.append(listed)

    def extend(self, *others: "CommandList") -> None:
        """Those of other lists behind them."""
        for other in others:
            self._listed += other._listed

    def commands(self, entries: Iterable[int] = ()) -> tuple[Command, ...]:
        """All, those ``ahead`` that may be. ``entries``: numbers where a run begins or goes on: no
        command there is ahead."""
        starts = {0, *entries}
        found: list[Command] = []
        for number, listed in enumerate(self._listed):
            ahead = number not in starts and listed.may_begin_before_the_end_of(
                self._listed[number - 1]
            )
            found.append(replace(listed.command, ahead=int(ahead)))
        return tuple(found)
