"""What people have their numbers in: what is taken, what is refused, and what is said of it."""

import warnings
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from diastole_sim.device import arrays
from diastole_sim.device.arrays import (
    RoundedWarning,
    as_float32,
    as_matrices,
    as_matrix,
    count_rounded,
)
from support.texts import exactly

NUMBERS = [[0.0, 1.5], [-2.0, 3.0]]


class Torch:
    """As much of a tensor of torch as is used: it becomes numpy when it is detached and here, and
    never where numpy lacks its type."""

    def __init__(self, array, dtype, *, attached=True, away=True):
        self.array, self.dtype, self.attached, self.away = array, dtype, attached, away

    def _with(self, **changes):
        return Torch(**vars(self) | changes)

    def detach(self):
        return self._with(attached=False)

    def cpu(self):
        return self._with(away=False)

    def float(self):
        return self._with(array=self.array.astype(np.float32), dtype="torch.float32")

    def numpy(self):
        if self.attached:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self.away or self.dtype in ("torch.bfloat16", "torch.complex32"):
            raise TypeError("can't convert, or got unsupported ScalarType")
        return self.array

    def __array__(self, dtype=None, copy=None):
        return self.numpy()


class Array:
    """Something that says that it is an array."""

    def __init__(self, found):
        self.found = found

    def __array__(self, dtype=None, copy=None):
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


class Exported:
    """Something that has DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


GIVEN = {
    "float32": (np.array(NUMBERS, np.float32), None),
    "float32 turned": (np.array(NUMBERS, np.float32).T.copy().T, None),
    "float64": (np.array(NUMBERS), "float64"),
    "float16": (np.array(NUMBERS, np.float16), "float16"),
    "longdouble": (np.array(NUMBERS, np.longdouble), str(np.dtype(np.longdouble))),
    "big endian": (np.array(NUMBERS, ">f4"), ">f4"),
    "bfloat16": (np.array(NUMBERS, ml_dtypes.bfloat16), "bfloat16"),
    "float8": (np.array(NUMBERS, ml_dtypes.float8_e5m2), "float8_e5m2"),
    "list": (NUMBERS, "float64"),
    "tuple of arrays": (tuple(np.array(NUMBERS)), "float64"),
    "array": (Array(np.array(NUMBERS)), "float64"),
    "dlpack": (Exported(np.array(NUMBERS)), "float64"),
    "dlpack, float32": (Exported(np.array(NUMBERS, np.float32)), None),
    "torch": (Torch(np.array(NUMBERS, np.float32), "torch.float32"), None),
    "torch, float64": (Torch(np.array(NUMBERS), "torch.float64"), "torch.float64"),
    "torch, bfloat16": (
        Torch(np.array(NUMBERS, ml_dtypes.bfloat16), "torch.bfloat16"),
        "torch.bfloat16",
    ),
}


@pytest.mark.parametrize("given, kind", GIVEN.values(), ids=GIVEN)
def test_what_is_taken(given, kind):
    """Without a warning, for float32 has all of these numbers."""
    taken = as_float32("X", given)
    assert taken.array.dtype == np.float32
    assert type(taken.array) is np.ndarray
    assert taken.array.tolist() == NUMBERS
    want = None if kind is None else f"X was converted from {kind} to float32, exactly"
    assert taken.note == want


@pytest.mark.parametrize("kind", ["bool", "int8", "uint8", "int16", "int64", "uint64"])
def test_integers_and_booleans_are_taken(kind):
    assert as_float32("X", np.array([[0, 1], [1, 1]], kind)).array.tolist() == [[0, 1], [1, 1]]


def test_float32_is_not_copied():
    array = np.ones((2, 3), np.float32)
    assert as_float32("X", array).array is array


@pytest.mark.parametrize(
    "given, what",
    [
        (
            Array(TypeError("not without get()")),
            "Array cannot be read as an array: not without get()",
        ),
        (Array(RuntimeError("sparse")), "Array cannot be read as an array: sparse"),
        (
            Torch(np.ones((1, 1), complex), "torch.complex32"),
            "Torch cannot be read as an array: can't convert, or got unsupported ScalarType",
        ),
    ],
)
def test_what_cannot_be_read(given, what):
    text = f"W must be an array of real numbers; this {what}"
    with pytest.raises(ValueError, match=exactly(text)):
        as_float32("W", given)


def test_want_of_memory_is_no_bad_input():
    with pytest.raises(MemoryError):
        as_float32("X", Array(MemoryError()))


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (5, 2, 3), (2, 1, 2, 3)])
def test_stacks_of_any_depth(shape):
    assert as_matrices("X", np.zeros(shape)).array.shape == shape
    if len(shape) == 2:
        assert as_matrix("X", np.zeros(shape)).array.shape == shape


# What float32 rounds.

ROUNDED = {
    "float64": (np.array([0.1, 0.5, np.nan, np.inf, 1e300, 1e-300, -0.0, 2.0**-149]), 3),
    "longdouble": (np.array([0.1, 0.5, np.nan], np.longdouble), 1),
    "float16": (np.array([0.1, 65504, 6e-8, np.nan], np.float16), 0),
    "bfloat16": (np.array([0.1, 3e38, 1e-40, np.nan], ml_dtypes.bfloat16), 0),
    "int16": (np.array([-(2**15), 2**15 - 1], np.int16), 0),
    "int32": (np.array([2**24, 2**24 + 1, -(2**24) - 1, 2**25 + 4, -(2**31), 2**31 - 1], "i4"), 3),
    "uint32": (np.array([0, 2**32 - 1, 2**32 - 256], "u4"), 1),
    "int64": (np.array([0, -(2**63), 2**63 - 1, 2**40 + 1, 3 * 2**40, -(2**24) - 1]), 3),
    "uint64": (np.array([2**64 - 1, 2**63, 2**64 - 2**40], "u8"), 1),
    "bool": (np.array([True, False]), 0),
}


@pytest.mark.parametrize("kind", ROUNDED)
def test_what_is_rounded(kind):
    """Python's own numbers say which: fractions, exact."""
    wide, count = ROUNDED[kind]
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    assert count_rounded(wide, narrow) == count
    exact = [_exact(element) != _exact(short) for element, short in zip(wide, narrow, strict=True)]
    assert sum(exact) == count


