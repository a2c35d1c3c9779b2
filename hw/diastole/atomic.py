"""Files that are there whole, or not at all."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def replace(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Lets ``write`` fill a file beside ``path`` and renames it, so that an interrupted run leaves
    what was there before."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
