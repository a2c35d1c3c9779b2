"""Activations against their formulas, derivatives against central differences."""

import numpy as np
import pytest

from diastole_sim.program.chains import activations
from diastole_sim.program.evaluate import in_float64
from diastole_sim.spec.stream_table import Kind

GELU = 2 * np.sqrt(2 / np.pi)
FORMULAS = {
    activations.relu: lambda z: np.maximum(z, 0),
    activations.leaky_relu: lambda z: np.where(z > 0, z, 0.01 * z),
    activations.sigmoid: lambda z: 1 / (1 + np.exp(-z)),
    activations.silu: lambda z: z / (1 + np.exp(-z)),
    activations.gelu: lambda z: 0.5 * z * (1 + np.tanh(GELU / 2 * (z + 0.044715 * z**3))),
    activations.tanh: np.tanh,
}
EACH = pytest.mark.parametrize("make", FORMULAS, ids=lambda make: make.__name__)
SHAPE = (11, 7)
STEP = 1e-5


def samples(np_rng):
    """Both small and large ones, none within a step of 0."""
    z = np_rng.normal(size=SHAPE) * np.array([0.05, 0.3, 1, 3, 3, 10, 10])
    return np.where(abs(z) < 1e-3, 0.25, z)


def forward(activation, z, block):
    found = in_float64(activation.forward_chain(), {"input": z}, shape=SHAPE, block=block)
    return found["value"], found["kept"]


def test_each_has_a_formula():
    assert set(FORMULAS) == set(activations.ACTIVATIONS.values())


def test_each_has_one_name():
    """What people give is that of the activation, in the letters of a command line."""
    for name, make in activations.ACTIVATIONS.items():
        assert name == make().name.replace("_", "-") == make.__name__.replace("_", "-")


@EACH
@pytest.mark.parametrize("block", [1, 4, 8])
def test_values(make, block, np_rng):
    z = samples(np_rng)
    a, _ = forward(make(), z, block)
    np.testing.assert_allclose(a, FORMULAS[make](z), rtol=2e-9, atol=1e-14)


@EACH
@pytest.mark.parametrize("block", [1, 4, 8])
def test_gradients(make, block, np_rng):
    z = samples(np_rng)
    da = np_rng.normal(size=SHAPE)
    _, kept = forward(make(), z, block)
    inputs = {"above": da, "kept": kept}
    found = in_float64(make().backward_chain(), inputs, shape=SHAPE, block=block)
    f = FORMULAS[make]
    slope = (f(z + STEP) - f(z - STEP)) / (2 * STEP)
    np.testing.assert_allclose(found["input"], da * slope, rtol=1e-6, atol=1e-8)


@EACH
def test_at_zero_and_at_the_ends(make):
    z = np.array([[0.0, -700.0, 700.0, -60.0, 60.0]])
    found = in_float64(make().forward_chain(), {"input": z}, shape=z.shape)
    with np.errstate(over="ignore"):
        expected = FORMULAS[make](z)
    np.testing.assert_allclose(found["value"], expected, rtol=1e-9, atol=1e-20)
    assert np.isfinite(found["kept"]).all()


def test_the_slope_is_a_parameter():
    z = np.array([[-2.0, 3.0]])
    activation = activations.leaky_relu(0.25)
    found = in_float64(activation.forward_chain(), {"input": z}, shape=(1, 2))
    np.testing.assert_array_equal(found["value"], [[-0.5, 3]])
    inputs = {"above": np.array([[8.0, 8.0]]), "kept": found["kept"]}
    found = in_float64(activation.backward_chain(), inputs, shape=(1, 2))
    np.testing.assert_array_equal(found["input"], [[2, 8]])


def test_masks_are_masks_and_derivatives_are_floats():
    for make in FORMULAS:
        kept = make().forward_chain().outputs["kept"].kinds
        masked = make in (activations.relu, activations.leaky_relu)
        assert kept == ((Kind.MASK,) if masked else (Kind.F32, Kind.BF16))
