"""Shorter Verilog of the same meaning: what Yosys declares and connects one by one, together."""

import re
import textwrap
from collections.abc import Iterator

WIDTH = 100
"""Columns of a declaration at most."""
_TEMPORARY = re.compile(r"^  (wire|reg) (\[\d+:\d+\] )?(_\d+_);\n", re.MULTILINE)
_TEMPORARIES = re.compile(rf"(?:{_TEMPORARY.pattern})+", re.MULTILINE)
_PART = r"(\w+)\[(\d+)(?::(\d+))?\]"
_CONNECTION = re.compile(rf"^  assign {_PART} = {_PART};\n", re.MULTILINE)
_CONNECTIONS = re.compile(rf"(?:{_CONNECTION.pattern}){{2,}}", re.MULTILINE)


def condense(module: str) -> str:
    """The text of one module as Yosys writes it, with intermediate results declared together that
    are as wide, and with parts of a signal that lie side by side connected together."""
    module = _TEMPORARIES.sub(lambda found: "".join(_declared(found[0])), module)
    return _CONNECTIONS.sub(lambda found: "".join(_connected(found[0])), module)


def _declared(lines: str) -> Iterator[str]:
    """Those of each kind and width, in the order of the first ones."""
    names: dict[str, list[str]] = {}
    for kind, bits, name in _TEMPORARY.findall(lines):
        names.setdefault(f"{kind} {bits}", []).append(name)
    for what, of_it in names.items():
        text = what + ", ".join(of_it) + ";"
        yield textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="    ") + "\n"


def _connected(lines: str) -> Iterator[str]:
    """Parts that follow each other, highest bit first, in both signals."""
    to, of = ("", 0, 0), ("", 0, 0)
    for found in _CONNECTION.findall(lines):
        next_to, next_of = _part(*found[:3]), _part(*found[3:])
        if _beside(to, next_to) and _beside(of, next_of):
            to, of = (*to[:2], next_to[2]), (*of[:2], next_of[2])
            continue
        if to[0]:
            yield _assign(to, of)
        to, of = next_to, next_of
    yield _assign(to, of)


def _part(name: str, high: str, low: str) -> tuple[str, int, int]:
    return name, int(high), int(low or high)


def _beside(upper: tuple[str, int, int], lower: tuple[str, int, int]) -> bool:
    return upper[0] == lower[0] and upper[2] == lower[1] + 1


def _assign(to: tuple[str, int, int], of: tuple[str, int, int]) -> str:
    left, right = (
        f"{name}[{high}]" if high == low else f"{name}[{high}:{low}]"
        for name, high, low in (to, of)
    )
    return f"  assign {left} = {right};\n"
