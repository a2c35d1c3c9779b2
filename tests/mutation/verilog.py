"""Emitted Verilog, as far as faults need it: the few forms of statement that Yosys writes.

Every statement is a line of its own, but for instances and the frames of `always` and `casez`.
Numbers of temporaries, which change with every line of the sources, are never part of a name.
"""

import functools
import re
from dataclasses import dataclass

NAME = r"(?:\\\S+ |[A-Za-z_][\w$]*)"
PLACE = rf"{NAME}(?:\[\d+(?::\d+)?\])?"
TEMPORARY = re.compile(r"_\d+_")
_MODULE = re.compile(r"^module ([\w$]+)\s*\(.*?^endmodule$", re.M | re.S)
_DECLARED = re.compile(
    rf"^ *(input|output|wire|reg) (?:reg )?(?:\[(\d+):(\d+)\] )?({NAME})(?: = [^;,\n]+)?[;,]?$",
    re.M,
)
_TOGETHER = re.compile(r"^  (?:wire|reg) (?:\[(\d+):(\d+)\] )?(_\d+_(?:,\s+_\d+_)+);$", re.M)
_ASSIGN = re.compile(rf"^  assign (?P<to>{PLACE}) = (?P<value>.+);$", re.M)
_CLOCKED = re.compile(rf"^ +(?:if \(.+\) )?(?P<to>{PLACE}) <= (?P<value>.+);$", re.M)
_CHOSEN = re.compile(rf"^ +(?P<to>{PLACE}) = (?P<value>.+);$", re.M)
_CONDITION = re.compile(r"^ +(?:end else )?if \((?P<value>.+)\) begin$", re.M)
_CASE = re.compile(r"^ +casez \((?P<value>.+)\)$", re.M)
_INSTANCE = re.compile(rf"^  ({NAME}) ({NAME}) \(\n(.*?)^  \);$", re.M | re.S)
_PORT = re.compile(r"\.([\w$]+)\((.*)\)")
_BLOCK = re.compile(r"^  always @\* begin$.*?^  end$", re.M | re.S)
_TOKEN = re.compile(rf"\s*(\d*'s?[hbd][0-9a-fxz?]+|\$?{NAME}|\d+|<<<|>>>|<<|>>|[<>=!]=|&&|\|\||.)")
ALWAYS_DRIVEN = ("time_zero",)


@dataclass(frozen=True)
class Statement:
    """``form``: assign, chosen (in `always @*`), clocked, condition or case; a condition and a case
    have no ``to``. ``start`` and ``end`` are of the line, ``at`` of ``value``, in the module."""

    form: str
    to: str
    value: str
    start: int
    end: int
    at: int
    nested: bool = False


@dataclass(frozen=True)
class Instance:
    """``ports``: by name, what it is connected to."""

    module: str
    name: str
    ports: dict[str, str]
    start: int
    end: int


def tokens(text: str) -> list[tuple[str, int]]:
    """The words of an expression, each with its place."""
    return [(found[1].strip(), found.start(1)) for found in _TOKEN.finditer(text)]


def names(text: str) -> list[str]:
    """The signals that an expression reads."""
    return [word for word, _ in tokens(text) if re.match(r"[A-Za-z_\\]", word)]


def base(place: str) -> str:
    """The signal of a part of a signal."""
    return re.match(NAME, place)[0].strip()


def modules(text: str) -> dict[str, "Source"]:
    """Every module of a file, by name."""
    return {found[1]: Source(found[1], found[0]) for found in _MODULE.finditer(text)}


