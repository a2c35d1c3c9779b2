"""Constants of optimisers, of every step."""

import numpy as np
import pytest

from diastole_sim.program.chains.updates import Options
from diastole_sim.program.recipe import Adam, RmsProp, Sgd, falling
from diastole_sim.train.host import learning_rate
from support.optimisers import SETTINGS, constants_of_step
from support.small_programs import optimiser_of


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("step", [0, 1, 7])
def test_constants(name, step):
    setting = SETTINGS[name]
    optimiser = optimiser_of(setting)
    chain, expected = optimiser.chain(Options()), constants_of_step(setting, step)
    found = {**optimiser.constants(), **optimiser.of_step(step)}
    asked = [each for each, value in chain.constants.items() if value is None]
    assert set(optimiser.of_step(step)) <= set(asked)
    for each in asked:
        np.testing.assert_allclose(found[each], expected[each], rtol=1e-15, err_msg=each)


def test_the_rate_falls_as_the_hosts():
    rate = falling(0.5, 300)
    assert [rate(step) for step in (0, 7, 299)] == [
        float(learning_rate(0.5, step, 300)) for step in (0, 7, 299)
    ]


def test_chains_are_those_that_are_needed():
    def rate(step):
        return 1.0

    assert "u" in RmsProp(rate=rate, momentum=0.5).chain(Options()).outputs
    assert "u" not in RmsProp(rate=rate).chain(Options()).outputs
    assert "v" not in Sgd(rate=rate).chain(Options()).outputs
    assert Adam(rate=rate).chain(Options()).name == "adam"
    decoupled = Adam(rate=rate, decoupled=True, weight_decay=0.1).chain(Options())
    assert (decoupled.name, "decay" in decoupled.constants) == ("adamw", False)


@pytest.mark.parametrize("make", [Sgd, RmsProp, Adam])
def test_decay_is_in_the_gradient_where_there_is_some(make):
    for decay, in_gradient in ((0.0, False), (0.1, True)):
        chain = make(rate=lambda step: 1.0, weight_decay=decay).chain(Options())
        assert ("decay" in chain.constants) == ("K[decay]" in chain.text) == in_gradient
