"""Read the matrices of a user's .npz file, whatever their names."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from diastole.errors import BadInput
from diastole.files.archive import Archive, Header, Unreadable
from diastole.files.tensors import Floats, unusable
from diastole_sim.spec.operations import OPERANDS

OPERAND_BY_KEY = {tensor.name.lower(): tensor.name for tensor in OPERANDS}
"""Operands of products, by name in lower case."""


def read_matrices(path: Path) -> tuple[dict[str, Floats], list[str]]:
    """Return every array of floats with two non-empty axes, in float32, and notes about other
    arrays.

    An array with the name of an operand, in lower or upper case, may have integers too. Raises
    :class:`BadInput` if the file is no .npz, or if an array is damaged. Raises :class:`BadInput`
    also if an operand is no matrix of numbers or occurs twice, and if the file has no matrix.
    """
    matrices: dict[str, Floats] = {}
    notes: list[str] = []
    problems: list[str] = []
    archive = Archive(path)
    for name in archive.names:
        try:
            header = archive.header(name)
            if name.lower() in OPERAND_BY_KEY:
                reason = unusable(name, header.dtype, header.shape)
                if reason:
                    problems.append(f"{path}: {reason}")
                    continue
            elif reason := _no_matrix(header):
                notes.append(f"{name} was left out: {reason}")
                continue
            array = archive.read(name)
        except Unreadable as reason:
            problems.append(f"{path}: the array {name} cannot be read: {reason}")
            continue
        with np.errstate(over="ignore"):  # too large values become Inf, with a warning
            matrices[name] = np.ascontiguousarray(array, dtype=np.float32)
        if array.dtype != np.float32:
            notes.append(f"{name} was converted from {array.dtype} to float32")
    problems += _twice(path, archive.names)
    if problems:
        raise BadInput(*problems)
    if not matrices:
        raise BadInput(
            f"{path}: has no matrix of floats", *(f"{path}: {reason}" for reason in notes)
        )
    return matrices, notes


def operands_of(matrices: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return X, W and dY as far as present in ``matrices``, by operand name."""
    small = {name.lower(): matrix for name, matrix in matrices.items()}
    return {name: small[key] for key, name in OPERAND_BY_KEY.items() if key in small}


def _twice(path: Path, names: Iterable[str]) -> list[str]:
    """Return a problem for each operand with two arrays."""
    alike: dict[str, set[str]] = {}
    for name in names:
        alike.setdefault(name.lower(), set()).add(name)
    return [
        f"{path}: {' and '.join(sorted(alike[key]))} are the same tensor: keep one"
        for key in OPERAND_BY_KEY
        if len(alike.get(key, ())) > 1
    ]


def _no_matrix(header: Header) -> str | None:
    if header.dtype.hasobject:
        return "the array holds Python objects"
    if header.dtype.kind != "f":
        return f"the array holds {header.dtype}, not floats"
    if len(header.shape) != 2 or 0 in header.shape:
        return f"the shape {header.shape} is not the shape of a matrix"
    return None
