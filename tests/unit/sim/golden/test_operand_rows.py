"""Stored bytes, written by hand, as rows along a contraction."""

from dataclasses import replace

import numpy as np
import pytest

from diastole_sim.golden import operand_rows
from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.copies import Copy
from diastole_sim.golden.operand_rows import power_of_two
from support.numerics import make_numerics


def copy(codes, exponents, row_max, col_max=(), shape=None, transposed=False):
    codes = np.array(codes, np.uint16)
    exponents = np.array(exponents, np.uint8)
    return Copy(
        transposed=transposed,
        shape=shape or codes.shape,
        codes=codes,
        exponents=exponents,
        row_max=np.array(row_max, np.uint8),
        col_max=np.array(col_max, np.uint8),
        folds=np.zeros_like(exponents),
    )


def tensor(name, copies, shape, grouping=None, exponent=None):
    numerics = make_numerics(block=2, formats=name, groupings=grouping)
    return Quantised(
        shape=shape,
        tensor_class="x",
        storage=numerics.x,
        block=2,
        copies=tuple(copies),
        tensor_exponent=exponent,
        amax=0,
        nan=False,
        inf=False,
        saturated=0,
        underflowed=0,
    )


def read_operand_rows(tensor, number, *, poison):
    """Those of one tensor, without the axis of the stack."""
    rows = operand_rows.read_operand_rows([tensor], number, poison=poison)
    names = ("elements", "nonzero", "deficits", "depths", "maxima", "poisoned")
    assert all(len(getattr(rows, name)) == 1 for name in names)
    return replace(rows, **{name: getattr(rows, name)[0] for name in names})


# bfp4 keeps 4 bits of magnitude, then the sign: 16 + 3 is -3.
SQUARES = copy(
    codes=[[8, 19, 1, 0], [4, 0, 0, 0], [15, 0, 9, 9], [0, 0, 9, 25]],
    exponents=[[127, 120], [0, 130]],
    row_max=[127, 130],
    col_max=[127, 130],
    shape=(3, 4),
)


def test_along_the_rows():
    rows = read_operand_rows(tensor("bfp4", [SQUARES], (3, 4)), 0, poison=False)
    # The block of exponent 0 is one of zeros, whatever its elements say.
    assert rows.elements.tolist() == [[8, -3, 1, 0], [4, 0, 0, 0], [0, 0, 9, 9], [0, 0, 9, -9]]
    assert rows.nonzero.tolist() == [[1, 1], [1, 1], [0, 1], [0, 1]]
    assert rows.deficits.tolist() == [[0, 7], [0, 7], [0, 0], [0, 0]]
    assert rows.depths.tolist() == [[0, 0], [0, -1], [-1, 0], [-1, 0]]
    assert rows.maxima.tolist() == [0, 0, 3, 3]
    assert not rows.poisoned.any()
    assert (rows.length, rows.block, rows.format.name) == (3, 2, "bfp4")
    assert rows.extents.tolist() == [[4, 4], [4, 0], [0, 4], [0, 4]]
    assert rows.reach.tolist() == [[0, 7], [0, 7], [0, 0], [0, 0]]


def test_down_the_columns():
    rows = read_operand_rows(tensor("bfp4", [SQUARES], (3, 4)), 1, poison=False)
    assert rows.elements.tolist() == [[8, 4, 0, 0], [-3, 0, 0, 0], [1, 0, 9, 9], [0, 0, 9, -9]]
    assert rows.nonzero.tolist() == [[1, 0], [1, 0], [1, 1], [1, 1]]
    assert rows.deficits.tolist() == [[0, 0], [0, 0], [10, 0], [10, 0]]
    assert rows.maxima.tolist() == [0, 0, 3, 3]
    assert rows.length == 4


def test_elements_of_some_vectors_and_aligned_ones():
    rows = read_operand_rows(tensor("bfp4", [SQUARES], (3, 4)), 0, poison=False)
    some = np.array([[True, False], [False, True], [True, True], [False, True]])
    assert rows.only(some).tolist() == [[8, -3, 0, 0], [0] * 4, [0, 0, 9, 9], [0, 0, 9, -9]]
    assert rows.aligned(rows.elements)[0].tolist() == [8, -3, 2.0**-7, 0]


