"""What people have their numbers in, as the float32 that every device reads.

Taken are numpy's arrays of integers, floats of any size or booleans, those of the number types of
``ml_dtypes`` (bfloat16 and the like), tensors of torch, on any device and with or without gradient,
everything else with ``__array__`` or ``__dlpack__``, and nested lists of numbers. Torch is not
imported: a tensor is what can be detached.

Where float32 rounds a value, there is a :class:`RoundedWarning`, once for each line that calls
(lists apart, whose numbers have no type that was chosen): what is quantised afterwards is rounded
twice. Values beyond float32 become Inf.
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
"""Packages whose frames are none of the user's."""
SIGNIFICAND_BITS = 24


class RoundedWarning(UserWarning):
    """Values were rounded to float32 before anything else was done with them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Taken:
    """An array in float32, and ``note``, what became of its elements; None if it was float32."""

    array: Floats
    note: str | None


def as_float32(name: str, given: object) -> Taken:
    """Numbers in float32; ``name`` stands in messages. ValueError unless they are real numbers.

    Warns where values are rounded, as the module says.
    """
    found, kind = _read(name, given)
    if found.dtype == np.float32 and "float32" in kind:
        return Taken(array=cast(Floats, found), note=None)
    with np.errstate(over="ignore"):  # what binary32 cannot hold is Inf
        narrow = found.astype(np.float32)
    count = rounded(found, narrow)
    if count and not isinstance(given, list | tuple):
        text = f"{name} is rounded from {kind} to float32, which is what is quantised"
        warnings.warn(text, RoundedWarning, stacklevel=_callers_level())
    how = f"which rounded {count} of {found.size} elements" if count else "exactly"
    return Taken(array=narrow, note=f"{name} was converted from {kind} to float32, {how}")


def as_matrix(name: str, given: object) -> Taken:
    """As :func:`as_float32`; ValueError too unless there are two axes, none empty."""
    taken = as_float32(name, given)
    if taken.array.ndim != 2 or 0 in taken.array.shape:
        raise ValueError(
            f"{name} must have two axes, none empty, not the shape {_shown(taken.array.shape)}"
        )
    return taken


def as_matrices(name: str, given: object) -> Taken:
    """As :func:`as_float32`; ValueError too unless there are two axes or more, none empty."""
    taken = as_float32(name, given)
    if taken.array.ndim < 2 or 0 in taken.array.shape:
        raise ValueError(
            f"{name} must have two axes, or more in a stack of matrices, none empty, "
            f"not the shape {_shown(taken.array.shape)}"
        )
    return taken


def rounded(wide: Array, narrow: Floats) -> int:
    """How many of the numbers float32 does not hold; ``narrow``: the same as float32."""
    kind = wide.dtype.kind
    if kind in "iu" and wide.dtype.itemsize > 2:
        magnitude = (wide if kind == "u" else np.abs(wide.astype(np.int64))).astype(np.uint64)
        lowest = magnitude & (~magnitude + np.uint64(1))
        return int((magnitude // np.maximum(lowest, 1) >> SIGNIFICAND_BITS != 0).sum())
    if kind == "f" and wide.dtype.itemsize > 4:
        return int(((narrow.astype(wide.dtype) != wide) & ~np.isnan(wide)).sum())
    return 0


def _read(name: str, given: object) -> tuple[Array, str]:
    """Real numbers in numpy, and the type that they came in."""
    if isinstance(given, np.ma.MaskedArray):  # the mask would be lost
        raise ValueError(f"{name} must hold real numbers, not masked ones")
    if given is None:
        raise ValueError(f"{name} must hold real numbers, not None")
    try:
        found = _to_numpy(given)
    except MemoryError:
        raise
    except Exception as error:  # whatever a foreign package raises
        what = type(given).__name__
        raise ValueError(
            f"{name} must be an array of real numbers; this {what} cannot be read as one: {error}"
        ) from error
    # Number types that numpy does not have itself, such as bfloat16, are of kind V as records are.
    foreign = found.dtype.kind == "V" and not issubclass(found.dtype.type, np.void)
    if isinstance(found, np.ma.MaskedArray) or not (foreign or found.dtype.kind in "fiub"):
        raise ValueError(f"{name} must hold real numbers, not {_held(found)}")
    return found, str(getattr(given, "dtype", found.dtype))


def _to_numpy(given: Any) -> Array:
    if isinstance(given, np.ndarray):
        return cast(Array, given)
    if hasattr(given, "detach") and hasattr(given, "cpu"):
        return _from_torch(given.detach().cpu())
    if hasattr(given, "__dlpack__") and not hasattr(given, "__array__"):
        return cast(Array, np.from_dlpack(given))
    return np.asarray(given)


def _from_torch(tensor: Any) -> Array:
    try:
        return np.asarray(tensor.numpy())
    except TypeError:  # a type that numpy lacks: bfloat16, float8; float32 holds each of them
        if "complex" in str(tensor.dtype):
            raise
        return np.asarray(tensor.float().numpy())


def _held(found: Array) -> str:
    if isinstance(found, np.ma.MaskedArray):
        return "masked ones"
    if found.dtype.kind != "O":
        return str(found.dtype)
    types = sorted({type(element).__name__ for element in found.flat})
    return f"objects ({', '.join(types)})"


def _shown(shape: tuple[int, ...]) -> str:
    return " x ".join(str(side) for side in shape) or "()"


def _callers_level() -> int:
    """The ``stacklevel`` of the line that called into these packages, from the caller's view."""
    level, frame = 0, inspect.currentframe()
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in OURS:
            break
        level, frame = level + 1, frame.f_back
    return level
