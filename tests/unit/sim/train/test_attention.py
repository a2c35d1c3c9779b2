"""Attention: against plain loops, gradients against differences, sums in the stated order."""

import numpy as np
import pytest

from diastole_sim.train import attention, host

SHAPE = (2, 3, 5, 4)  # sequences, heads, places, channels


@pytest.fixture
def parts(np_rng):
    return [np_rng.normal(size=SHAPE) for _ in range(3)]


@pytest.fixture
def in_doubles(monkeypatch):
    monkeypatch.setattr(host, "exp", np.exp)


def plain(q, k, v):
    """Place by place, of what each sees alone."""
    found = np.zeros_like(v)
    for place in np.ndindex(*SHAPE[:3]):
        *lead, row = place
        scores = [q[place] @ k[*lead, other] / np.sqrt(SHAPE[3]) for other in range(row + 1)]
        powers = np.exp(scores) / np.exp(scores).sum()
        found[place] = sum(p * v[*lead, other] for other, p in enumerate(powers))
    return found


def test_against_plain_loops(parts, in_doubles):
    got, passed = attention.attend(*parts)
    np.testing.assert_allclose(got, plain(*parts), rtol=1e-12)
    assert np.array_equal(np.triu(passed.weights[0, 0], 1), np.zeros((5, 5)))


def test_in_float32(parts):
    single = [part.astype(np.float32) for part in parts]
    got, _ = attention.attend(*single)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, plain(*(part.astype(float) for part in single)), atol=2e-6)


def test_gradients_by_differences(parts, np_rng, in_doubles):
    weighed = np_rng.normal(size=SHAPE)
    _, passed = attention.attend(*parts)
    found = attention.attend_gradients(passed, weighed)
    for part, gradient in zip(parts, found, strict=True):
        assert gradient.shape == part.shape
        for place in np.ndindex(SHAPE):
            sums = []
            for step in (1e-6, -1e-6):
                part[place] += step
                sums.append((plain(*parts) * weighed).sum())
                part[place] -= step
            assert gradient[place] == pytest.approx((sums[0] - sums[1]) / 2e-6, abs=1e-7)


def test_sums_in_ascending_order(np_rng):
    a = np_rng.normal(size=(2, 3, 9)).astype(np.float32)
    b = np_rng.normal(size=(2, 9, 4)).astype(np.float32)
    want = np.zeros((2, 3, 4), np.float32)
    for lead, row, column in np.ndindex(want.shape):
        for k in range(9):
            want[lead, row, column] += np.float32(a[lead, row, k] * b[lead, k, column])
    assert np.array_equal(attention.contract(a, b), want)
    total = np.zeros((2, 3), np.float32)
    for index in range(9):
        total += a[..., index]
    assert np.array_equal(attention.sum_last(a), total)


def test_heads_are_slices_of_channels(np_rng):
    """Sequence s, place p is row s * places + p; head h of part n begins at channel
    (n * heads + h) * channels."""
    x = np_rng.normal(size=(2 * 5, 3 * 3 * 4))
    parts = attention.split_heads(x, 2, 3, 3)
    for number, part in enumerate(parts):
        assert part.shape == SHAPE
        for s, h, p in np.ndindex(SHAPE[:3]):
            first = (number * 3 + h) * 4
            assert np.array_equal(part[s, h, p], x[s * 5 + p, first : first + 4])
    assert np.array_equal(attention.join_heads(*parts), x)


def test_a_place_that_is_not_a_number_spoils_none_before_it(parts):
    single = [part.astype(np.float32) for part in parts]
    want, _ = attention.attend(*single)
    single[0][1, 2, 3, 0] = np.nan
    got, _ = attention.attend(*single)
    assert np.isnan(got[1, 2, 3]).all()
    got[1, 2, 3] = want[1, 2, 3]
    assert np.array_equal(got, want)
