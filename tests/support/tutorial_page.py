"""Tutorial pages as readers follow them: files, commands and printed lines, in page order.

- A block ``console`` has commands after ``$``, each followed by the lines that the command prints.
  ``...`` stands for any text within a line, and alone on a line for any number of lines.
- A line that is indented by four spaces and begins with a program of :data:`PROGRAMS` is a command
  whose output the page does not state.
- A block after a paragraph that ends in "file `NAME`:" or "file `NAME` ...:" is a file.
- A block ``sh`` has commands that take too long for tests. Only their options are checked.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from support.sources import ROOT

PROGRAMS = ("diastole", "python", "make", "source", "mkdir")
SET_UP = re.compile(r"make [a-z][a-z0-9-]*$|source |mkdir ")
"""Commands before and beside a page: targets of the repository, which other tests run, and the
reader's own folder, in place of which a test has a temporary one."""
_PIECE = re.compile(
    r"^```(?P<language>\w*)\n(?P<block>.*?)^```$|^ {4}(?P<line>\S[^\n]*)$", re.MULTILINE | re.DOTALL
)
_FILE = re.compile(r"\bfile `([\w./]+)`[^`\n]*(?:\n[^`\n]+)*:\n\n\Z")


@dataclass(frozen=True)
class File:
    """A file that the reader writes."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command. ``printed``: the stated lines, None if the page states no output. ``followed``:
    False for a command that takes too long."""

    line: str
    printed: str | None = None
    followed: bool = True


Step: TypeAlias = File | Command


def page(name: str) -> str:
    """Return the text of a page of ``docs``."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def steps(text: str) -> Iterator[Step]:
    """Yield the files and commands of a page. ValueError for a block that is neither."""
    for piece in _PIECE.finditer(text):
        language, block, line = piece["language"], piece["block"], piece["line"]
        if line is not None:
            if line.split()[0] in PROGRAMS:
                yield Command(line)
        elif language == "console":
            yield from _session(block)
        elif language == "sh":
            yield from (Command(each, followed=False) for each in block.splitlines())
        elif found := _FILE.search(text[: piece.start()]):
            yield File(found[1], block)
        else:
            raise ValueError(f"neither a file nor commands: ```{language}\n{block}")


def _session(block: str) -> Iterator[Command]:
    """Yield the commands of a block ``console``."""
    first, *others = re.split(r"^\$ ", block, flags=re.MULTILINE)
    if first or not others:
        raise ValueError(f"a console block begins with a command: {block}")
    for each in others:
        line, _, printed = each.partition("\n")
        yield Command(line, printed)


def prints(stated: str, found: str) -> bool:
    """Return whether a command printed what a page states."""
    pattern = ""
    for line in stated.splitlines():
        parts = map(re.escape, line.rstrip().split("..."))
        pattern += r"(?:.*\n)*?" if line == "..." else r"[^\n]*".join(parts) + "\n"
    lines = "".join(f"{line.rstrip()}\n" for line in found.splitlines())
    return re.fullmatch(pattern, lines) is not None


def follow(text: str, folder: Path) -> None:
    """Do all steps of a page in a folder. AssertionError where the page is wrong."""
    for step in steps(text):
        if isinstance(step, File):
            (folder / step.name).write_text(step.text, encoding="utf-8")
        elif step.followed and not SET_UP.match(step.line):
            done = subprocess.run(
                ["/bin/sh", "-c", step.line],
                cwd=folder, env=readers_environment(), capture_output=True, text=True,
            )  # fmt: skip
            said = f"$ {step.line}\n{done.stdout}{done.stderr}"
            assert done.returncode == 0, said
            assert step.printed is None or prints(step.printed, done.stdout), said


def readers_environment() -> Mapping[str, str]:
    """Return the environment of a reader after ``source .venv/bin/activate``: without the programs
    that tests put on PATH."""
    given = {key: value for key, value in os.environ.items() if key != "VERILATOR_ROOT"}
    offered = os.environ.get("VERILATOR_ROOT", "")
    folders = [each for each in given["PATH"].split(os.pathsep) if each != f"{offered}/bin"]
    own = str(Path(sys.executable).parent)
    return given | {"PATH": os.pathsep.join([own, *folders]), "LC_ALL": "C"}


def command_words(text: str, program: str) -> list[list[str]]:
    """Return the words of every call of a program, without the program's name."""
    lines = [step.line for step in steps(text) if isinstance(step, Command)]
    return [shlex.split(line)[1:] for line in lines if line.split()[0] == program]
