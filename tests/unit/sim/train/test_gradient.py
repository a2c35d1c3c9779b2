"""The format of weight gradients: by exact fractions with draws of the oracle, and ml_dtypes."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.train.gradient import round_gradient
from diastole_sim.train.loss_scaling import HostScale, LossScaling
from diastole_sim.train.master import weight_tag
from diastole_sim.train.samples import Samples
from diastole_sim.train.session import Session
from diastole_sim.train.transformer import Transformer, TransformerSizes
from oracle.rounding import round_fraction
from oracle.threefry import draw
from support.host_perceptron import Perceptron
from support.numerics import make_numerics

E5M2 = ml_dtypes.float8_e5m2
TAG = weight_tag(2)


def rounded(values, step=31):
    return round_gradient(values, "fp8_e5m2", seed=9, tag=TAG, step=step)


def test_all_codes_stay():
    codes = np.arange(256, dtype=np.uint8).view(E5M2).astype(np.float32)
    found = rounded(codes)
    number = ~np.isnan(codes)
    assert found[number].tobytes() == codes[number].tobytes()
    assert np.isnan(found[~number]).all()


def test_the_definition_in_fractions(np_rng):
    """Draws of the weight's tag with bits 29 and 30, multiples of the step of the binade, of which
    the lowest is 2^-16, and Inf above 57344."""
    exponents = np_rng.integers(-20, 17, (13, 11))
    values = np.ldexp(np_rng.uniform(-2, 2, (13, 11)), exponents).astype(np.float32)
    found = rounded(values)
    for index, (value, got) in enumerate(zip(values.flat, found.flat, strict=True)):
        exact = abs(Fraction(float(value)))
        binade = max(int(np.frexp(np.float64(value))[1]) - 1, -14)
        unit = Fraction(2) ** (binade - 2)
        drawn = draw(seed=9, tag=3 << 29 | 9, step=31, index=index, bits=16)
        want = unit * round_fraction("stochastic-b", exact / unit, drawn, 16)
        assert abs(got) == (float(want) if want <= 57344 else np.inf), (value, got)
        assert np.signbit(got) == np.signbit(value)
    numbers = found[np.isfinite(found)]
    assert (numbers.astype(E5M2).astype(np.float32) == numbers).all()


def test_the_mean_is_what_was_rounded():
    """Of 3/8 of a step of the binade of 1, over many elements, and other draws in another step."""
    values = np.full(40_000, 1 + 3 / 32, np.float32)
    found = rounded(values)
    assert set(found.tolist()) == {1.0, 1.25}
    assert abs((found - 1).mean() - 3 / 32) < 0.003  # 5 standard errors
    assert not np.array_equal(found, rounded(values, step=32))


def test_float32_is_left_alone():
    values = np.float32([[1.3]])
    assert round_gradient(values, "float32", seed=0, tag=0, step=0) is values


def small():
    """Networks with a batch each."""
    random = np.random.default_rng(3)
    inputs = random.standard_normal((8, 6)).astype(np.float32)
    yield Perceptron((6, 4, 3), seed=1), Samples(inputs=inputs, labels=random.integers(3, size=8))
    sizes = TransformerSizes(context=4, width=8, heads=2, blocks=1, symbols=6)
    symbols = random.integers(6, size=(2, 5))
    yield Transformer(sizes, seed=1), Samples(inputs=symbols[:, :-1], labels=symbols[:, 1:])


@pytest.mark.parametrize("which", [0, 1], ids=["perceptron", "transformer"])
def test_networks_round_weights_alone(which):
    """A first velocity is the gradient, here without the scale of 2^6: of weights it is E5M2's
    nearest below or above that of float32, of all else the same bits."""
    found = []
    for kind in ("float32", "fp8_e5m2"):
        network, batch = list(small())[which]
        numerics = make_numerics(formats="bf16", roundings=("nearest",) * 3)
        scale = HostScale(LossScaling(exponent=6), gradient=kind, seed=4)
        given = {"step": 0, "rate": np.float32(0.5), "momentum": 0.8}
        network.train_step(Session(NumpyDevice(numerics)), batch, **given, scale=scale)
        found.append(network.parameters_by_name)
    wide, narrow = found
    for name, parameters in wide.items():
        for layer, (plain, other) in enumerate(zip(parameters, narrow[name], strict=True)):
            want = plain.velocity
            if name == "weights":
                tag = 3 << 29 | 4 * layer + 1
                drawn = {"seed": 4, "tag": tag, "step": 0}
                want = round_gradient(want * np.float32(64), "fp8_e5m2", **drawn) / np.float32(64)
                assert not np.array_equal(want, plain.velocity)
            assert np.array_equal(other.velocity, want), (name, layer)


def test_a_gradient_beyond_the_format_skips_the_step():
    """Scaled it is Inf: the scale falls, and nothing is updated."""
    network, batch = next(small())
    scale = HostScale(LossScaling(exponent=24), gradient="fp8_e5m2")
    numerics = make_numerics(formats="bf16", roundings=("nearest",) * 3)
    before = network.sha256()
    given = {"step": 0, "rate": np.float32(0.5), "momentum": 0.8}
    network.train_step(Session(NumpyDevice(numerics)), batch, **given, scale=scale)
    assert (scale.skipped, scale.state.exponent) == (1, 23)
    assert network.sha256() == before
