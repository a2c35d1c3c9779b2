"""Losses against their formulas, gradients against central differences."""

from functools import partial

import numpy as np
import pytest

from diastole_sim.golden.vector.arithmetic import FLOAT64
from diastole_sim.program.chains import losses
from diastole_sim.program.evaluate import in_float64
from diastole_sim.spec.stream_table import Kind

BLOCKS = pytest.mark.parametrize("block", [1, 2, 8])
PLACES = pytest.mark.parametrize("panel", [True, False], ids=["panel", "memory"])
SCALED = pytest.mark.parametrize("scaled", [False, True])
SHAPE = ROWS, COLUMNS = (11, 10)
STEP = 1e-5


def cross_entropy(z, labels):
    """Of every row."""
    m = z.max(axis=1, keepdims=True)
    t = np.exp(z - m).sum(axis=1)
    return np.log(t) + m[:, 0] - z[np.arange(len(z)), labels]


def slopes(f, z):
    """Central differences of a number by every element."""
    found = np.empty_like(z)
    for place in np.ndindex(z.shape):
        change = np.zeros_like(z)
        change[place] = STEP
        found[place] = (f(z + change) - f(z - change)) / (2 * STEP)
    return found


def softmax(logits, labels, *, block, panel, scaled):
    kinds = {"z": Kind.F32, "m": Kind.ROW}
    options = {"shape": logits.shape, "block": block, "loss_scale": 8.0}

    def run(chain, inputs):
        chosen = {} if panel else {name: kinds[name] for name in kinds if name in inputs}
        chosen |= {} if panel or "logits" not in inputs else kinds
        return in_float64(chain, inputs, kinds=chosen, **options)

    a = run(losses.softmax_a(), {"logits": logits})
    second = run(losses.softmax_b(), {"z": a["z"], "m": a["m"], "label": labels})
    inputs = {"z": second["z"], "m": second["m"], "label": labels}
    third = run(losses.softmax_c(len(logits), scaled=scaled), inputs)
    return second["loss"], third["gradient"]


@BLOCKS
@PLACES
@SCALED
def test_softmax(block, panel, scaled, np_rng):
    z = 3 * np_rng.normal(size=SHAPE)
    labels = np_rng.integers(0, COLUMNS, size=ROWS)
    loss, dz = softmax(z, labels, block=block, panel=panel, scaled=scaled)
    np.testing.assert_allclose(loss, cross_entropy(z, labels), rtol=1e-12)
    expected = slopes(lambda z: cross_entropy(z, labels).mean(), z)
    np.testing.assert_allclose(dz, expected * (8 if scaled else 1), rtol=1e-6, atol=1e-9)


def test_softmax_of_large_logits(np_rng):
    y = np_rng.choice([-2000.0, 0, 2000.0], size=SHAPE)
    labels = np_rng.integers(0, COLUMNS, size=ROWS)
    loss, dz = softmax(y, labels, block=4, panel=True, scaled=False)
    np.testing.assert_allclose(loss, cross_entropy(y, labels), rtol=1e-12)
    assert np.isfinite(dz).all()


@pytest.mark.parametrize("label", [-1, COLUMNS, 2**24])
def test_a_label_outside_matches_nothing(label, np_rng):
    y = np_rng.normal(size=(1, COLUMNS))
    loss, dz = softmax(y, np.array([label]), block=4, panel=True, scaled=False)
    m = y.max()
    t = np.exp(y - m).sum()
    np.testing.assert_allclose(loss, np.log(t), rtol=1e-13)
    np.testing.assert_allclose(dz, np.exp(y - m) / t, rtol=1e-13)


def smooth(d, beta):
    return np.where(abs(d) < beta, d * d / (2 * beta), abs(d) - beta / 2)


@BLOCKS
@SCALED
@pytest.mark.parametrize(
    "make, formula",
    [
        (losses.squared_error, lambda d: d * d),
        (losses.absolute_error, abs),
        (partial(losses.smooth_error, beta=0.75), partial(smooth, beta=0.75)),
    ],
    ids=["squared", "absolute", "smooth"],
)
def test_losses_of_elements(make, formula, block, scaled, np_rng):
    z, target = np_rng.normal(size=(2, *SHAPE))
    found = in_float64(
        make(z.size, scaled=scaled),
        {"z": z, "target": target},
        shape=SHAPE,
        block=block,
        loss_scale=8.0,
    )
    np.testing.assert_allclose(found["loss"], formula(z - target).sum(axis=1), rtol=1e-12)
    expected = slopes(lambda z: formula(z - target).mean(), z) * (8 if scaled else 1)
    np.testing.assert_allclose(found["gradient"], expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("make", [losses.absolute_error, partial(losses.smooth_error, beta=2.0)])
def test_no_difference_has_no_gradient(make):
    zeros = np.zeros((1, 3))
    found = in_float64(make(3), {"z": zeros, "target": zeros}, shape=(1, 3))
    np.testing.assert_array_equal(found["gradient"], zeros)
    np.testing.assert_array_equal(found["loss"], [0])


@BLOCKS
def test_mean_loss(block, np_rng):
    values = np_rng.normal(size=(1, 21))
    constants = {"1/samples": 1 / 21}
    found = in_float64(
        losses.mean_loss(), {"losses": values}, shape=(1, 21), block=block, constants=constants
    )
    np.testing.assert_allclose(found["loss"], [values.mean()], rtol=1e-13)
    np.testing.assert_allclose(found["constant"], values.mean(), rtol=1e-13)


def test_the_two_parts_of_the_logarithm():
    high, low = losses.LN2["ln2_high"], losses.LN2["ln2_low"]
    assert high + low == np.log(2)
    assert np.float32(low).view(np.uint32) == 0x3AE42FF0
    assert FLOAT64.array(high) == 0.69140625
