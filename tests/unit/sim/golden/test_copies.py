"""One copy of a small tensor, every stored byte of it worked out by hand."""

import numpy as np
import pytest

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.copies import Copy, Fields, convert_copy, copy_values
from support.numerics import make_numerics

NO_DRAWS = np.zeros((1, 1), np.int64)


def convert(rows, numerics, *, exponent=None, transposed=False):
    fields = Fields.of(np.array(rows, np.float32))
    return convert_copy(fields, NO_DRAWS, numerics, Conversion("x"), exponent, transposed)


def stored(copy):
    names = ("codes", "exponents", "row_max", "col_max")
    return {name: getattr(copy, name).tolist() for name in names}


def test_fields():
    """What is no normal number is 0, and NaN and Inf are told apart."""
    bits = [0x3F800000, 0xBF800001, 0x007FFFFF, 0x80800000, 0x7F800000, 0xFF800001, 0x80000000]
    fields = Fields.of(np.array([bits], np.uint32).view(np.float32))
    assert fields.finite.tolist() == [[0x3F800000, 0x3F800001, 0, 0x00800000, 0, 0, 0]]
    assert fields.negative.tolist() == [[False, True, False, True, False, True, True]]
    assert fields.nan.tolist() == [[False] * 5 + [True, False]]
    assert fields.inf.tolist() == [[False] * 4 + [True, False, False]]


def test_each_changes_every_array():
    fields = Fields.of(np.array([[-1.0, np.inf, np.nan]], np.float32)).each(np.transpose)
    assert fields.negative.tolist() == [[True], [False], [False]]
    assert fields.finite.tolist() == [[0x3F800000], [0], [0]]
    assert fields.inf.tolist() == [[False], [True], [False]]
    assert fields.nan.tolist() == [[False], [False], [True]]


SQUARES = make_numerics(block=2, formats="bfp4", scales="floor")
ROWS = [[1.0, -0.375, 2.0**-20], [0.5, 1.97, 0.0], [0.0, 0.0, -24.0]]


def test_squares():
    """bfp4: magnitudes of 4 bits, the sign above. Blocks of e = 0, -20, none and 4."""
    copy, counts = convert(ROWS, SQUARES)
    assert stored(copy) == {
        # 1.97 is 15.76 eighths, which is 16: saturated.
        "codes": [[8, 16 + 3, 8, 0], [4, 15, 0, 0], [0, 0, 16 + 12, 0], [0, 0, 0, 0]],
        "exponents": [[127, 107], [0, 131]],
        "row_max": [127, 131],
        "col_max": [127, 131],
    }
    assert (copy.shape, copy.transposed) == ((3, 3), False)
    assert not copy.folds.any()
    assert (counts.saturated, counts.underflowed) == (1, 0)
    values = copy_values(copy, SQUARES.x, 2, None)
    assert values.tolist() == [[1, -0.375, 2.0**-20], [0.5, 1.875, 0], [0, 0, -24]]
    assert values.dtype == np.float32


def nvfp4_copy():
    """1 x 4 elements: 1, 6, -1.5 and 0.5 under 2^3, once with a scale of 1.5 and once with 2^-9."""
    codes = np.zeros((2, 4), np.uint16)
    codes[:] = [2, 7, 8 + 3, 1]
    return Copy(
        transposed=False,
        shape=(2, 4),
        codes=codes,
        exponents=np.array([[0x3C], [0x01]], np.uint8),
        row_max=np.array([0x3C, 0x01], np.uint8),
        col_max=np.zeros(0, np.uint8),
        folds=np.zeros((2, 1), np.uint8),
    )


def test_values_of_two_levels():
    chosen = make_numerics(block=2, formats="nvfp4", groupings="1x4").x
    values = copy_values(nvfp4_copy(), chosen, 2, 3)
    unit = 2.0**3
    assert values[0].tolist() == [1.5 * unit, 9 * unit, -2.25 * unit, 0.75 * unit]
    assert values[1].tolist() == [each * unit * 2.0**-9 for each in (1, 6, -1.5, 0.5)]


def test_one_of_a_stack():
    """Each as if it were alone, with counts of its own; it cannot be written to."""
    other = [[4.0, 0.0, 0.0], [0.0, 0.0, 2.0**-140], [1.0, 8.0, 2.0]]
    stack, counts = convert([ROWS, other], SQUARES)
    assert counts.saturated.tolist() == [1, 0]
    for index, rows in enumerate((ROWS, other)):
        alone, _ = convert(rows, SQUARES)
        copy = stack.matrix(index)
        assert stored(copy) == stored(alone)
        assert (copy.shape, copy.transposed) == ((3, 3), False)
        for name in ("codes", "exponents", "row_max", "col_max", "folds"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(copy, name)[...] = 0
