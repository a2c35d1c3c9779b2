"""The rule of the loss's scale."""

import numpy as np
import pytest

from diastole_sim.golden.loss_scale import LossScale


def constants(scale):
    found = np.zeros(256, np.float32)
    scale.put(found)
    assert not np.delete(found, [252, 253]).any()
    return found[252], found[253]


def test_register():
    scale = LossScale()
    assert scale.register == 0
    value = 0x80_00_00_00 | 0xFE | 0x80 << 8 | 0x7F << 16
    scale.set_register(value)
    assert (scale.exponent, scale.smallest, scale.largest, scale.on) == (-2, -128, 127, True)
    assert scale.register == value
    scale.set_register(5)
    assert not scale.on
    assert scale.exponent == 5


def test_it_falls_at_once_and_rises_after_clean_steps():
    scale = LossScale(on=True, exponent=3, smallest=2, largest=4, window=3)
    steps = [(True, 2, 0), (True, 2, 0)]
    steps += [(False, 2, 1), (False, 2, 2), (True, 2, 0)]
    steps += [(False, 2, 1), (False, 2, 2), (False, 3, 0)]
    steps += [(False, 3, 1), (False, 3, 2), (False, 4, 0)]
    steps += [(False, 4, 1), (False, 4, 2), (False, 4, 0), (True, 3, 0)]
    for number, (overflow, exponent, clean) in enumerate(steps):
        scale.next(overflow)
        assert (scale.exponent, scale.clean) == (exponent, clean), number


def test_it_does_nothing_while_it_is_off():
    scale = LossScale(exponent=3, window=1, largest=9)
    scale.next(False)
    scale.next(True)
    assert (scale.exponent, scale.clean) == (3, 0)
    assert constants(scale) == (1, 1)


@pytest.mark.parametrize(
    "exponent, values",
    [
        (0, (1, 1)),
        (5, (32, 1 / 32)),
        (-3, (0.125, 8)),
        (-126, (2.0**-126, 2.0**126)),
        (127, (2.0**127, 0)),
        (-127, (0, 2.0**127)),
        (-128, (0, np.inf)),
    ],
)
def test_constants(exponent, values):
    assert constants(LossScale(on=True, exponent=exponent)) == values


def test_a_floor_raises_the_scale():
    scale = LossScale(on=True, exponent=3, smallest=-14, largest=24, window=3, clean=2)
    scale.set_floor(np.float32(2))  # below: the smallest alone
    assert (scale.exponent, scale.smallest, scale.clean) == (3, 1, 2)
    scale.set_floor(np.float32(8192))
    assert (scale.exponent, scale.smallest, scale.clean) == (13, 13, 0)
    scale.next(True)
    assert scale.exponent == 13
    scale.set_floor(np.float32(2**-3))  # a table may fall too: the scale stays until a step fails
    assert (scale.exponent, scale.smallest) == (13, -3)
    scale.next(True)
    assert scale.exponent == 12


@pytest.mark.parametrize(
    "value, smallest",
    [(0.0, -127), (2.0**-126, -126), (1.5, 0), (2.0**127, 127), (np.inf, -128), (-4.0, 2)],
)
def test_floors_are_exponents(value, smallest):
    scale = LossScale(on=True, exponent=127, largest=127)
    scale.set_floor(np.float32(value))
    assert scale.smallest == smallest


def test_a_floor_does_nothing_while_it_is_off():
    scale = LossScale(exponent=3)
    scale.set_floor(np.float32(8192))
    assert (scale.exponent, scale.smallest) == (3, 0)
