"""Liberty files: what a library of standard cells says of loads and of delays."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_TOKEN = re.compile(r'"[^"]*"|[\w.+\-*!/\[\]&|^\']+|[(){}:;,]')
_IGNORED = re.compile(r"/\*.*?\*/|\\\n", re.DOTALL)


@dataclass
class Group:
    """``kind (name) { ... }``: its attributes, of which lists have several values, and groups."""

    kind: str
    name: str
    values: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    groups: "list[Group]" = field(default_factory=list)

    def of(self, kind: str) -> "list[Group]":
        """The groups of a kind."""
        return [group for group in self.groups if group.kind == kind]

    def text(self, name: str) -> str:
        """A simple attribute; empty where there is none."""
        return next(iter(self.values.get(name, [])), "")


@dataclass(frozen=True)
class Table:
    """Values over one index or two, linear between its points and beyond them."""

    rows: tuple[float, ...]
    cols: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, group: Group) -> "Table":
        rows, cols = (_numbers(group.values.get(f"index_{n}", [])) for n in (1, 2))
        values = tuple(_numbers([row]) for row in group.values["values"])
        if not cols:  # one index: one row
            return cls((0.0,), rows, values)
        return cls(rows, cols, values)

    def at(self, row: float, col: float) -> float:
        i, u = _between(self.rows, row)
        j, v = _between(self.cols, col)
        last, right = min(i + 1, len(self.rows) - 1), min(j + 1, len(self.cols) - 1)
        low = self.values[i][j] * (1 - v) + self.values[i][right] * v
        high = self.values[last][j] * (1 - v) + self.values[last][right] * v
        return low * (1 - u) + high * u


@dataclass(frozen=True)
class Arc:
    """From an input to an output (or from a clock to an input that must be there before it).

    ``tables``: by the names of Liberty.
    """

    source: str
    sense: str
    kind: str
    tables: dict[str, Table]


@dataclass(frozen=True)
class Pin:
    """Its capacitance, whether it is an output, the arcs that end at it, and the load that an
    output may have, where the library says."""

    capacitance: float
    output: bool
    arcs: tuple[Arc, ...]
    most: float | None = None


DelayLibrary = dict[str, dict[str, Pin]]
"""By cell, by pin; in the units of the file."""


def read_library(path: Path) -> DelayLibrary:
    """The cells of a Liberty file. ValueError if it is none."""
    return cells_of(read_groups(path))


def time_unit_ns(library: Group) -> float:
    """Nanoseconds in its unit of time."""
    text = library.text("time_unit") or "1ns"
    found = re.fullmatch(r"([\d.]+)\s*([unpf]s)", text)
    if found is None:
        raise ValueError(f"time_unit must be a time, not {text}")
    number, unit = found.groups()
    return float(number) * {"us": 1e3, "ns": 1.0, "ps": 1e-3, "fs": 1e-6}[unit]


def cells_of(library: Group) -> DelayLibrary:
    """By their names."""
    return {cell.name: dict(map(_pin, cell.of("pin"))) for cell in library.of("cell")}


def read_groups(path: Path) -> Group:
    """The library of a Liberty file. ValueError if it is none."""
    tokens = iter(_TOKEN.findall(_IGNORED.sub("", path.read_text())))
    top = Group("", "")
    _fill(top, tokens)
    libraries = top.of("library")
    if not libraries:
        raise ValueError(f"{path} must be a Liberty file")
    return libraries[0]


def _pin(group: Group) -> tuple[str, Pin]:
    output = group.text("direction") == "output"
    arcs = tuple(
        Arc(
            source=timing.text("related_pin"),
            sense=timing.text("timing_sense"),
            kind=timing.text("timing_type") or "combinational",
            tables={table.kind: Table.of(table) for table in timing.groups if table.values},
        )
        for timing in group.of("timing")
    )
    most = group.text("max_capacitance")
    capacitance = float(group.text("capacitance") or 0)
    return group.name, Pin(capacitance, output, arcs, float(most) if most else None)


def _fill(group: Group, tokens: Iterator[str]) -> None:
    """Everything up to the end of the group."""
    for word in tokens:
        if word == "}":
            return
        if word == ";":
            continue
        following = next(tokens)
        if following == ":":
            group.values[word] = [next(tokens).strip('"')]
            continue
        arguments: list[str] = []
        while (argument := next(tokens)) != ")":
            if argument != ",":
                arguments.append(argument.strip('"'))
        if next(tokens) == "{":
            group.groups.append(inner := Group(word, arguments[0] if arguments else ""))
            _fill(inner, tokens)
        else:
            group.values[word] = arguments


def _numbers(texts: list[str]) -> tuple[float, ...]:
    return tuple(float(number) for text in texts for number in text.replace(",", " ").split())


def _between(points: tuple[float, ...], value: float) -> tuple[int, float]:
    """The interval that a value is in, or nearest to, and where in it: 0 to 1, if it is in it."""
    if len(points) == 1:
        return 0, 0.0
    number = min(max(bisect_right(points, value) - 1, 0), len(points) - 2)
    return number, (value - points[number]) / (points[number + 1] - points[number])
