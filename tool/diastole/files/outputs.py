"""Check the files that a command will write, before any work: name, folder, permissions."""

import os
from collections.abc import Sequence
from pathlib import Path

from diastole import install
from diastole.errors import BadInput
from diastole.files import atomic

PICTURES = (".png", ".svg")


def check_output(option: str, path: Path, endings: Sequence[str]) -> None:
    """Raise BadInput for a file name with a wrong ending, and for a file that cannot be written.

    A name without an ending, and a pipe or a device of any name, are accepted.
    """
    stream = path.exists() and not path.is_file()
    if path.suffix and path.suffix.lower() not in endings and not stream:
        raise BadInput(_wrong(option, path, endings))
    atomic.check_writable(path)


def check_picture(option: str, path: Path | None) -> None:
    """Raise BadInput for a picture that cannot be made, and ToolMissing without matplotlib. The
    ending of the name decides the kind of picture. Nothing is checked without a path."""
    if path is None:
        return
    if path.suffix.lower() not in PICTURES:
        raise BadInput(_wrong(option, path, PICTURES))
    atomic.check_writable(path)
    install.require(*(tool for tool in install.OPTIONAL if tool.name == "matplotlib"))


def check_folder(path: Path) -> None:
    """Raise BadInput if the parent folder of the folder ``path`` does not exist, or takes no new
    folder."""
    parent = path.absolute().parent
    if not parent.is_dir():
        raise BadInput(f"{path}: there is no folder {path.parent}")
    if not os.access(parent, os.W_OK):
        raise BadInput(f"{path}: the folder {path.parent} is not writable")


def _wrong(option: str, path: Path, endings: Sequence[str]) -> str:
    return f"{option} must end in {' or '.join(endings)}, not {path}"
