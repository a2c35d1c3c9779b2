"""Keep results as lines of JSON, one per run: an interrupted comparison continues from the file."""

import fcntl
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from diastole.compare.jobs import Record
from diastole.console import note
from diastole.errors import BadInput
from diastole.files import atomic
from diastole_sim.reading import parse_json, require_readable

MAX_BYTES = 1 << 28
"""Largest size of a file of results: a hundred thousand runs."""
BEGIN = b'{"key": '
"""Beginning of every line."""


class Results:
    """Runs of a file by key, made by :func:`opened`. Failed runs are not in ``done``, and are tried
    again."""

    def __init__(self, descriptor: int, done: dict[str, Record]):
        self._descriptor = descriptor
        self.done = done

    def add(self, record: Record) -> None:
        """Add a run. The run is on the disk when the method returns."""
        line = json.dumps(record).encode() + b"\n"
        assert line.startswith(BEGIN)
        while line:
            line = line[os.write(self._descriptor, line) :]
        os.fsync(self._descriptor)
        if record["error"] is None:
            self.done[record["key"]] = record


@contextmanager
def opened(path: Path) -> Generator[Results]:
    """Open the results in a file, which is created if absent.

    An incomplete last line, from a comparison that ended while writing, is removed. BadInput for a
    file without results, and for a file that another comparison is writing to.
    """
    try:
        if path.exists():
            require_readable(path, pipes=False)
        else:
            atomic.check_writable(path)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    try:
        _lock(descriptor, path)
        yield Results(descriptor, _read(descriptor, path))
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BadInput(f"{path}: another comparison is writing to this file") from None
    except OSError as error:  # a file system without locks, or no regular file
        raise BadInput(f"{path}: cannot be locked: {error.strerror}") from None


def _read(descriptor: int, path: Path) -> dict[str, Record]:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise BadInput(
            f"{path}: is not a file of results: the file has more than {MAX_BYTES} bytes"
        )
    *lines, rest = content.split(b"\n")
    records = [_parsed(line, number, path) for number, line in enumerate(lines, 1)]
    if rest:
        if not rest.startswith(BEGIN[: len(rest)]):
            raise _stranger(path, len(lines) + 1)
        os.ftruncate(descriptor, len(content) - len(rest))
        note(f"{path}: the last line is incomplete and was dropped")
    return {record["key"]: record for record in records if record["error"] is None}


def _parsed(line: bytes, number: int, path: Path) -> Record:
    try:
        record: Any = parse_json(line)
        if not line.startswith(BEGIN) or not {"key", "seed", "error"} <= set(record):
            raise ValueError
        return record
    except (ValueError, TypeError):
        raise _stranger(path, number) from None


def _stranger(path: Path, line: int) -> BadInput:
    return BadInput(f"{path}: line {line} is not a result of a comparison; give another file")
