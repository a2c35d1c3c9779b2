"""Read the content of files that a user names, with mistakes in words."""

import codecs
import tomllib
from pathlib import Path
from typing import Any

from diastole.errors import BadInput
from diastole_sim.reading import TooLargeError, read_bytes

MAX_TOML_BYTES = 1 << 20
"""Largest TOML file that is read: a hundred times the output of `init`."""


def read_content(path: Path, limit: int, what: str, *, pipes: bool = True) -> bytes:
    """Return the bytes of a regular file or, with ``pipes``, of a pipe. BadInput for any other
    file, and for more than ``limit`` bytes, the largest size of a ``what``."""
    try:
        return read_bytes(path, limit, pipes=pipes)
    except TooLargeError as error:
        raise BadInput(f"{path}: is not a {what}: the file {error.strerror}") from None
    except FileNotFoundError:
        raise BadInput(f"{path}: there is no such file") from None
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Return the document in a TOML file. BadInput if the file has none."""
    if path.is_dir():
        raise BadInput(f"{path}: must be a {what} file, not a folder")
    content = read_content(path, MAX_TOML_BYTES, what)
    if content.startswith(codecs.BOM_UTF8):
        raise BadInput(
            f"{path}: begins with a byte order mark; save the file as UTF-8 without the mark"
        )
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError:
        raise BadInput(f"{path}: is not a TOML file: the text is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path}: is not a TOML file: {error}") from None
    except ValueError:  # raised by Python's conversion of long integers
        raise BadInput(f"{path}: is not a TOML file: an integer has too many digits") from None
    except RecursionError:
        raise BadInput(f"{path}: is not a TOML file: the values are nested too deeply") from None
