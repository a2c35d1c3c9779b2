"""The norm: against numpy's own functions, gradients against differences."""

import numpy as np
import pytest

from diastole_sim.train import norm

EPSILON = 2.0**-16


def plain(x, gain):
    return gain * x / np.sqrt((x**2).mean(axis=1, keepdims=True) + EPSILON)


def test_against_numpy(np_rng):
    x = np_rng.normal(size=(6, 5)) * [[1e-3], [0], [1], [1], [30], [1e4]]
    gain = np_rng.normal(size=5)
    got, _ = norm.normalise(x, gain)
    np.testing.assert_allclose(got, plain(x, gain), rtol=1e-13)
    single = x.astype(np.float32), gain.astype(np.float32)
    got, _ = norm.normalise(*single)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, plain(*map(np.float64, single)), rtol=1e-6)


def test_gradients_by_differences(np_rng):
    x, weighed = np_rng.normal(size=(2, 4, 5))
    gain = np_rng.normal(size=5)
    _, passed = norm.normalise(x, gain)
    found = norm.normalise_gradients(passed, gain, weighed)
    for values, gradient in zip((x, gain), found, strict=True):
        for place in np.ndindex(values.shape):
            sums = []
            for step in (1e-6, -1e-6):
                values[place] += step
                sums.append((plain(x, gain) * weighed).sum())
                values[place] -= step
            assert gradient[place] == pytest.approx((sums[0] - sums[1]) / 2e-6, abs=1e-7)


def test_sums_in_ascending_order(np_rng):
    """Bits of the root, by one addition after the other."""
    x = np_rng.normal(size=(3, 9)).astype(np.float32)
    _, passed = norm.normalise(x, np.ones(9, np.float32))
    for row, inverse in zip(x, passed.inverse, strict=True):
        total = np.float32(0)
        for value in row:
            total += value * value
        root = np.sqrt(total / np.float32(9) + np.float32(EPSILON))
        assert inverse == np.float32(1) / root