class Source:
    """One module's text."""

    def __init__(self, name: str, text: str):
        self.name, self.text = name, text

    @functools.cached_property
    def widths(self) -> dict[str, int]:
        found = {}
        for match in _DECLARED.finditer(self.text):
            high, low = int(match[2] or 0), int(match[3] or 0)
            found[match[4].strip()] = high - low + 1
        for match in _TOGETHER.finditer(self.text):
            high, low = int(match[1] or 0), int(match[2] or 0)
            found |= dict.fromkeys(re.split(r",\s+", match[3]), high - low + 1)
        return found

    @functools.cached_property
    def directions(self) -> dict[str, str]:
        """Of the ports: input or output."""
        return {
            match[4].strip(): match[1]
            for match in _DECLARED.finditer(self.text)
            if match[1] in ("input", "output")
        }

    @functools.cached_property
    def statements(self) -> list[Statement]:
        found = []
        for form, pattern in {
            "assign": _ASSIGN,
            "clocked": _CLOCKED,
            "chosen": _CHOSEN,
            "condition": _CONDITION,
            "case": _CASE,
        }.items():
            for match in pattern.finditer(self.text):
                groups = match.groupdict()
                inside = any(start < match.start() < end for start, end in self._blocks)
                if inside == (form in ("assign", "clocked")) or "time_zero" in match[0]:
                    continue
                found.append(
                    Statement(
                        form=form,
                        to=(groups.get("to") or "").strip(),
                        value=groups["value"],
                        start=match.start(),
                        end=match.end(),
                        at=match.start("value"),
                        nested=match[0].startswith("      "),
                    )
                )
        return sorted(found, key=lambda statement: statement.start)

    @functools.cached_property
    def instances(self) -> list[Instance]:
        return [
            Instance(
                match[1].strip(), match[2].strip(), dict(_PORT.findall(match[3])), *match.span()
            )
            for match in _INSTANCE.finditer(self.text)
        ]

    def guarded(self, statement: Statement) -> str:
        """The signal that a condition or a case decides on: each block assigns one."""
        for other in self._block_of(statement):
            if other.to:
                return base(other.to)
        return ""

    def guard(self, statement: Statement) -> str:
        """The condition or case that a statement stands in, or the nearest before it."""
        before = [s for s in self._block_of(statement) if not s.to and s.start < statement.start]
        return before[-1].value if before else ""

    def _block_of(self, statement: Statement) -> list[Statement]:
        for start, end in self._blocks:
            if start < statement.start < end:
                return [s for s in self.statements if start < s.start < end]
        return []

    @functools.cached_property
    def _blocks(self) -> list[tuple[int, int]]:
        return [match.span() for match in _BLOCK.finditer(self.text)]

    def width(self, place: str) -> int:
        bits = re.search(r"\[(\d+)(?::(\d+))?\]$", place)
        if bits is None:
            return self.widths[base(place)]
        return int(bits[1]) - int(bits[2] or bits[1]) + 1

    @functools.cached_property
    def registers(self) -> set[str]:
        return {base(s.to) for s in self.statements if s.form == "clocked"}

    @functools.cached_property
    def reads(self) -> dict[str, set[str]]:
        """By signal, those that its value follows from; conditions count for what they choose."""
        found: dict[str, set[str]] = {}
        for statement in self.statements:
            if statement.to:
                found.setdefault(base(statement.to), set()).update(names(statement.value))
        for match in _BLOCK.finditer(self.text):
            inside = [s for s in self.statements if match.start() < s.start < match.end()]
            read = {n for s in inside if not s.to for n in names(s.value)}
            for target in {base(s.to) for s in inside if s.to}:
                found.setdefault(target, set()).update(read)
        return found

    @functools.cached_property
    def live(self) -> set[str]:
        """The signals that an output or an instance depends on."""
        todo = [name for name, way in self.directions.items() if way == "output"]
        todo += [
            n for inst in self.instances for value in inst.ports.values() for n in names(value)
        ]
        found: set[str] = set()
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += self.reads.get(name, ())
        return found

    def sources(self, target: str) -> set[str]:
        """Signals that ``target`` follows from in the same cycle: reading one makes no loop."""
        found: set[str] = set()
        todo = list(self.reads.get(target, ()))
        while todo:
            name = todo.pop()
            if name not in found and name != target:
                found.add(name)
                if name not in self.registers:
                    todo += self.reads.get(name, ())
        return found

    @functools.cached_property
    def _meanings(self) -> dict[str, str]:
        """What a temporary stands for: its definition, or the signal that it is chosen for."""
        found = {}
        for s in self.statements:
            if s.form == "clocked" and TEMPORARY.fullmatch(s.value):
                found[s.value] = f"{s.to} next"
        for s in self.statements:
            if s.form == "assign" and TEMPORARY.fullmatch(s.to):
                found.setdefault(s.to, f"({s.value})")
        return found

    def described(self, text: str, depth: int = 3) -> str:
        """An expression without numbers of temporaries: what they stand for instead."""
        if depth:
            text = TEMPORARY.sub(
                lambda m: self.described(self._meanings.get(m[0], "_"), depth - 1), text
            )
        return TEMPORARY.sub("_", text)
