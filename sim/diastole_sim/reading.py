"""Read files named by a user, up to a bound of bytes.

Only regular files and pipes are read, because they have an end.
"""

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

MAX_MANIFEST_BYTES = 1 << 26
"""Most bytes of a product's manifest: a hundred times the largest manifest."""


class TooLargeError(OSError):
    """Error for a file with more bytes than a file of its kind can have."""


def require_readable(path: Path, *, pipes: bool = True) -> None:
    """Raise OSError, which names ``path``, unless ``path`` is a regular file or, with ``pipes``, a
    pipe.

    A device may have no end, and even opening a device may change its state.
    """
    kind = stat.S_IFMT(path.stat().st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if kind == stat.S_IFREG or (pipes and kind == stat.S_IFIFO):
        return
    reason = "neither a regular file nor a pipe" if pipes else "not a regular file"
    raise OSError(errno.EINVAL, f"is {reason}", str(path))


def read_bytes(path: Path, limit: int, *, pipes: bool = True) -> bytes:
    """Return the content of a regular file or, with ``pipes``, of a pipe. OSError for another kind
    of file, TooLargeError for more than ``limit`` bytes."""
    require_readable(path, pipes=pipes)
    with path.open("rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise TooLargeError(errno.EFBIG, f"has more than {limit} bytes", str(path))
    return content


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text. ValueError for every text without a JSON value, for any
    reason."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_manifest(path: Path) -> Any:
    """Return the JSON value of a manifest. OSError or ValueError if the file has none."""
    return parse_json(read_bytes(path, MAX_MANIFEST_BYTES))
