"""The user's tensors: read from an .npz file, checked against each other, written back whole."""

import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from diastole.errors import BadInput
from diastole_sim.device_api import OPERATIONS, OUTPUTS
from diastole_sim.numerics import Numerics

Floats = NDArray[np.float32]

AXES = {"X": ("M", "K"), "W": ("K", "N"), "dY": ("M", "N")}
"""What the rows and columns of each tensor are called in Y = X W."""
CONTRACTED = {"Y": "K", "dX": "N", "dW": "M"}
"""The axis that each result sums over."""


@dataclass(frozen=True)
class Sizes:
    """M, K and N of a product, in elements."""

    m: int
    k: int
    n: int

    def axis(self, name: str) -> int:
        return {"M": self.m, "K": self.k, "N": self.n}[name]

    def macs(self, op: str) -> int:
        """Multiplications of the unpadded product; both products for ``backward``."""
        return self.m * self.k * self.n * len(OUTPUTS[op])


def read(path: Path, op: str) -> tuple[dict[str, Floats], list[str]]:
    """The tensors that ``op`` needs, in float32, and notes about those that were converted.

    Raises :class:`BadInput` if the file is no .npz, or with a line for each array that is absent or
    is no matrix of numbers, or has an empty axis.
    """
    problems: list[str] = []
    notes: list[str] = []
    tensors: dict[str, Floats] = {}
    for name, array in _load(path, OPERATIONS[op], problems).items():
        problem = _unusable(name, array)
        if problem:
            problems.append(f"{path}: {problem}")
            continue
        with np.errstate(over="ignore"):  # what is too large becomes Inf, which is warned of
            tensors[name] = np.ascontiguousarray(array, dtype=np.float32)
        if array.dtype != np.float32:
            notes.append(f"{name} was converted from {array.dtype} to float32")
    if problems:
        raise BadInput(*problems)
    return tensors, notes


def check_sizes(op: str, tensors: Mapping[str, Floats], numerics: Numerics) -> Sizes:
    """M, K and N, if the tensors agree in them and no contraction is too long for the machine.

    Raises :class:`BadInput` with a line for each fault.
    """
    seen: dict[str, tuple[str, int]] = {}
    problems: list[str] = []
    for name, tensor in tensors.items():
        for axis, size in zip(AXES[name], tensor.shape, strict=True):
            first, expected = seen.setdefault(axis, (name, size))
            if size != expected:
                problems.append(
                    f"{axis} is {expected} in {first} {_shape(tensors[first])} "
                    f"but {size} in {name} {_shape(tensor)}"
                )
    if problems:
        raise BadInput(*problems)
    sizes = Sizes(*(seen[axis][1] for axis in "MKN"))
    for result in OUTPUTS[op]:
        axis = CONTRACTED[result]
        blocks = -(-sizes.axis(axis) // numerics.block)
        if blocks > 2**numerics.headroom:
            problems.append(
                f"the contraction of {result} over {axis} = {sizes.axis(axis)} must be at most "
                f"2^accumulator.headroom = {2**numerics.headroom} blocks of {numerics.block}, "
                f"not {blocks}"
            )
    if problems:
        raise BadInput(*problems)
    return sizes


def warnings(tensors: Mapping[str, Floats]) -> list[str]:
    """One line for each tensor that holds NaN or Inf, with what becomes of them."""
    lines = []
    for name, tensor in tensors.items():
        nans = int(np.count_nonzero(np.isnan(tensor)))
        infinities = int(np.count_nonzero(np.isinf(tensor)))
        if nans:
            lines.append(f"{name} holds NaN ({nans} of {tensor.size} elements), taken as +0")
        if infinities:
            lines.append(
                f"{name} holds Inf ({infinities} of {tensor.size} elements), "
                "taken as the largest magnitude of its block"
            )
    return lines


def check_writable(path: Path) -> None:
    """Raises :class:`BadInput` where a file at ``path`` surely cannot be written."""
    if path.is_dir():
        raise BadInput(f"{path}: is a directory")
    if not path.parent.is_dir():
        raise BadInput(f"{path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise BadInput(f"{path}: the folder {path.parent} is not writable")


def write(path: Path, tensors: Mapping[str, Floats]) -> None:
    """Writes an .npz beside ``path`` and renames it, so that no half-written file is ever seen."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **tensors)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _load(path: Path, names: Sequence[str], problems: list[str]) -> dict[str, NDArray]:
    arrays: dict[str, NDArray] = {}
    try:
        with zipfile.ZipFile(path) as members:
            present = [n.removesuffix(".npy") for n in members.namelist() if n.endswith(".npy")]
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    except zipfile.BadZipFile:
        raise BadInput(f"{path}: is no .npz file") from None
    absent = [name for name in names if name not in present]
    for name in absent:
        problems.append(f"{path}: has no array {name} (it has {', '.join(present) or 'none'})")
    with np.load(path, allow_pickle=False) as file:
        for name in names:
            if name not in absent:
                try:
                    arrays[name] = file[name]
                except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
                    problems.append(f"{path}: the array {name} cannot be read: {error}")
    return arrays


def _unusable(name: str, array: NDArray) -> str | None:
    if array.dtype.kind not in "fiub":
        return f"{name} must hold real numbers, not {array.dtype}"
    if array.ndim != 2:
        return f"{name} must have 2 dimensions, not {array.ndim} (its shape is {array.shape})"
    if 0 in array.shape:
        return f"{name} must not have an empty axis (its shape is {array.shape})"
    return None


def _shape(tensor: Floats) -> str:
    return f"({tensor.shape[0]} x {tensor.shape[1]})"
