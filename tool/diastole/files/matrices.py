"""The matrices of a user's .npz file, whatever they are called."""

from pathlib import Path

import numpy as np

from diastole.errors import BadInput
from diastole.files.archive import Archive, Header, Unreadable
from diastole.files.tensors import Floats


def read_matrices(path: Path) -> tuple[dict[str, Floats], list[str]]:
    """Every array of floats with two axes, none empty, in float32, and notes about the others.

    Raises :class:`BadInput` if the file is no .npz, if an array is damaged, or if none is such a
    matrix.
    """
    matrices: dict[str, Floats] = {}
    notes: list[str] = []
    problems: list[str] = []
    archive = Archive(path)
    for name in archive.names:
        try:
            header = archive.header(name)
            unusable = _unusable(header)
            if unusable:
                notes.append(f"{name} was left out: {unusable}")
                continue
            array = archive.read(name)
        except Unreadable as reason:
            problems.append(f"{path}: the array {name} cannot be read: {reason}")
            continue
        with np.errstate(over="ignore"):  # what is too large becomes Inf, which is warned of
            matrices[name] = np.ascontiguousarray(array, dtype=np.float32)
        if array.dtype != np.float32:
            notes.append(f"{name} was converted from {array.dtype} to float32")
    if problems:
        raise BadInput(*problems)
    if not matrices:
        raise BadInput(
            f"{path}: has no matrix of floats", *(f"{path}: {reason}" for reason in notes)
        )
    return matrices, notes


def _unusable(header: Header) -> str | None:
    if header.dtype.hasobject:
        return "it holds Python objects"
    if header.dtype.kind != "f":
        return f"it holds {header.dtype}, no floats"
    if len(header.shape) != 2 or 0 in header.shape:
        return f"its shape is {header.shape}, not that of a matrix"
    return None
