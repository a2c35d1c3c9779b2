"""Read the cells of a Liberty file as far as areas need the cells: area, function, registers."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

from diastole.errors import BadInput
from diastole.files.content import read_content
from diastole_sim.spec.require import excerpt, real_number

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_CELL = re.compile(r"\bcell\s*\(\s*\"?([^\s\")]+)\"?\s*\)\s*\{")
_PIN = re.compile(r"\bpin\s*\(\s*\"?([^\s\")]+)\"?\s*\)\s*\{")
_BRACE = re.compile(r"[{}]")
_STATE = re.compile(r"\b(ff|latch|ff_bank|latch_bank|statetable)\s*\(")
_LATCH = re.compile(r"\b(latch|latch_bank)\s*\(")
_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|[01]|[!'*&+|^()])")


@dataclass(frozen=True, kw_only=True)
class LibraryCell:
    """Cell of a library: area in the library's unit, input pins, functions of the outputs.
    ``sequential``: True for registers and latches. ``latch``: True if the state is the state of a
    latch."""

    name: str
    area: float
    inputs: tuple[str, ...]
    functions: tuple[str, ...]
    sequential: bool
    latch: bool = False

    @property
    def is_nand2(self) -> bool:
        """True if the cell has a single output, the NAND of two inputs."""
        if len(self.inputs) != 2 or len(self.functions) != 1 or self.sequential:
            return False
        for values in product((False, True), repeat=2):
            value = evaluated(self.functions[0], dict(zip(self.inputs, values, strict=True)))
            if value != (not all(values)):
                return False
        return True

    @property
    def is_buffer(self) -> bool:
        """True if the cell has a single input, and a single output equal to the input."""
        if len(self.inputs) != 1 or len(self.functions) != 1 or self.sequential:
            return False
        (source,), (function,) = self.inputs, self.functions
        return [evaluated(function, {source: on}) for on in (False, True)] == [False, True]


@dataclass(frozen=True, kw_only=True)
class Library:
    """File of standard cells, with the area of the smallest NAND2 in the file."""

    path: Path
    cells: dict[str, LibraryCell]
    nand2_area: float

    @classmethod
    def read(cls, path: Path) -> "Library":
        """Return the library of a file. BadInput if the file is missing or has no two-input
        NAND."""
        return _read(path.resolve())

    @property
    def buffers(self) -> list[str]:
        """Cells whose output equals the input, the smallest cell first."""
        cells = [cell for cell in self.cells.values() if cell.is_buffer]
        return [cell.name for cell in sorted(cells, key=lambda cell: (cell.area, cell.name))]

    @property
    def buffer(self) -> str | None:
        """Second smallest buffer; the only buffer of a library with a single buffer; None without
        buffers."""
        return next(iter(self.buffers[1:] or self.buffers), None)

    def nand2(self, name: str) -> float:
        """Return the area of a cell in NAND2 equivalents. KeyError if the library has no cell of
        this name."""
        return self.cells[name].area / self.nand2_area


MAX_BYTES = 1 << 30
"""Largest size of a library: several times the largest library of a foundry."""


@cache
def _read(path: Path) -> Library:
    content = read_content(path, MAX_BYTES, "library of cells", pipes=False)  # for Yosys too
    text = content.decode(errors="replace")
    try:
        plain = _COMMENT.sub(lambda match: " " + "\n" * match[0].count("\n"), text)
        cells = {cell.name: cell for cell in _cells(plain)}
    except ValueError as error:  # malformed number
        raise BadInput(f"{path}: {error}") from error
    nands = [cell.area for cell in cells.values() if cell.is_nand2 and cell.area > 0]
    if not nands:
        raise BadInput(f"{path}: is not a library of cells with a NAND of two inputs")
    return Library(path=path, cells=cells, nand2_area=min(nands))


def _cells(text: str) -> Iterator[LibraryCell]:
    for match in _CELL.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield _cell(match.group(1), _block(text, match.end()), line)


def _cell(name: str, text: str, line: int) -> LibraryCell:
    pins = {match.group(1): _block(text, match.end()) for match in _PIN.finditer(text)}
    # Attributes before the first pin or inner group of the cell may also follow the pins.
    area_text = re.search(r"\barea\s*:\s*\"?([^\s\";}]*)", text)
    area = real_number(area_text[1]) if area_text else 0.0
    if area is None or area < 0:
        what = excerpt(area_text[1]) if area_text and area_text[1] else "nothing"
        raise ValueError(
            f"line {line}: cell {excerpt(name)}: area must be a number from 0, not {what}"
        )
    functions = (re.search(r"\bfunction\s*:\s*\"([^\"]*)\"", pin) for pin in pins.values())
    return LibraryCell(
        name=name,
        area=area,
        inputs=tuple(pin for pin, words in pins.items() if _is_input(words)),
        functions=tuple(match.group(1) for match in functions if match),
        sequential=_STATE.search(text) is not None,
        latch=_LATCH.search(text) is not None,
    )


def _is_input(pin: str) -> bool:
    return re.search(r"\bdirection\s*:\s*\"?input", pin) is not None


def _block(text: str, begin: int) -> str:
    """Return the text between an opening brace that ends at ``begin`` and the matching closing
    brace."""
    depth = 1
    for brace in _BRACE.finditer(text, begin):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return text[begin : brace.start()]
    return text[begin:]


def evaluated(function: str, values: dict[str, bool]) -> bool | None:
    """Return the value of a Liberty function for these values of the pins. None if the function
    does not follow from these pins alone.

    Operators, from the loosest: ``+`` or ``|``; ``*``, ``&`` or nothing; ``^``; prefix ``!``,
    suffix ``'``.
    """
    tokens = _TOKEN.findall(function)
    if "".join(tokens) != re.sub(r"\s", "", function):
        return None
    try:
        value, rest = _either(tokens, values)
    except (IndexError, KeyError):
        return None
    return None if rest else value


_Parsed = tuple[bool, list[str]]


def _either(tokens: list[str], values: dict[str, bool]) -> _Parsed:
    value, tokens = _both(tokens, values)
    while tokens[:1] in (["+"], ["|"]):
        other, tokens = _both(tokens[1:], values)
        value = value or other
    return value, tokens


def _both(tokens: list[str], values: dict[str, bool]) -> _Parsed:
    value, tokens = _differ(tokens, values)
    while tokens and tokens[0] not in ("+", "|", ")"):
        other, tokens = _differ(tokens[tokens[0] in ("*", "&") :], values)
        value = value and other
    return value, tokens


def _differ(tokens: list[str], values: dict[str, bool]) -> _Parsed:
    value, tokens = _literal(tokens, values)
    while tokens[:1] == ["^"]:
        other, tokens = _literal(tokens[1:], values)
        value = value != other
    return value, tokens


def _literal(tokens: list[str], values: dict[str, bool]) -> _Parsed:
    first, tokens = tokens[0], tokens[1:]
    if first == "!":
        value, tokens = _literal(tokens, values)
        return not value, tokens
    if first == "(":
        value, tokens = _either(tokens, values)
        if tokens[0] != ")":
            raise IndexError(tokens)
        tokens = tokens[1:]
    elif first in ("0", "1"):
        value = first == "1"
    else:
        value = values[first]
    while tokens[:1] == ["'"]:
        value, tokens = not value, tokens[1:]
    return value, tokens
