"""Tables of refusals as transcripts: what a user types, and below it what he is told, in full.

``>>>`` and ``...`` are Python, ``$`` is the shell. ``for name in values: call`` stands for as many
calls, with the message as an f-string; ``{a | b}`` in a command for as many commands, with
``{option}`` and ``{value}`` of each in the message. A line that begins with four spaces continues
the line above, after one space. ``NAME='words'`` is a variable of the commands that follow.
``<...>`` stands for words of Python or of the system. A line that begins with ``#`` is a comment.
Python that nothing is said to is set-up for what follows.
"""

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet


@dataclass
class Refusal:
    """What is typed, in one line of a file, after ``setup``, and the lines that are said to it."""

    line: int
    typed: str
    said: list[str] = field(default_factory=list)
    setup: str = ""

    def calls(self) -> Iterator[tuple[str, dict[str, object], str]]:
        """Every call in Python, the names that it uses, and the last line of its traceback."""
        said, names = "\n".join(self.said), _namespace(self.setup)
        (statement,) = ast.parse(self.typed).body
        if not isinstance(statement, ast.For):
            yield self.typed, names, said
            return
        target, (call,) = ast.unparse(statement.target), statement.body
        for values in eval(ast.unparse(statement.iter), names):
            own = names | {"values": values}
            exec(f"{target} = values", own)
            yield ast.unparse(call), own, eval(f'f"""{said}\n"""', own).rstrip("\n")

    def commands(self) -> Iterator[tuple[list[str], list[str]]]:
        """Every command, as words without the program's name, and the lines that are said to it."""
        found = re.search(r"\{(.+ \| .*)\}", self.typed)
        for each in found[1].split(" | ") if found else [""]:
            typed = self.typed.replace(found[0], each) if found else self.typed
            option, _, value = each.rpartition(" ")
            program, *words = shlex.split(typed)
            assert program == "diastole", self.typed
            put = (line.replace("{option}", option).replace("{value}", value) for line in self.said)
            yield words, list(put)


@cache
def _namespace(setup: str) -> dict[str, object]:
    names: dict[str, object] = {}
    exec(setup, names)
    return names


def answer(call: str, names: dict[str, object]) -> str:
    """What Python says to a call: the last line of its traceback, or nothing."""
    try:
        exec(call, dict(names))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def matches(said: str, found: str) -> bool:
    """Whether these words were said."""
    return bool(re.fullmatch(".*".join(map(re.escape, said.split("<...>"))), found, re.DOTALL))


def refusals(path: Path) -> list[Refusal]:
    """Every refusal of a table."""
    variables: dict[str, str] = {}
    entries: list[Refusal] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if found := re.fullmatch(r"([A-Z]+)='(.*)'", line):
            variables[found[1]] = found[2]
        elif line.startswith((">>> ", "$ ")):
            entries.append(Refusal(number, line.partition(" ")[2]))
        elif line.startswith("..."):
            entries[-1].typed += f"\n{line[4:]}"
        elif not line.startswith("    "):
            entries[-1].said.append(line)
        elif entries[-1].said:
            entries[-1].said[-1] += f" {line.strip()}"
        else:
            entries[-1].typed += f" {line.strip()}"
    for number, entry in enumerate(entries):
        before = (other.typed for other in entries[:number] if not other.said)
        entry.setup = "\n".join(before)
        entry.typed = re.sub(r"\$([A-Z]+)", lambda found: variables[found[1]], entry.typed)
    return [entry for entry in entries if entry.said]


def cases(*tables: Path) -> list[ParameterSet]:
    """The refusals of tables as parameters of a test, named by their place."""
    return [
        pytest.param(refusal, id=f"{path.stem}-{refusal.line}")
        for path in sorted(tables)
        for refusal in refusals(path)
    ]
