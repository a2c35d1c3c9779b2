"""The comparison of two devices: whatever single thing differs is counted and named."""

from dataclasses import replace

import numpy as np
import pytest

from diastole_sim.golden.compare import GoldenComparison, Mismatch
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.train.float_device import FloatDevice
from support.stored import make_numerics

SHAPE = (5, 6)
MACHINES = {"squares": "bfp4", "vectors": ("mxfp4_e2m1", "1x4"), "two levels": ("nvfp4", "1x4")}


@pytest.fixture(params=MACHINES)
def device(request):
    return NumpyDevice(make_numerics(MACHINES[request.param]))


def convert(device, rng):
    return device.convert(rng.standard_normal(SHAPE).astype(np.float32), "x", tag=0)


def spoilt(tensor, number, part, index, mask=1):
    """The tensor with other bits in one place of a copy."""
    array = getattr(tensor.copies[number], part).copy()
    array[index] ^= mask
    copies = list(tensor.copies)
    copies[number] = replace(copies[number], **{part: array})
    return replace(tensor, copies=tuple(copies))


def compared(got, expected):
    found = GoldenComparison()
    found.operand("X", got, expected)
    return found


def called(tensor, number):
    return "X_q" if len(tensor.copies) == 1 else f"X_q_{'km'[number]}"


def test_nothing_differs(device, np_rng):
    tensor = convert(device, np_rng)
    found = compared(tensor, tensor)
    assert (found.mismatches, found.first, found.reports_differ) == (0, None, [])
    per_copy = [
        tensor.values().size + copy.exponents.size + copy.row_max.size + copy.col_max.size + 1
        for copy in tensor.copies
    ]
    assert found.compared == sum(per_copy) + 6


@pytest.mark.parametrize("part", ["exponents", "row_max", "col_max"])
def test_stored_bytes(device, np_rng, part):
    """The last byte; an exponent is that of a group, so that its elements differ with it."""
    tensor = convert(device, np_rng)
    for number, copy in enumerate(tensor.copies):
        array = getattr(copy, part)
        if not array.size:
            continue
        last = tuple(side - 1 for side in array.shape)
        name = f"{called(tensor, number)}.{part}"
        found = compared(spoilt(tensor, number, part, last), tensor)
        if part != "exponents":
            assert found.mismatches == 1
            assert found.first == Mismatch(
                tensor=name,
                step=None,
                index=last,
                actual=array[last] ^ 1,
                expected=array[last],
            )
            text = f"first mismatch: tensor {name}, index {list(last)}: {array[last] ^ 1}, "
            assert str(found.first) == text + f"expected {array[last]}"
        assert found.mismatches >= 1
        assert found.reports_differ == []


def test_an_element_counts_once(device, np_rng):
    tensor = convert(device, np_rng)
    for number, copy in enumerate(tensor.copies):
        row, column = copy.shape[0] - 1, copy.shape[1] - 1
        found = compared(spoilt(tensor, number, "codes", (row, column)), tensor)
        assert found.mismatches == 1
        index = (column, row) if copy.transposed else (row, column)
        assert (found.first.tensor, found.first.index) == (called(tensor, number), index)


def test_a_not_a_number_with_another_code(np_rng):
    """Both are NaN; their codes differ."""
    device = NumpyDevice(make_numerics("fp8_e5m2", special="poison"))
    array = np.ones(SHAPE, np.float32)
    array[2, 3] = np.nan
    tensor = device.convert(array, "x", tag=0)
    found = compared(spoilt(tensor, 0, "codes", (2, 3)), tensor)
    assert (found.mismatches, found.first.tensor, found.first.index) == (1, "X_q.codes", (2, 3))


def test_the_padding(device, np_rng):
    tensor = convert(device, np_rng)
    for number, copy in enumerate(tensor.copies):
        last = tuple(side - 1 for side in copy.codes.shape)
        assert last > copy.shape
        found = compared(spoilt(tensor, number, "codes", last), tensor)
        words = f"wrong elements in the padding of {called(tensor, number)} is 1, expected 0"
        assert (found.mismatches, found.reports_differ) == (1, [words])
        assert str(found.first) == words


def test_the_sign_of_zero_and_one_nan(np_rng):
    device = FloatDevice()
    data = np.array([[0.0, np.nan]], np.float32)
    tensor, other = (device.convert(array, "x", tag=0) for array in (data, -data))
    assert compared(tensor, tensor).mismatches == 0
    found = compared(other, tensor)
    assert found.mismatches == 2  # the sign of the NaN too
    assert str(found.first) == (
        "first mismatch: tensor X_q, index [0, 0]: -0.0 (0x80000000), expected 0.0 (0x00000000)"
    )
    assert found.compared == 2 + 4  # nothing but numbers and reports can be read


def test_the_first_of_several(np_rng):
    device = NumpyDevice(make_numerics("bfp4"))
    data = [np_rng.standard_normal((4, 4)).astype(np.float32) for _ in range(2)]
    expected = device.forward(*data)
    values = expected.y.copy()
    values.view(np.uint32)[[1, 3], [2, 0]] ^= 1
    got = replace(expected, values={"Y": values}, exact=not expected.exact)
    found = GoldenComparison()
    found.result(got, expected, prefix="layer3.", step=7)
    assert (found.compared, found.mismatches) == (16 + 2, 3)
    assert (found.first.tensor, found.first.step, found.first.index) == ("layer3.Y", 7, (1, 2))
    words = f"exact of layer3.forward in step 7 is {got.exact}, expected {expected.exact}"
    assert found.reports_differ == [words]
    found.result(expected, expected)
    assert found.mismatches == 3
