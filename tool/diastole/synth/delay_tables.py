"""Read Liberty files: the loads and delays in a library of standard cells."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path

from diastole_sim.spec.require import excerpt, real_number

_TOKEN = re.compile(r'\n|"[^"]*"|[\w.+\-*!/\[\]&|^\']+|[(){}:;,]')
_IGNORED = re.compile(r"/\*.*?\*/|\\\n", re.DOTALL)
DEEPEST = 100
"""Largest depth of groups within groups."""
TABLES = frozenset(
    f"{of}{edge}{what}"
    for edge in ("rise", "fall")
    for of, what in (("cell_", ""), ("", "_transition"), ("", "_constraint"))
)
"""Tables of an arc that are read."""


class LibertyError(ValueError):
    """File that is no library of delays. The message gives the line and the error."""

    def __init__(self, line: int, text: str):
        super().__init__(f"line {line}: {text}")


@dataclass
class Group:
    """Group ``kind (name) { ... }`` that begins at ``line``. ``values``: attributes by name, with
    several values for a list. ``lines``: line of every attribute. ``groups``: inner groups."""

    kind: str
    name: str
    line: int
    values: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    lines: dict[str, int] = field(default_factory=dict[str, int])
    groups: "list[Group]" = field(default_factory=list)

    def of(self, kind: str) -> "list[Group]":
        """Return the inner groups of a kind."""
        return [group for group in self.groups if group.kind == kind]

    def text(self, name: str) -> str:
        """Return a simple attribute; an empty text if the attribute is absent."""
        return next(iter(self.values.get(name, [])), "")

    def number(self, name: str) -> float | None:
        """Return a number of at least 0; None if the attribute is absent. LibertyError for any
        value but a number from 0."""
        if name not in self.values:
            return None
        value = real_number(self.text(name).strip())
        if value is None or value < 0:
            shown = excerpt(self.text(name)) if self.text(name) else "nothing"
            raise LibertyError(self.lines[name], f"{name} must be a number from 0, not {shown}")
        return value

    def numbers(self, name: str) -> tuple[float, ...]:
        """Return the numbers of a list; an empty tuple if the attribute is absent. LibertyError for
        a word that is no number."""
        values: list[float] = []
        for text in self.values.get(name, []):
            for word in text.replace(",", " ").split():
                value = real_number(word)
                if value is None:
                    raise LibertyError(
                        self.lines[name], f"{name} must be numbers, not {excerpt(word)}"
                    )
                values.append(value)
        return tuple(values)


@dataclass(frozen=True)
class Table:
    """Table of values over one index or two indices, linear between the points and beyond the
    points."""

    rows: tuple[float, ...]
    cols: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, group: Group) -> "Table":
        """Return the table of a group. LibertyError if an index does not rise, or if the number of
        values differs from the number of points."""
        rows, cols = (_index(group, f"index_{n}") for n in (1, 2))
        if not cols:  # one index or a single value makes a single row
            rows, cols = (0.0,), rows or (0.0,)
        numbers = group.numbers("values")
        if len(numbers) != len(rows) * len(cols):
            points = f"{len(rows)} x {len(cols)} points of index_1 and index_2"
            raise LibertyError(
                group.lines.get("values", group.line),
                f"values of {group.kind} must be as many as the {points}, not {len(numbers)}",
            )
        width = len(cols)
        places = range(0, len(numbers), width)
        return cls(rows, cols, tuple(numbers[place : place + width] for place in places))

    def at(self, row: float, col: float) -> float:
        i, u = _between(self.rows, row)
        j, v = _between(self.cols, col)
        last, right = min(i + 1, len(self.rows) - 1), min(j + 1, len(self.cols) - 1)
        low = self.values[i][j] * (1 - v) + self.values[i][right] * v
        high = self.values[last][j] * (1 - v) + self.values[last][right] * v
        return low * (1 - u) + high * u


@dataclass(frozen=True)
class Arc:
    """Timing arc from an input to an output, or from a clock to an input with a set-up time.

    ``tables``: tables by their Liberty names. ``line``: first line of the arc in the file.
    """

    source: str
    sense: str
    kind: str
    tables: dict[str, Table]
    line: int = 0

    def table(self, name: str) -> Table:
        """Return a table by name. LibertyError if the arc has no table of this name."""
        if name not in self.tables:
            raise LibertyError(self.line, f"timing of {self.source} must have {name}")
        return self.tables[name]


@dataclass(frozen=True)
class Pin:
    """Pin of a cell. ``capacitance``: capacitance. ``output``: True for an output. ``arcs``: arcs
    that end at the pin. ``most``: largest load of an output, None if the library gives no limit."""

    capacitance: float
    output: bool
    arcs: tuple[Arc, ...]
    max_load: float | None = None


DelayLibrary = dict[str, dict[str, Pin]]
"""Pins by cell name and pin name, in the units of the file."""


@cache
def read_delays(path: Path) -> tuple[DelayLibrary, float]:
    """Return the cells of a Liberty file, and the length of the file's unit of time in nanoseconds.
    LibertyError if the file is no library."""
    library = read_groups(path)
    return cells_of(library), time_unit_ns(library)


def read_library(path: Path) -> DelayLibrary:
    """Return the cells of a Liberty file. LibertyError if the file is no library."""
    return cells_of(read_groups(path))


def time_unit_ns(library: Group) -> float:
    """Return the length of the library's unit of time in nanoseconds."""
    text = library.text("time_unit") or "1ns"
    match = re.fullmatch(r"([0-9.]+)\s*([unpf]s)", text)
    number = match and real_number(match[1])
    if not match or not number:
        line = library.lines["time_unit"]
        raise LibertyError(line, f"time_unit must be a time, such as 1ns, not {excerpt(text)}")
    return number * {"us": 1e3, "ns": 1.0, "ps": 1e-3, "fs": 1e-6}[match[2]]


