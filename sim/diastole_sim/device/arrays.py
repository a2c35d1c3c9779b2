"""Read the user's numbers as float32, the type that every device reads.

The accepted types are:

- numpy arrays of integers, floats of any size or booleans,
- arrays of the number types of ``ml_dtypes`` (bfloat16 and the like),
- torch tensors on any device, with or without gradient,
- all objects with ``__array__`` or ``__dlpack__``,
- nested lists of numbers.

Torch is not imported: every object with ``detach`` and ``cpu`` counts as a torch tensor.

If float32 rounds a value, a :class:`RoundedWarning` is issued once per calling line, because
quantisation then rounds a second time. Lists give no warning, since nobody chose the type of the
numbers. Values beyond float32 become Inf.
"""

import inspect
import warnings
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device.interface import Floats

Array = NDArray[Any]

OURS = ("diastole", "diastole_sim")
"""Packages whose stack frames are not frames of the user."""
SIGNIFICAND_BITS = 24


class RoundedWarning(UserWarning):
    """Warn about values rounded to float32 before any further processing."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Float32Array:
    """An array in float32. ``note`` describes the conversion of the elements; None if the array was
    float32."""

    array: Floats
    note: str | None


def as_float32(name: str, value: object) -> Float32Array:
    """Return numbers in float32. ``name`` appears in messages. ValueError unless the numbers are
    real.

    Warns if values are rounded, as the module's docstring says.
    """
    array, kind = _read(name, value)
    if array.dtype == np.float32 and "float32" in kind:
        return Float32Array(array=cast(Floats, array), note=None)
    with np.errstate(over="ignore"):  # binary32 overflow gives Inf
        narrow = array.astype(np.float32)
    count = count_rounded(array, narrow)
    if count and not isinstance(value, list | tuple):
        text = (
            f"{name} is rounded from {kind} to float32, and {count} of {array.size} elements "
            "change; pass float32 to avoid this warning"
        )
        warnings.warn(text, RoundedWarning, stacklevel=_callers_level())
    how = f"which rounded {count} of {array.size} elements" if count else "exactly"
    return Float32Array(array=narrow, note=f"{name} was converted from {kind} to float32, {how}")


def as_matrix(name: str, value: object) -> Float32Array:
    """Return a matrix as :func:`as_float32` does. ValueError also unless the array has two axes,
    none empty."""
    matrix = as_float32(name, value)
    if matrix.array.ndim != 2 or 0 in matrix.array.shape:
        raise ValueError(
            f"{name} must be a matrix with at least one row and one column; the shape is "
            f"{_shape_text(matrix.array.shape)}"
        )
    return matrix


def as_matrices(name: str, value: object) -> Float32Array:
    """Return matrices as :func:`as_float32` does. ValueError also unless the array has two axes or
    more, none empty."""
    matrices = as_float32(name, value)
    if matrices.array.ndim < 2 or 0 in matrices.array.shape:
        raise ValueError(
            f"{name} must be a matrix or a stack of matrices, and no axis may have the "
            f"length 0; the shape is {_shape_text(matrices.array.shape)}"
        )
    return matrices


def count_rounded(wide: Array, narrow: Floats) -> int:
    """Return how many numbers float32 cannot represent. ``narrow``: ``wide`` converted to
    float32."""
    kind = wide.dtype.kind
    if kind in "iu" and wide.dtype.itemsize > 2:
        magnitude = (wide if kind == "u" else np.abs(wide.astype(np.int64))).astype(np.uint64)
        lowest = magnitude & (~magnitude + np.uint64(1))
        return int((magnitude // np.maximum(lowest, 1) >> SIGNIFICAND_BITS != 0).sum())
    if kind == "f" and wide.dtype.itemsize > 4:
        return int(((narrow.astype(wide.dtype) != wide) & ~np.isnan(wide)).sum())
    return 0


def _read(name: str, value: object) -> tuple[Array, str]:
    """Return real numbers as a numpy array, and the name of the original type."""
    if isinstance(value, np.ma.MaskedArray):  # the mask would be lost
        raise ValueError(f"{name} must hold real numbers, not masked elements")
    if value is None:
        raise ValueError(f"{name} must hold real numbers, not None")
    try:
        array = _to_numpy(value)
    except MemoryError:
        raise
    except Exception as error:  # a foreign package may raise any exception
        what = type(value).__name__
        raise ValueError(
            f"{name} must be an array of real numbers; this {what} cannot be read as an "
            f"array: {error}"
        ) from error
    # Number types from outside numpy, such as bfloat16, have the kind V, as records have.
    foreign = array.dtype.kind == "V" and not issubclass(array.dtype.type, np.void)
    if isinstance(array, np.ma.MaskedArray) or not (foreign or array.dtype.kind in "fiub"):
        raise ValueError(f"{name} must hold real numbers, not {_elements_text(array)}")
    return array, str(getattr(value, "dtype", array.dtype))


def _to_numpy(value: Any) -> Array:
    if isinstance(value, np.ndarray):
        return cast(Array, value)
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        return _from_torch(value.detach().cpu())
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        return cast(Array, np.from_dlpack(value))
    return np.asarray(value)


def _from_torch(tensor: Any) -> Array:
    try:
        return np.asarray(tensor.numpy())
    except TypeError:  # numpy lacks bfloat16 and float8; float32 represents both exactly
        if "complex" in str(tensor.dtype):
            raise
        return np.asarray(tensor.float().numpy())


def _elements_text(array: Array) -> str:
    if isinstance(array, np.ma.MaskedArray):
        return "masked ones"
    if array.dtype.kind != "O":
        return str(array.dtype)
    types = sorted({type(element).__name__ for element in array.flat})
    return f"objects ({', '.join(types)})"


def _shape_text(shape: tuple[int, ...]) -> str:
    return " x ".join(str(side) for side in shape) or "()"


def _callers_level() -> int:
    """Return the ``stacklevel`` of the user's line, counted from the caller of the function."""
    level, frame = 0, inspect.currentframe()
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in OURS:
            break
        level, frame = level + 1, frame.f_back
    return level
