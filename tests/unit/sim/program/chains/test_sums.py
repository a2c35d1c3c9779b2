"""Sums, the norm of gradients and microbatches against numpy."""

import numpy as np
import pytest

from diastole_sim.program.chains import sums
from diastole_sim.program.evaluate import in_float64

BLOCKS = pytest.mark.parametrize("block", [1, 2, 8])
SHAPE = (11, 7)


@BLOCKS
def test_sums_and_squares(block, np_rng):
    values = np_rng.normal(size=SHAPE)
    options = {"shape": SHAPE, "block": block}
    found = in_float64(sums.column_sums(), {"values": values}, **options)["sums"]
    np.testing.assert_allclose(found, values.sum(axis=0), rtol=1e-12)
    found = in_float64(sums.column_squares(), {"values": values}, **options)["sums"]
    np.testing.assert_allclose(found, (values**2).sum(axis=0), rtol=1e-12)


@BLOCKS
def test_of_row_slots(block, np_rng):
    parts = np_rng.normal(size=(block, 7))
    options = {"shape": (1, 7), "block": block}
    for chain, expected in (
        (sums.bias_sums(), parts.sum(axis=0)),
        (sums.bias_squares(), parts.sum(axis=0) ** 2),
    ):
        found = in_float64(chain, {"db": parts}, **options)["sums"]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@BLOCKS
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("most", [0.5, 100.0])
def test_clip_factor(block, scaled, most, np_rng):
    squares = np_rng.random((1, 19))
    found = in_float64(
        sums.clip_factor(scaled=scaled),
        {"squares": squares},
        shape=squares.shape,
        block=block,
        constants={"max_norm": most},
        loss_scale=4.0,
    )["factor"]
    norm = np.sqrt(squares.sum()) / (4 if scaled else 1)
    expected = min(1, most / (norm + 1e-6)) / (4 if scaled else 1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_gradients_of_nothing_are_not_clipped():
    found = in_float64(
        sums.clip_factor(), {"squares": np.zeros((1, 3))}, shape=(1, 3), constants={"max_norm": 1}
    )
    assert found["factor"] == 1


@BLOCKS
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("total, factor", [(np.inf, 0.0), (np.nan, np.nan)])
def test_a_norm_that_is_not_finite(block, scaled, total, factor):
    """The factor is what torch.nn.utils.clip_grad_norm_ multiplies by: max_norm / (Inf + 1e-6)."""
    squares = np.ones((1, 19))
    squares[0, 17] = total
    found = in_float64(
        sums.clip_factor(scaled=scaled),
        {"squares": squares},
        shape=squares.shape,
        block=block,
        constants={"max_norm": 1.0},
        loss_scale=2.0**24,
    )
    np.testing.assert_array_equal(found["factor"], factor)
    if scaled:
        np.testing.assert_array_equal(found["sum"], [total])


def test_accumulation(np_rng):
    gradient, before = np_rng.normal(size=(2, *SHAPE))
    inputs = {"gradient": gradient, "sum": before}
    found = in_float64(sums.accumulate(), inputs, shape=SHAPE)["sum"]
    np.testing.assert_array_equal(found, before + gradient)
