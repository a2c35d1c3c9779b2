"""What the commands print: results on standard output, everything else on standard error.

Whatever the user's names hold, and whatever the terminal can show: what it cannot is escaped.
"""

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TextIO

from diastole.errors import BadInput


def say(text: str) -> None:
    """A result for people; not used with ``--json``. BadInput where it cannot be written."""
    _print_result(_shown(text))


def say_next(text: str) -> None:
    """What a user may do with a result: its last line; not used with ``--json``."""
    say(f"next: {text}")


def print_json(record: dict[str, Any]) -> None:
    """The one object that ``--json`` puts on standard output."""
    _print_result(json.dumps(record, indent=2))


def note(text: str) -> None:
    """Something worth knowing that is no result, on one line."""
    _remark(one_line(text))


def warn(text: str) -> None:
    note(f"warning: {text}")


def fail(text: str) -> None:
    """A mistake or a failure; the state of a machine that hangs takes more lines."""
    _remark(_shown(f"error: {text}"))


def one_line(text: str) -> str:
    """``text`` with its line breaks escaped, as names of files and arrays may have them."""
    return _shown(text).replace("\n", "\\n")


def flush() -> None:
    """Writes out what was said. BadInput where that fails."""
    if sys.stdout is not None:
        with _judged():
            sys.stdout.flush()


@contextmanager
def _judged() -> Generator[None]:
    """A full disk is an error; if nobody reads, that is the reader's right, and work goes on.

    Either way Python is not to try again what it still holds when it ends.
    """
    try:
        yield
    except BrokenPipeError:
        _redirect_to_null(1)
    except OSError as error:
        _redirect_to_null(1)
        raise BadInput(f"standard output: {error.strerror}") from None


def _redirect_to_null(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


def _shown(text: str) -> str:
    """``text`` without what would move a terminal's cursor, but for line breaks."""
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


def _print_result(text: str) -> None:
    if sys.stdout is None:  # closed by whoever started us
        raise BadInput("standard output is closed")
    with _judged():
        print(_encodable(text, sys.stdout), flush=True)


def _remark(text: str) -> None:
    if sys.stderr is None:  # print would take standard output instead
        return
    try:
        print(_encodable(f"diastole: {text}", sys.stderr), file=sys.stderr, flush=True)
    except OSError:  # there is nobody left to tell
        _redirect_to_null(2)


def _encodable(text: str, stream: TextIO) -> str:
    """``text`` with escapes for the characters that the stream's encoding lacks."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
