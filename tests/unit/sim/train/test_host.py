"""The host's arithmetic: elementary functions, stated order of sums, gradients."""

import hashlib

import gmpy2
import numpy as np
import pytest

from diastole_sim.train import host


def ulps(got, exact):
    """Distance of float32 values from exact ones, in units in the last place of the exact ones."""
    units = np.spacing(np.abs(np.array([float(value) for value in exact], np.float32)))
    distances = [abs(gmpy2.mpfr(float(a)) - b) for a, b in zip(got, exact, strict=True)]
    return max(float(d / float(u)) for d, u in zip(distances, units, strict=True))


@pytest.fixture(autouse=True)
def precision():
    with gmpy2.context(precision=120):
        yield


@pytest.mark.parametrize("low, high", [(-87, 88), (-20, 0), (-1e-3, 1e-3)])
def test_exp_is_within_two_units(low, high, np_rng):
    x = np_rng.uniform(low, high, 3000).astype(np.float32)
    assert ulps(host.exp(x), [gmpy2.exp(float(value)) for value in x]) < 2


def test_exp_at_the_edges():
    x = np.array([0, -0.0, -87.5, -np.inf, 88.5, np.inf, np.nan], np.float32)
    want = np.array([1, 1, 0, 0, np.inf, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(host.exp(x), want)
    assert host.exp(x).dtype == np.float32


@pytest.mark.parametrize("low, high", [(1, 10), (0.5, 2), (0.99, 1.01), (1e-37, 1e38)])
def test_log_is_within_two_units(low, high, np_rng):
    x = np.exp(np_rng.uniform(np.log(low), np.log(high), 3000)).astype(np.float32)
    x = x[x != 1]
    assert ulps(host.log(x), [gmpy2.log(float(value)) for value in x]) < 2


def test_log_at_the_edges():
    x = np.array([1, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(host.log(x), np.array([0, np.inf, np.nan], np.float32))


def test_bits_of_exp_and_log_are_the_same_everywhere():
    """Over a fixed grid of arguments; changes only with the functions themselves."""
    x = (np.arange(-30000, 10000) / np.float32(512)).astype(np.float32)
    digest = hashlib.sha256(host.exp(x).astype("<f4").tobytes())
    digest.update(host.log(x[x > 0]).astype("<f4").tobytes())
    assert digest.hexdigest() == "e184a63c85af8c5ffbfe16a422a9c2c219e6a2e7a36fc4577e1a6072d28e227d"


def test_sums_run_in_ascending_order():
    x = np.array([[2.0**24], [1.0], [1.0], [-(2.0**24)]], np.float32)  # 2 in any better order
    assert host.sum_rows(x).tolist() == [0.0]
    assert host.sum_columns(x.T).tolist() == [0.0]
    assert host.sum_rows(x[::-1]).tolist() == [2.0]
    assert host.sum_columns(x[::-1].T).tolist() == [2.0]


def test_sums_of_many_rows_are_those_of_one_by_one(np_rng):
    x = np_rng.normal(size=(37, 11)).astype(np.float32)
    want = [np.float32(0)] * 11
    for row in x:
        want = [np.float32(a + b) for a, b in zip(want, row, strict=True)]
    assert host.sum_rows(x).tolist() == want


def test_relu_and_its_gradient():
    z = np.array([[-1.0, -0.0, 0.0, 2.0]], np.float32)
    assert np.array_equal(host.relu(z).view(np.uint32), np.array([[0, 0, 0, 0x40000000]]))
    dh = np.array([[3.0, 4.0, 5.0, 6.0]], np.float32)
    assert host.relu_gradient(dh, z).tolist() == [[0, 0, 0, 6]]


def test_loss_of_equal_scores_is_the_logarithm_of_their_number():
    loss, gradient = host.softmax_cross_entropy(np.zeros((2, 4), np.float32), np.array([1, 3]))
    assert loss == np.float32(np.log(4))
    quarter = 0.25 / 2
    assert gradient.tolist() == [
        [quarter, -0.75 / 2, quarter, quarter],
        [quarter, quarter, quarter, -0.75 / 2],
    ]


def test_loss_does_not_overflow():
    z = np.array([[1e30, -1e30, 0], [90, 0, -90]], np.float32)
    loss, gradient = host.softmax_cross_entropy(z, np.array([0, 0]))
    assert loss == 0
    assert np.isfinite(gradient).all()


def reference_loss(z, labels):
    """Mean cross-entropy in float64, by numpy's own functions."""
    shifted = z - z.max(axis=1, keepdims=True)
    chosen = shifted[np.arange(len(z)), labels]
    return float(np.mean(np.log(np.exp(shifted).sum(axis=1)) - chosen))


def test_gradient_of_the_loss_by_finite_differences(np_rng):
    z = np_rng.normal(size=(6, 5)).astype(np.float32) * 3
    labels = np_rng.integers(0, 5, 6)
    loss, gradient = host.softmax_cross_entropy(z, labels)
    assert loss == pytest.approx(reference_loss(z.astype(np.float64), labels), rel=1e-6)
    for place in np.ndindex(z.shape):
        step = np.zeros(z.shape)
        step[place] = 1e-5
        above, below = (reference_loss(z + sign * step, labels) for sign in (1, -1))
        assert gradient[place] == pytest.approx((above - below) / 2e-5, abs=1e-6), place


def test_accuracy_takes_the_first_of_equals():
    z = np.array([[1, 1, 0], [0, 2, 2], [0, 0, 3]], np.float32)
    assert host.accuracy(z, np.array([0, 2, 2])) == 2 / 3


def test_learning_rate_falls_linearly():
    assert [float(host.learning_rate(0.5, step, 4)) for step in range(4)] == [
        0.5,
        0.375,
        0.25,
        0.125,
    ]


def test_descent_with_momentum():
    value, velocity, gradient = (np.array([x], np.float32) for x in (1.0, 4.0, 2.0))
    value, velocity = host.descend(value, velocity, gradient, np.float32(0.25), 0.5)
    assert (value.tolist(), velocity.tolist()) == ([0.0], [4.0])
    assert value.dtype == velocity.dtype == np.float32
