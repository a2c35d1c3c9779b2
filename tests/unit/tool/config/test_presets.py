"""The named configurations: what the README and their comments say of them."""

import pytest

from diastole.config.contradictions import contradictions
from diastole.config.presets import PRESETS
from diastole_sim.spec.numerics import CLASS_NAMES

MACS = {"pico": 16, "nano": 256, "edge": 2304, "server": 16_384}


def test_names():
    assert list(PRESETS) == list(MACS)
    assert {name: config.name for name, config in PRESETS.items()} == {
        name: f"diastole_{name}" for name in MACS
    }


@pytest.mark.parametrize("name", PRESETS)
def test_multipliers(name):
    config = PRESETS[name]
    assert config.macs == MACS[name]
    assert config.array.rows * config.array.cols * config.array.block**2 == MACS[name]


@pytest.mark.parametrize("name", PRESETS)
def test_numbers(name):
    numerics = PRESETS[name].numerics
    assert list(contradictions(PRESETS[name], set())) == []
    assert {numerics.tensor_class(each).format.name for each in CLASS_NAMES} == {"bfp4"}
    roundings = {each: numerics.tensor_class(each).rounding for each in CLASS_NAMES}
    assert roundings == {"x": "nearest", "w": "nearest", "dy": "stochastic-b"}
    assert (numerics.fraction, numerics.headroom) == (18, 14)
    assert numerics.fused
