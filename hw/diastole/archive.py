"""The arrays of a user's .npz file, each read when it is asked for."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole.errors import BadInput


class Archive:
    """``names``: of the arrays. Raises :class:`BadInput` if the file is no .npz."""

    def __init__(self, path: Path):
        self.path = path
        try:
            with zipfile.ZipFile(path) as members:
                names = [n.removesuffix(".npy") for n in members.namelist() if n.endswith(".npy")]
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror}") from None
        except zipfile.BadZipFile:
            raise BadInput(f"{path}: is no .npz file") from None
        self.names = names

    def read(self, name: str) -> NDArray[Any] | str:
        """One of the arrays, or why it cannot be read."""
        with np.load(self.path, allow_pickle=False) as file:
            try:
                return file[name]
            except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
                return f"cannot be read: {error}"
