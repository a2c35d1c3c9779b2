"""NVFP4 by the rule four-over-six: choices worked out by hand, and the figures of the documents."""

import numpy as np
import pytest

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from support.conversions import AT, SEED
from support.numerics import make_numerics

RULE = "four-over-six"


def convert(array, scale=None, **keys):
    chosen = {"formats": "nvfp4", "scales": RULE, "groupings": "1x16", "roundings": "nearest"}
    numerics = make_numerics(**chosen | keys)
    return numerics, quantise(
        array.astype(np.float32), Conversion("x", scale=scale, **AT), numerics, seed=SEED
    )


def group(*values):
    return np.array([[*values, *[0] * (16 - len(values))]], np.float32)


@pytest.mark.parametrize(
    "values, code",
    [
        ((6, 5), 0x3C),  # 5 is stored as 4, or by the scale 3/2 as 9/2
        ((6, 6), 0x38),  # both are exact: 6
        ((6, 4.5), 0x3C),  # exact by 3/2
        ((6, 2), 0x38),  # exact by 1
        ((6, 3.75), 0x38),  # 4, or 3 by the scale 3/2
        ((6, 5, 3.75, 3.75), 0x38),  # squares of 1 and twice 1/4, or of 1/2 and twice 3/4
    ],
)
def test_by_hand(values, code):
    """With T = 0 a scale of 1 is 0x38, one of 3/2 0x3C."""
    _, got = convert(group(*values), scale=0)
    assert got.copies[0].exponents[0, 0] == code


@pytest.mark.parametrize(
    "name, six, four",
    [("normal", 0.0948, 0.0869), ("laplace", 0.0931, 0.0876), ("uniform", 0.1014, 0.0867)],
)
def test_relative_errors(name, six, four, np_rng):
    """As ``docs/formats.md`` has them, of root mean squares."""
    draw = {
        "normal": np_rng.standard_normal,
        "laplace": lambda shape: np_rng.laplace(size=shape),
        "uniform": lambda shape: np_rng.uniform(-1, 1, shape),
    }[name]
    array = draw((512, 512)).astype(np.float32)
    for rule, want in (("nearest", six), (RULE, four)):
        _, got = convert(array, scales=rule)
        error = np.sqrt(((got.values().astype(np.float64) - array) ** 2).sum())
        assert abs(error / np.sqrt((array.astype(np.float64) ** 2).sum()) - want) < 0.0006
