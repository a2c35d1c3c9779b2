"""Standardised columns: mean 0 and deviation 1, and back."""

import numpy as np
import pytest

from diastole.errors import BadInput
from diastole.learning.standard import Standard


def test_columns_have_mean_0_and_deviation_1(np_rng):
    values = (np_rng.normal(size=(50, 2, 3)) * 7 + 5).astype(np.float32)
    standard = Standard.of(values)
    found = standard.apply(values)
    assert found.shape == values.shape
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(found.std(axis=0), 1, rtol=1e-6)
    np.testing.assert_allclose(standard.undo(found), values, rtol=1e-5, atol=1e-5)


def test_a_column_of_one_value_stays_finite():
    standard = Standard.of(np.full((4, 1), 3, np.float32))
    assert standard.apply(np.full((2, 1), 3, np.float32)).tolist() == [[0], [0]]


def test_plain_values_come_back(np_rng):
    standard = Standard.of(np_rng.normal(size=(9, 4)).astype(np.float32))
    assert Standard.read(standard.record()) == standard
    assert Standard.read(None) is None


def test_a_deviation_below_all_normal_numbers_is_as_good_as_none():
    values = np.float32([[0], [1e-45], [0]])
    assert Standard.of(values).deviation == (1.0,)


def test_numbers_beyond_float32_are_refused():
    """A column of the largest numbers of both signs."""
    values = np.float32([[3e38], [-3e38], [3e38]])
    standard = Standard.of(values)
    with pytest.raises(BadInput, match="beyond the range of float32"):
        Standard(mean=(-3e38,), deviation=standard.deviation).apply(values)
    assert np.isinf(standard.undo(np.float32([[1e30]]))).all()
