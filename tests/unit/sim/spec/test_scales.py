"""Scales that a host chooses, and scales of NVFP4 in parts. What a scale rule makes of a number is
compared with the oracle in ``tests/unit/sim/golden/test_convert.py``."""

import numpy as np
import pytest

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.spec.scales import amax_exponent, scale_parts
from support.conversions import (
    AT,
    SEED,
    numerics,
    spread,
)


@pytest.mark.parametrize("name", ["fp8_e4m3", "fp8_e5m2", "e3m2", "nvfp4"])
def test_what_a_host_would_choose(name, np_rng):
    """``amax_exponent`` of the tensor's own largest is the scale that is measured."""
    array = spread(np_rng, (9, 9), low=-30, high=30)
    chosen = numerics(name)
    measured = quantise(array, Conversion("x", **AT), chosen, seed=SEED)
    assert measured.amax == int(np.abs(array).max().view(np.uint32))
    scale = amax_exponent(measured.amax, chosen.x)
    assert scale == measured.tensor_exponent
    again = quantise(array, Conversion("x", scale=scale, **AT), chosen, seed=SEED)
    np.testing.assert_array_equal(again.copies[0].codes, measured.copies[0].codes)
    assert amax_exponent(0, chosen.x) == (0 if name == "nvfp4" else chosen.x.format.top_exponent)


def test_scales_of_nvfp4_in_parts():
    """Subnormal scales have the smallest field."""
    field, significand = scale_parts(np.array([0, 1, 7, 8, 0x7E]))
    assert field.tolist() == [1, 1, 1, 1, 15]
    assert significand.tolist() == [0, 1, 7, 8, 14]
