"""Reads files that a user names: regular files and pipes, which end, and never beyond a bound."""

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

MAX_MANIFEST_BYTES = 1 << 26
"""Of a product's manifest: a hundred times the largest."""


class TooLargeError(OSError):
    """A file has more bytes than such a file can have."""


def require_readable(path: Path, *, pipes: bool = True) -> None:
    """Raise OSError, which names ``path``, unless it is a regular file or, with ``pipes``, a pipe.

    A device may have no end, and only to open it may change its state.
    """
    kind = stat.S_IFMT(path.stat().st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if kind == stat.S_IFREG or (pipes and kind == stat.S_IFIFO):
        return
    wanted = "neither a regular file nor a pipe" if pipes else "no regular file"
    raise OSError(errno.EINVAL, f"is {wanted}", str(path))


def read_bytes(path: Path, most: int, *, pipes: bool = True) -> bytes:
    """Return the content of a regular file or, with ``pipes``, a pipe; OSError for others,
    TooLargeError for more than ``most`` bytes."""
    require_readable(path, pipes=pipes)
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise TooLargeError(errno.EFBIG, f"has more than {most} bytes", str(path))
    return content


def parse_json(text: str | bytes) -> Any:
    """Return a value of JSON; ValueError for every text that is none, however it goes wrong."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_manifest(path: Path) -> Any:
    """Return the JSON value of a manifest; OSError or ValueError where there is none."""
    return parse_json(read_bytes(path, MAX_MANIFEST_BYTES))