def _exact(number):
    if isinstance(number, np.integer | np.bool):
        return Fraction(int(number))
    if not np.isfinite(number):
        return str(number)
    return (
        Fraction(*number.as_integer_ratio())
        if hasattr(number, "as_integer_ratio")
        else (Fraction(float(number)))
    )


def test_it_says_what_it_rounds():
    given = np.array([[0.1, 0.5, 0.3]])
    with pytest.warns(RoundedWarning) as caught:
        taken = as_float32("X", given)
    (warning,) = caught
    assert str(warning.message) == (
        "X is rounded from float64 to float32, and 2 of 3 elements "
        "change; pass float32 to avoid this warning"
    )
    assert warning.filename == __file__
    assert taken.note == "X was converted from float64 to float32, which rounded 2 of 3 elements"
    assert taken.array.tolist() == given.astype(np.float32).tolist()


def test_it_says_so_once_for_each_line():
    arrays.__dict__.pop("__warningregistry__", None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for number in (0.1, 0.2, 0.3):
            as_float32("X", np.array([[number, 1 / 3]]))
        as_float32("X", np.array([[0.1]]))
    assert [warning.category for warning in caught] == [RoundedWarning] * 2


def test_of_lists_it_says_so_in_the_note_alone():
    assert as_float32("X", [[0.1, 0.5]]).note == (
        "X was converted from float64 to float32, which rounded 1 of 2 elements"
    )


def test_too_large_is_infinite():
    with pytest.warns(RoundedWarning):
        assert as_float32("X", np.array([1e300, -1e300])).array.tolist() == [np.inf, -np.inf]
