"""Shorten Verilog and keep the meaning: declarations and connections, which Yosys writes one by
one, are joined."""

import re
import textwrap
from collections.abc import Iterator

WIDTH = 100
"""Most columns of a declaration."""
_TEMPORARY = re.compile(r"^  (wire|reg) (\[\d+:\d+\] )?(_\d+_);\n", re.MULTILINE)
_TEMPORARIES = re.compile(rf"(?:{_TEMPORARY.pattern})+", re.MULTILINE)
_PART = r"(\w+)\[(\d+)(?::(\d+))?\]"
_CONNECTION = re.compile(rf"^  assign {_PART} = {_PART};\n", re.MULTILINE)
_CONNECTIONS = re.compile(rf"(?:{_CONNECTION.pattern}){{2,}}", re.MULTILINE)


def condense(module: str) -> str:
    """Return the text of a module, as Yosys writes it, in a shorter form. Intermediate results of
    equal width are declared together. Adjacent parts of a signal are connected together."""
    module = _TEMPORARIES.sub(lambda match: "".join(_declared(match[0])), module)
    return _CONNECTIONS.sub(lambda match: "".join(_connected(match[0])), module)


def _declared(lines: str) -> Iterator[str]:
    """Yield a joint declaration for every kind and width, in the order of first appearance."""
    names: dict[str, list[str]] = {}
    for kind, bits, name in _TEMPORARY.findall(lines):
        names.setdefault(f"{kind} {bits}", []).append(name)
    for what, members in names.items():
        text = what + ", ".join(members) + ";"
        yield textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="    ") + "\n"


def _connected(lines: str) -> Iterator[str]:
    """Yield connections; parts that are adjacent in both signals, highest bit first, become a
    single connection."""
    to, of = ("", 0, 0), ("", 0, 0)
    for parts in _CONNECTION.findall(lines):
        next_to, next_of = _part(*parts[:3]), _part(*parts[3:])
        if _adjacent(to, next_to) and _adjacent(of, next_of):
            to, of = (*to[:2], next_to[2]), (*of[:2], next_of[2])
            continue
        if to[0]:
            yield _assign(to, of)
        to, of = next_to, next_of
    yield _assign(to, of)


def _part(name: str, high: str, low: str) -> tuple[str, int, int]:
    return name, int(high), int(low or high)


def _adjacent(upper: tuple[str, int, int], lower: tuple[str, int, int]) -> bool:
    return upper[0] == lower[0] and upper[2] == lower[1] + 1


def _assign(to: tuple[str, int, int], of: tuple[str, int, int]) -> str:
    left, right = (
        f"{name}[{high}]" if high == low else f"{name}[{high}:{low}]"
        for name, high, low in (to, of)
    )
    return f"  assign {left} = {right};\n"
