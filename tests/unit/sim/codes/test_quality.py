"""Error of products: every figure from results small enough to work out by hand."""

import math

import numpy as np
import pytest

from diastole_sim.codes.quality import (
    ResultQuality,
    Worst,
    plain_products,
    product_qualities,
    result_quality,
)
from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.golden.matrix_product import ResultTensor
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics


def result(*rows, exact=False, overflow=False):
    values = np.array(rows, dtype=np.float32)
    return ResultTensor(values=values, exact=exact, overflow=overflow)


def decibels(signal, noise):
    return pytest.approx(10 * math.log10(signal / noise), rel=1e-12)


def test_whole_and_worst():
    """Noise 1 in the second row of signal 2, 0.25 in the third of signal 200."""
    plain = np.array([[30.0, 40], [1, 1], [10, 10]])
    found = result_quality(plain, result([30, 40], [0, 1], [10, 10.5]))
    assert found.snr_db == decibels(2500 + 2 + 200, 1.25)
    assert found.row == Worst(index=1, snr_db=decibels(2, 1))
    assert found.column == Worst(index=0, snr_db=decibels(900 + 1 + 100, 1))


def test_the_whole_hides_a_row_that_is_lost():
    plain = np.ones((1000, 4))
    values = np.ones((1000, 4))
    values[123] = 0
    found = result_quality(plain, result(*values))
    assert found.snr_db == decibels(1000, 1)
    assert found.row == Worst(index=123, snr_db=0)


def test_no_error():
    plain = np.array([[1.0, 2]])
    found = result_quality(plain, result([1, 2], exact=True))
    assert found == ResultQuality(
        counted=2, snr_db=None, row=None, column=None, exact=True, overflow=False
    )


def test_what_is_zero_exactly_has_no_ratio():
    found = result_quality(np.array([[0.0, 0], [3, 4]]), result([1, 0], [3, 4]))
    assert found.snr_db == decibels(25, 1)
    assert (found.row, found.column) == (None, Worst(index=0, snr_db=decibels(9, 1)))


def test_nothing_but_an_error_is_no_exact_result():
    found = result_quality(np.zeros((1, 1)), result([1]))
    assert found.snr_db is not None
    assert found.snr_db < -1000


def test_infinite_results_are_a_finite_error():
    found = result_quality(np.array([[1.0, 2]]), result([1, np.inf], overflow=True))
    assert found.snr_db == pytest.approx(10 * math.log10(5) - 20 * math.log10(3.4028235e38))
    assert found.overflow


def test_what_nan_and_inf_reach_does_not_count():
    plain = np.array([[np.nan, np.inf, 3, 4]])
    found = result_quality(plain, result([1, 2, 3, 5]))
    assert found.snr_db == decibels(25, 1)
    assert found.column == Worst(index=3, snr_db=decibels(16, 1))
    assert found.counted == 2
    nothing = result_quality(np.full((2, 3), np.inf), result([1, 2, 3], [4, 5, 6]))
    assert (nothing.counted, nothing.snr_db, nothing.row) == (0, None, None)


def tensors():
    return {
        "X": np.array([[1, 2, 3]], dtype=np.float32),
        "W": np.array([[1, 0], [0, 1], [2, 2]], dtype=np.float32),
        "dY": np.array([[10, 1]], dtype=np.float32),
    }


PLAIN = {
    "Y": [[7, 8]],
    "dX": [[10, 1, 22]],
    "dW": [[10, 1], [20, 2], [30, 3]],
}


@pytest.mark.parametrize(
    "names, results",
    [
        ("X W dY", ["Y", "dX", "dW"]),
        ("X W", ["Y"]),
        ("W dY", ["dX"]),
        ("X dY", ["dW"]),
        ("X", []),
    ],
)
def test_the_judge(names, results):
    found = plain_products({name: tensors()[name] for name in names.split()})
    assert {name: each.tolist() for name, each in found.items()} == {
        name: PLAIN[name] for name in results
    }
    assert all(each.dtype == np.float64 for each in found.values())


def test_the_judge_does_not_round_to_float32():
    """3 * 2^-25 beside 1 is more than half a unit of binary32."""
    given = {
        "X": np.array([[1, 2.0**-25]], dtype=np.float32),
        "W": np.array([[1], [3]], dtype=np.float32),
    }
    assert plain_products(given)["Y"].tolist() == [[1 + 3 * 2.0**-25]]


@pytest.mark.parametrize("fraction, lost", [(8, True), (10, False)])
def test_products_are_the_machines_with_what_alignment_loses(fraction, lost):
    """1 and 2^-10 are exact in bfp1, one block each; a deficit of 10 rounds the smaller to 0 where
    no more than 8 bits are kept below the unit."""
    plain = {"format": "bfp1", "rounding": "nearest"}
    sizes = {"block": 1, "random_bits": 8, "fraction": fraction, "headroom": 4}
    numerics = Numerics.from_dict(dict.fromkeys(CLASS_NAMES, plain) | sizes)
    given = {
        "X": np.array([[1, 2.0**-10]], dtype=np.float32),
        "W": np.ones((2, 1), dtype=np.float32),
    }
    converted = {
        name: quantise(each, Conversion(name.lower(), tag=0, step=0), numerics, seed=0)
        for name, each in given.items()
    }
    (found,) = product_qualities(plain_products(given), converted, numerics).values()
    assert found.exact is not lost
    if lost:
        assert found.snr_db == decibels((1 + 2.0**-10) ** 2, 2.0**-20)
        assert found.row == found.column == Worst(index=0, snr_db=found.snr_db)
    else:
        assert (found.snr_db, found.row, found.column) == (None, None, None)
