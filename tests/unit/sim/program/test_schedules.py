"""Learning rates against their formulas."""

import math

import numpy as np
import pytest

from diastole_sim.program.schedules import SCHEDULES, RateSchedule
from support.texts import exactly

STEPS, FIRST = 40, 0.3
FORMULAS = {
    "linear": lambda step: 1 - step / STEPS,
    "constant": lambda step: 1.0,
    "cosine": lambda step: (1 + math.cos(math.pi * step / STEPS)) / 2,
    "step": lambda step: 0.25 ** (step // 7),
}


def rates(**members):
    of = RateSchedule(**members).rate(FIRST, STEPS)
    return np.array([of(step) for step in range(STEPS)])


def members_of(kind):
    return {"kind": kind} | ({"step_size": 7, "gamma": 0.25} if kind == "step" else {})


@pytest.mark.parametrize("kind", SCHEDULES)
def test_formulas(kind):
    expected = [FIRST * FORMULAS[kind](step) for step in range(STEPS)]
    np.testing.assert_allclose(rates(**members_of(kind)), expected, rtol=3e-7)
    assert all(np.float32(each) == each for each in rates(**members_of(kind)))


@pytest.mark.parametrize("kind", SCHEDULES)
def test_warm_up(kind):
    warm, plain = rates(**members_of(kind), warmup=4), rates(**members_of(kind))
    np.testing.assert_allclose(warm[:4] / plain[:4], [0.2, 0.4, 0.6, 0.8], rtol=1e-6)
    np.testing.assert_array_equal(warm[4:], plain[4:])


def test_the_default_of_gamma():
    np.testing.assert_allclose(rates(kind="step", step_size=20)[[0, 19, 20]], [0.3, 0.3, 0.03],
                               rtol=1e-6)  # fmt: skip


@pytest.mark.parametrize(
    "members, said",
    [
        ({"kind": "old"}, "schedule must be one of linear, constant, cosine, step, not 'old'"),
        ({"kind": "step"}, "schedule step needs step_size, the steps between two changes"),
        ({"gamma": 0.5}, "gamma is an option of schedule step, not of linear"),
        ({"warmup": -1}, "warmup must be an integer in 0..2147483648, not -1"),
    ],
    ids=["kind", "size", "gamma", "warmup"],
)  # fmt: skip
def test_refused(members, said):
    with pytest.raises(ValueError, match=exactly(said)):
        RateSchedule(**members)