def test_each_copy_of_vectors_has_its_own_rows():
    """Groups of 4: two blocks of 2 share an exponent, and each row has its own."""
    here = copy([[8, 1, 2, 3], [4, 5, 16, 7]], [[127], [100]], row_max=[127, 100])
    there = copy(
        [[9, 0], [1, 0], [2, 0], [3, 0]], [[120], [121], [0], [123]], [120, 121, 0, 123],
        transposed=True,
    )  # fmt: skip
    given = tensor("bfp4", [here, there], (2, 4), grouping="1x4")
    rows = read_operand_rows(given, 0, poison=False)
    assert rows.elements.tolist() == [[8, 1, 2, 3], [4, 5, 0, 7]]
    assert rows.nonzero.tolist() == [[1, 1], [1, 1]]
    assert rows.maxima.tolist() == [0, -27]
    assert rows.length == 2
    rows = read_operand_rows(given, 1, poison=False)
    assert rows.elements.tolist() == [[9, 0], [1, 0], [0, 0], [3, 0]]
    assert rows.nonzero.tolist() == [[1], [1], [0], [1]]
    assert rows.maxima[[0, 1, 3]].tolist() == [-7, -6, -4]
    assert rows.length == 4


@pytest.mark.parametrize("poison", [False, True])
def test_a_group_that_is_not_a_number(poison):
    given = copy([[8, 19, 1, 2], [4, 0, 3, 4]], [[127, 255]], [127], [127, 0])
    rows = read_operand_rows(tensor("bfp4", [given], (2, 4)), 0, poison=poison)
    assert rows.elements.tolist() == [[8, -3, 0, 0], [4, 0, 0, 0]]
    assert rows.nonzero.tolist() == [[1, 0], [1, 0]]
    assert rows.poisoned.tolist() == [poison, poison]


@pytest.mark.parametrize("poison", [False, True])
def test_codes_that_are_no_numbers(poison):
    """E5M2: 0x3C is 1, 0x7C Inf, 0x7D NaN, 0x01 the smallest; p = 3, D = 29."""
    given = copy([[0x3C, 0xFC], [0x01, 0x7D], [0, 0], [0x80, 0xBC]], [[127]] * 2, [127] * 2, [127])
    rows = read_operand_rows(tensor("fp8_e5m2", [given], (4, 2)), 0, poison=poison)
    one, smallest = 4 * 2.0**-15, 2.0**-29
    largest = 0 if poison else 7
    assert rows.elements.tolist() == [[one, -largest], [smallest, 0], [0, 0], [0, -one]]
    assert rows.depths.tolist() == [[15], [29], [-1], [15]]
    assert rows.extents.tolist() == [[18], [32], [0], [18]]
    assert rows.poisoned.tolist() == [poison, poison, False, False]


def test_scales_with_a_significand():
    """NVFP4: the scale 0x38 is 1, 0x3C 1.5, 0x31 1.125 / 2; the elements 2 is 1, 7 is 6, p = 2."""
    given = copy([[2, 7, 10, 0], [1, 0, 3, 2]], [[0x38, 0x3C]], [0x3C], [0x38, 0x3C])
    squares = tensor("nvfp4", [given], (2, 4), grouping="2x2", exponent=3)
    rows = read_operand_rows(squares, 0, poison=False)
    # In eighths of the group's scale: 8, and 12 for 1.5. 1 is 2 * 2^-2, 6 is 3, 0.5 is 2^-2.
    assert rows.elements.tolist() == [[4, 24, -6, 0], [2, 0, 9, 6]]
    assert rows.deficits.tolist() == [[0, 0], [0, 0]]
    other = copy([[2, 7, 10, 0], [1, 0, 3, 2]], [[0x38, 0x31]], [0x38], [0x38, 0x31])
    squares = tensor("nvfp4", [other], (2, 4), grouping="2x2", exponent=3)
    rows = read_operand_rows(squares, 0, poison=False)
    assert rows.elements[:, 2:].tolist() == [[-4.5, 0], [6.75, 4.5]]
    assert rows.deficits.tolist() == [[0, 1], [0, 1]]


def test_powers_of_two_are_exact():
    exponents = np.array([-1074, -126, 0, 1, 63, 1023])
    assert power_of_two(exponents).tolist() == [
        5e-324, 2.0**-126, 1.0, 2.0, 9223372036854775808.0, 2.0**1023,
    ]  # fmt: skip