def cells_of(library: Group) -> DelayLibrary:
    """Return the pins of all cells, by cell name."""
    return {cell.name: dict(map(_pin, cell.of("pin"))) for cell in library.of("cell")}


def read_groups(path: Path) -> Group:
    """Return the library group of a Liberty file. LibertyError if the file is no Liberty file."""
    text = path.read_text(errors="replace")
    words = _Words(_IGNORED.sub(lambda match: "\n" * match[0].count("\n"), text))
    top = Group("", "", 1)
    _fill(top, words, 0)
    libraries = top.of("library")
    if not libraries:
        raise LibertyError(1, "there must be a library")
    return libraries[0]


def _pin(group: Group) -> tuple[str, Pin]:
    output = group.text("direction") == "output"
    arcs = tuple(
        Arc(
            source=timing.text("related_pin"),
            sense=timing.text("timing_sense"),
            kind=timing.text("timing_type") or "combinational",
            tables={table.kind: Table.of(table) for table in timing.groups if table.kind in TABLES},
            line=timing.line,
        )
        for timing in group.of("timing")
    )
    capacitance = group.number("capacitance") or 0.0
    return group.name, Pin(capacitance, output, arcs, group.number("max_capacitance"))


class _Words:
    """Words of a text, with the line of the last word."""

    def __init__(self, text: str):
        self._words: Iterator[str] = iter(_TOKEN.findall(text))
        self.line = 1

    def next(self) -> str:
        """Return the next word; an empty text at the end."""
        for word in self._words:
            self.line += word.count("\n")
            if word != "\n":
                return word
        return ""

    def of(self, group: Group) -> str:
        """Return the next word, a part of ``group``. LibertyError at the end of the text."""
        word = self.next()
        if not word:
            raise LibertyError(self.line, f"the file ends within {group.kind} of line {group.line}")
        return word


def _fill(group: Group, words: _Words, depth: int) -> None:
    """Read everything up to the end of the group, or up to the end of the file at depth 0."""
    while word := words.of(group) if depth else words.next():
        if word == "}" and depth:
            return
        if word == ";":
            continue
        line = words.line
        following = words.of(group) if depth else words.next()
        if following == ":":
            group.values[word], group.lines[word] = [words.of(group).strip('"')], line
        elif following == "(":
            _call(group, word, line, words, depth)
        else:
            raise LibertyError(line, f'after {excerpt(word)} there must be ":" or "("')


def _call(group: Group, name: str, line: int, words: _Words, depth: int) -> None:
    """Read a group within a group, or a list attribute."""
    inner = Group(name, "", line)
    arguments: list[str] = []
    while (argument := words.of(inner)) != ")":
        if argument != ",":
            arguments.append(argument.strip('"'))
    following = words.next()
    if following != "{":
        group.values[name], group.lines[name] = arguments, line
        if following == "}":
            raise LibertyError(line, f'after {excerpt(name)}(...) there must be ";" before "}}"')
        return
    if depth == DEEPEST:
        raise LibertyError(line, f"there must be at most {DEEPEST} groups within each other")
    inner.name = arguments[0] if arguments else ""
    group.groups.append(inner)
    _fill(inner, words, depth + 1)


def _index(group: Group, name: str) -> tuple[float, ...]:
    points = group.numbers(name)
    if any(left >= right for left, right in pairwise(points)):
        shown = excerpt(", ".join(f"{point:g}" for point in points))
        raise LibertyError(group.lines[name], f"{name} must rise from point to point, not {shown}")
    return points


def _between(points: Sequence[float], value: float) -> tuple[int, float]:
    """Return the interval that contains ``value`` or is nearest to ``value``, and the position in
    the interval: 0 to 1 for a value inside."""
    if len(points) == 1:
        return 0, 0.0
    number = min(max(bisect_right(points, value) - 1, 0), len(points) - 2)
    return number, (value - points[number]) / (points[number + 1] - points[number])
