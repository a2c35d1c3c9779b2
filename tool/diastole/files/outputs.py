"""Files that a command will write: refused before any work, where they cannot be what they say."""

from collections.abc import Sequence
from pathlib import Path

from diastole import install
from diastole.errors import BadInput
from diastole.files import atomic

PICTURES = (".png", ".svg")


def check_output(option: str, path: Path, endings: Sequence[str]) -> None:
    """Raise BadInput for a name that ends as other files do, and for what cannot be written.

    A name without an ending is good, and so is that of a pipe or a device.
    """
    stream = path.exists() and not path.is_file()
    if path.suffix and path.suffix.lower() not in endings and not stream:
        raise BadInput(_wrong(option, path, endings))
    atomic.check_writable(path)


def check_picture(option: str, path: Path | None) -> None:
    """Raise BadInput for a picture that cannot be made, whose ending says which kind it is, and
    ToolMissing without matplotlib; nothing where none is asked for."""
    if path is None:
        return
    if path.suffix.lower() not in PICTURES:
        raise BadInput(_wrong(option, path, PICTURES))
    atomic.check_writable(path)
    install.require(*(tool for tool in install.OPTIONAL if tool.name == "matplotlib"))


def check_folder(path: Path) -> None:
    """Raise BadInput where there is no folder to make the folder ``path`` in."""
    parent = path.absolute().parent
    if not parent.is_dir():
        raise BadInput(f"{path}: there is no folder {path.parent}")


def _wrong(option: str, path: Path, endings: Sequence[str]) -> str:
    return f"{option} must end in {' or '.join(endings)}, not {path}"
