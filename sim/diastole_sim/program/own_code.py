"""Load a function or class from a Python file of a user, and report errors of the file in words."""

import hashlib
import linecache
import re
import sys
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from importlib.util import decode_source
from pathlib import Path
from types import ModuleType
from typing import Any

from diastole_sim.reading import TooLargeError, read_bytes, require_readable
from diastole_sim.spec.require import excerpt

FORM = "FILE.py:NAME"
"""Form of a reference to a user's code."""
MAX_BYTES = 1 << 20
"""Largest accepted size of a file, far above any sensible file."""
_BRACES = re.compile(r"\{[^{}]*\}")
MAX_NAMES = 8
"""Most names in a message."""


class OwnCodeError(ValueError):
    """Report that a user's code cannot be used. The message is one line with the place and the
    reason."""


class OwnNameError(OwnCodeError):
    """Report that a file does not define ``name``. ``names``: names that the file defines."""

    def __init__(self, file: str, name: str, names: Sequence[str]):
        self.name, self.names = name, tuple(names)
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        listed = ", ".join(names[:MAX_NAMES]) or "no function or class"
        super().__init__(f"{file} does not define {name}; the file defines {listed}{more}")


@dataclass(frozen=True, kw_only=True)
class OwnCode:
    """Reference to ``name`` in ``file``, as the user gave the two.

    - ``source``: text of the file when it was read. All processes run this text, even if the file
      changes.
    - ``sha256``: SHA-256 of the bytes of the file.
    """

    file: str
    name: str
    sha256: str
    source: str = field(repr=False)

    @classmethod
    def read(cls, text: str) -> "OwnCode":
        """Return the code of a reference in the form :data:`FORM`. The last colon ends the name of
        the file. OwnCodeError if the file does not exist or is no Python text."""
        file, _, name = text.rpartition(":")
        if not file or not name.isidentifier():
            raise OwnCodeError(
                f"must be {FORM}, where NAME is a name in the file, not {excerpt(text)}"
            )
        path = Path(file)
        try:
            require_readable(path, pipes=False)
            content = read_bytes(path, MAX_BYTES)
        except FileNotFoundError:
            raise OwnCodeError(f"there is no file {file}") from None
        except TooLargeError as error:
            raise OwnCodeError(f"{file}: is not a Python file: the file {error.strerror}") from None
        except OSError as error:
            raise OwnCodeError(f"{file}: {error.strerror}") from None
        try:
            source = decode_source(content)
        except (SyntaxError, UnicodeDecodeError, LookupError):
            raise OwnCodeError(f"{file}: is not a Python file: the text is not UTF-8") from None
        digest = hashlib.sha256(content).hexdigest()
        return cls(file=file, name=name, sha256=digest, source=source)

    def __str__(self) -> str:
        return f"{self.file}:{self.name}"

    def load(self) -> Any:
        """Return the object with the name. OwnCodeError if the file fails or does not define the
        name."""
        module = _module(self.file, self.source)
        try:
            return vars(module)[self.name]
        except KeyError:
            raise OwnNameError(self.file, self.name, _names_of(module)) from None

    @contextmanager
    def running(self, what: str) -> Generator[None]:
        """Turn every error in the block, which runs code of the file, into an OwnCodeError.
        ``what``: description of the block for messages. Text that the code prints goes to standard
        error."""
        try:
            with redirect_stdout(sys.stderr):
                yield
        except (OwnCodeError, KeyboardInterrupt):
            raise
        except BaseException as error:
            message = f"{what}{_failure(error, self.file)}"
            where = "" if message.startswith(self.file) else f"{self.file}: "
            raise OwnCodeError(f"{where}{message}") from error

    def line_of(self, text: str) -> int | None:
        """Return the number of the line with this text, apart from a comment. A line of an f-string
        matches if its braces can be filled to give the text. None if no line or several lines
        match."""
        words = " ".join(text.partition("#")[0].split())
        lines = [" ".join(line.partition("#")[0].split()) for line in self.source.splitlines()]
        matches = [n for n, line in enumerate(lines, 1) if line and _pattern(line).fullmatch(words)]
        return matches[0] if len(matches) == 1 else None


def _pattern(line: str) -> re.Pattern[str]:
    """Return a pattern of all texts that a line can become when its braces are filled in."""
    parts = _BRACES.split(line)
    return re.compile(".*".join(map(re.escape, parts)) if any(parts) else re.escape(line))


def guarded(
    code: OwnCode, what: str, function: Callable[..., Any], *args: Any, **named: Any
) -> Any:
    """Return the result of a function of the file. OwnCodeError if the function fails."""
    with code.running(f"{code}: {what} fails: "):
        return function(*args, **named)


@cache
def _module(file: str, source: str) -> ModuleType:
    """Run the file and return the module. The module has a unique name in ``sys.modules``, since
    dataclasses look up the module by name."""
    digest = hashlib.sha256(f"{file}\0{source}".encode()).hexdigest()
    module = ModuleType(f"own_code_{digest[:16]}")
    module.__file__ = str(Path(file).absolute())
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    code = OwnCode(file=file, name="", sha256="", source=source)
    sys.modules[module.__name__] = module
    try:
        with code.running(""):
            exec(compile(source, file, "exec", dont_inherit=True), vars(module))
    except BaseException:
        del sys.modules[module.__name__]
        raise
    return module


def _failure(error: BaseException, file: str) -> str:
    """Return a text with the place of an error in a file, and the message."""
    if isinstance(error, SyntaxError) and error.filename == file:
        line, message = error.lineno, error.msg
    else:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((each.lineno for each in reversed(frames) if each.filename == file), None)
        message = str(error) or "no message"
    kind = type(error).__name__
    if line is None:
        return f"{kind}: {message}"
    text = linecache.getline(file, line).strip()
    return f"{file}, line {line}: {kind}: {message}" + (f": {text}" if text else "")


def _names_of(module: ModuleType) -> list[str]:
    """Return the public names that the module itself defines: functions, classes, and objects such
    as networks."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (
            getattr(value, "__module__", None) == module.__name__
            or not (isinstance(value, (ModuleType, type)) or hasattr(value, "__qualname__"))
        )
    ]
