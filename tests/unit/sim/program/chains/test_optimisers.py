"""Optimisers against numpy, three steps each, of weights and of biases."""

import numpy as np
import pytest

from diastole_sim.program.chains import optimisers
from diastole_sim.program.chains.updates import CLIP_FACTOR, Options
from diastole_sim.program.evaluate import in_float64
from support.optimisers import SETTINGS, constants_of_step, steps_of

SHAPE = (11, 7)
SCALE = 16.0


def gradients(chain, g, options, block):
    """As the update reads them: of a bias as sums of row slots."""
    if not options.bias:
        return g
    parts = np.zeros((block, SHAPE[1]))
    for row, values in enumerate(g):
        parts[row % block] += values
    return parts


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("bias", [False, True], ids=["weights", "bias"])
@pytest.mark.parametrize("factor", ["", "scaled", "clipped"])
@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.sampled(4)
def test_three_steps(name, bias, factor, block, np_rng):
    setting = SETTINGS[name]
    options = Options(
        bias=bias,
        scaled=factor == "scaled",
        clipped=factor == "clipped",
        decay=setting.decay_in_gradient,
    )
    chain = getattr(optimisers, setting.make)(options, **setting.options)
    shape = (1, SHAPE[1]) if bias else SHAPE
    w = np_rng.normal(size=shape)
    state = {each: np.zeros(shape) for each in chain.outputs if each not in ("w", "image")}
    given = np_rng.normal(size=(3, *SHAPE))
    factors = {"": 1.0, "scaled": 1 / SCALE, "clipped": 0.3}
    taken = given.sum(axis=1, keepdims=True) if bias else given
    expected = steps_of(setting, w, taken * factors[factor])
    for step in range(3):
        constants = constants_of_step(setting, step) | {CLIP_FACTOR: 0.3}
        inputs = {"g": gradients(chain, given[step], options, block), "w": w} | state
        if bias:
            inputs |= {each: np.ravel(inputs[each]) for each in ("w", *state)}
        found = in_float64(
            chain, inputs, shape=shape, block=block, constants=constants, loss_scale=SCALE
        )
        w, state = found["w"], {each: found[each] for each in state}
        np.testing.assert_allclose(np.reshape(w, shape), expected[step], rtol=1e-11)
        assert ("image" in found) == (not bias)
        if not bias:
            np.testing.assert_array_equal(found["image"], w)


def test_nothing_moves_without_a_gradient():
    zeros = np.zeros((2, 2))
    for name, setting in SETTINGS.items():
        chain = getattr(optimisers, setting.make)(Options(), **setting.options)
        inputs = dict.fromkeys(chain.inputs, zeros)
        found = in_float64(chain, inputs, shape=(2, 2), constants=constants_of_step(setting, 0))
        assert not found["w"].any(), name


ADAPTIVE = [name for name, setting in SETTINGS.items() if setting.torch != "SGD"]


@pytest.mark.parametrize("name", ADAPTIVE)
def test_a_square_that_overflows_moves_nothing(name):
    """torch divides by sqrt(Inf), which leaves 0, and not NaN."""
    setting = SETTINGS[name]
    options = Options(decay=setting.decay_in_gradient)
    chain = getattr(optimisers, setting.make)(options, **setting.options)
    w = np.array([[-1.5, 1.0]])
    inputs = dict.fromkeys(chain.inputs, np.zeros((1, 2))) | {"g": np.full((1, 2), 1e200), "w": w}
    with np.errstate(over="ignore"):
        found = in_float64(chain, inputs, shape=(1, 2), constants=constants_of_step(setting, 0))
        (expected,) = steps_of(setting, w, [inputs["g"]])
    np.testing.assert_allclose(found["w"], expected, rtol=1e-12)
    decayed = 1 - setting.rate * setting.decay if setting.make == "adamw" else 1.0
    np.testing.assert_allclose(found["w"], decayed * w, rtol=1e-12)


def test_an_update_without_an_image():
    for setting in SETTINGS.values():
        make = getattr(optimisers, setting.make)
        whole, short = (make(Options(image=image), **setting.options) for image in (True, False))
        assert set(whole.outputs) - set(short.outputs) == {"image"}
        assert whole.text == short.text + f"mov r2 -> o{whole.outputs['image'].number}\n"
