"""The matrices of a user's .npz file, whatever they are called."""

from pathlib import Path

import numpy as np

from diastole.archive import Archive
from diastole.errors import BadInput
from diastole.tensors import Floats


def read_matrices(path: Path) -> tuple[dict[str, Floats], list[str]]:
    """Every array of floats with two axes, none empty, in float32, and notes about the others.

    Raises :class:`BadInput` if the file is no .npz, or if none of its arrays is such a matrix.
    """
    matrices: dict[str, Floats] = {}
    notes: list[str] = []
    archive = Archive(path)
    for name in archive.names:
        array = archive.read(name)
        problem = f"it {array}" if isinstance(array, str) else _unusable(array)
        if problem:
            notes.append(f"{name} was left out: {problem}")
            continue
        with np.errstate(over="ignore"):  # what is too large becomes Inf, which is warned of
            matrices[name] = np.ascontiguousarray(array, dtype=np.float32)
        if array.dtype != np.float32:
            notes.append(f"{name} was converted from {array.dtype} to float32")
    if not matrices:
        raise BadInput(
            f"{path}: has no matrix of floats", *(f"{path}: {reason}" for reason in notes)
        )
    return matrices, notes


def _unusable(array: np.ndarray) -> str | None:
    if array.dtype.kind != "f":
        return f"it holds {array.dtype}, no floats"
    if array.ndim != 2 or 0 in array.shape:
        return f"its shape is {array.shape}, not that of a matrix"
    return None
