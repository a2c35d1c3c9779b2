"""Read waves of a machine: the values of chosen signals in every cycle."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from vcd.reader import Token, TokenKind, VarDecl, tokenize  # installed with Amaranth

CLOCK = "aclk"
PackedLayout: TypeAlias = Any
"""Layout of Amaranth, which has no types."""


@dataclass(frozen=True)
class Waves:
    """``cycles`` of a machine, and the numbers of signals in every cycle, by path below the
    product. A number is the value at the end of the cycle, before the clock edge."""

    cycles: int
    values: dict[str, list[int]]

    def __getitem__(self, name: str) -> list[int]:
        return self.values[name]

    def high(self, name: str) -> list[int]:
        """Return the cycles in which a signal is not 0."""
        return [cycle for cycle, value in enumerate(self[name]) if value]


def read_waves(path: Path, scope: str, names: Sequence[str]) -> Waves:
    """Read the signals ``names`` below ``scope`` of a .vcd file, with the clock :data:`CLOCK`.

    ValueError if the file lacks a signal: the waves are from another machine.
    """
    with path.open("rb") as file:
        tokens = tokenize(file)
        codes = _codes(tokens, scope)
        if missing := [name for name in (CLOCK, *names) if name not in codes]:
            raise ValueError(f"the waves have no {', '.join(missing)}")
        selected: dict[str, list[tuple[int, int]]] = {codes[name]: [(0, 0)] for name in names}
        cycles = _follow(tokens, codes[CLOCK], selected)
    changes = {name: selected[codes[name]] for name in names}
    return Waves(cycles, {name: _expanded(each, cycles) for name, each in changes.items()})


def _follow(tokens: Iterator[Token], clock: str, names: dict[str, list[tuple[int, int]]]) -> int:
    """Append (cycle, value) to the signals in ``names``, by code, and return the number of
    cycles."""
    cycle = 0
    for rises, changes in _by_time(tokens, clock):
        cycle += rises
        for code, value in changes:
            if code in names:
                names[code].append((cycle, int(value)))
    return cycle


def _by_time(
    tokens: Iterator[Token], clock: str
) -> Iterator[tuple[bool, list[tuple[str, int | str]]]]:
    """Yield the changes at every time, and whether the clock rises then. The file has no order of
    changes at a time."""
    rises, now = False, list[tuple[str, int | str]]()
    for token in tokens:
        if token.kind is TokenKind.CHANGE_TIME:
            yield rises, now
            rises, now = False, []
        elif token.kind is TokenKind.CHANGE_SCALAR:
            change = token.scalar_change
            now.append((change.id_code, change.value))
            rises |= change.id_code == clock and change.value == "1"
        elif token.kind is TokenKind.CHANGE_VECTOR:
            now.append((token.vector_change.id_code, token.vector_change.value))
    yield rises, now


def _codes(tokens: Iterator[Token], scope: str) -> dict[str, str]:
    """Return the codes that mark changes of the signals below ``scope``, by path."""
    path: list[str] = []
    codes: dict[str, str] = {}
    for token in tokens:
        kind = token.kind
        if kind is TokenKind.SCOPE:
            path.append(token.scope.ident)
        elif kind is TokenKind.UPSCOPE:
            path.pop()
        elif kind is TokenKind.VAR:
            variable: VarDecl = token.var
            name = ".".join((*path, variable.reference))
            if name.startswith(f"{scope}."):
                codes[name[len(scope) + 1 :]] = variable.id_code
        elif kind is TokenKind.ENDDEFINITIONS:
            break
    return codes


def _expanded(changes: list[tuple[int, int]], cycles: int) -> list[int]:
    """Return a value for every cycle. Of several changes in a cycle, the last counts."""
    values: list[int] = []
    now = 0
    for cycle, value in changes:
        values.extend([now] * (cycle - len(values)))
        now = value
    values.extend([now] * (cycles - len(values)))
    return values


def member(layout: PackedLayout, value: int, *path: str | int) -> int:
    """Return a member of a packed number by the layouts of the hardware, as an unsigned number."""
    for key in path:
        place = layout[key]
        value = (value >> place.offset) & ((1 << place.width) - 1)
        layout = place.shape
    return value
