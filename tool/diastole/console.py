"""Print results on standard output, and everything else on standard error.

Names of users may hold any character. Characters that the terminal cannot show are escaped.
"""

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TextIO

from diastole.errors import BadInput


def say(text: str) -> None:
    """Print a result for people; not used with ``--json``. BadInput if the text cannot be
    written."""
    _print_result(_printable(text))


def say_next(text: str) -> None:
    """Print the last line of a result, with a next step for the user; not used with ``--json``."""
    say(f"next: {text}")


def print_json(record: dict[str, Any]) -> None:
    """Print the single JSON object of ``--json`` on standard output."""
    _print_result(json.dumps(record, indent=2))


def note(text: str) -> None:
    """Print a remark, which is no result, on a single line."""
    _remark(one_line(text))


def warn(text: str) -> None:
    note(f"warning: {text}")


def fail(text: str) -> None:
    """Print a mistake or a failure. The state of a machine that hangs takes more than one line."""
    _remark(_printable(f"error: {text}"))


def one_line(text: str) -> str:
    """Return ``text`` with escaped line breaks, which names of files and arrays may have."""
    return _printable(text).replace("\n", "\\n")


def flush() -> None:
    """Write out the printed text. BadInput if the write fails."""
    if sys.stdout is not None:
        with _judged():
            sys.stdout.flush()


@contextmanager
def _judged() -> Generator[None]:
    """Raise BadInput for a failed write, as on a full disk. If the reader closes the pipe, work
    goes on.

    After a failure, output goes to the null device: Python does not write the remaining text at
    exit.
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


def _printable(text: str) -> str:
    """Return ``text`` without characters that would move a terminal's cursor, except line
    breaks."""
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


def _print_result(text: str) -> None:
    if sys.stdout is None:  # the calling process closed standard output
        raise BadInput("standard output is closed")
    with _judged():
        print(_encodable(text, sys.stdout), flush=True)


def _remark(text: str) -> None:
    if sys.stderr is None:  # print would take standard output instead
        return
    try:
        print(_encodable(f"diastole: {text}", sys.stderr), file=sys.stderr, flush=True)
    except OSError:  # no reader is left
        _redirect_to_null(2)


def _encodable(text: str, stream: TextIO) -> str:
    """Return ``text`` with escapes for the characters that the stream's encoding lacks."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
