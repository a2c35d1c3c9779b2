"""The precision monitor against its definition in fractions, and against published ratios."""

from fractions import Fraction

import numpy as np
import pytest

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.golden.improvement import COUNTER_MAX, Improvement
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics


def fast(grouping, rounding="nearest", special="flag", name="fast"):
    chosen = {"format": name, "rounding": rounding, "grouping": grouping}
    sizes = {"block": 4, "random_bits": 8, "fraction": 22, "headroom": 9, "special": special}
    return Numerics.from_dict(dict.fromkeys(CLASS_NAMES, chosen) | sizes)


def of(array, numerics, width=None, step=0):
    return quantise(
        array, Conversion("dy", tag=2, step=step, width=width), numerics, seed=1
    ).improvement


def exponent(value):
    """e with 2^e <= value < 2^(e + 1)."""
    e = 0
    while Fraction(2) ** (e + 1) <= value:
        e += 1
    while value < Fraction(2) ** e:
        e -= 1
    return e


def rounded(value, e, width):
    """The magnitude to nearest even, saturating."""
    return min(round(abs(value) / Fraction(2) ** (e - width + 1)), 2**width - 1)


def counted(array, down, along):
    """By the definition: sums of |k4 - 4 k2| and of 4 k2."""
    num = den = 0
    for top in range(0, array.shape[0], down):
        for left in range(0, array.shape[1], along):
            group = [Fraction(float(v)) for v in array[top : top + down, left : left + along].flat]
            largest = max(map(abs, group))
            if not largest:
                continue
            e = exponent(largest)
            for value in group:
                k4, k2 = rounded(value, e, 4), rounded(value, e, 2)
                num += abs(k4 - 4 * k2)
                den += 4 * k2
    return Improvement(num=num, den=den)


@pytest.mark.parametrize("grouping, down, along", [("4x4", 4, 4), ("8x8", 8, 8), ("1x8", 1, 8)])
@pytest.mark.parametrize("rounding", ["nearest", "stochastic-b"])
def test_definition(grouping, down, along, rounding, np_rng):
    """Of copy 0, of elements inside the tensor; whatever the width, the rounding and the step."""
    array = (np_rng.standard_normal((13, 11)) * 2.0 ** np_rng.integers(-4, 5, (13, 11))).astype(
        "f4"
    )
    array[:4, :4] = 0
    wanted = counted(array, down, along)
    numerics = fast(grouping, rounding)
    for width, step in ((2, 0), (4, 0), (4, 9)):
        assert of(array, numerics, width, step) == wanted
    assert 0 < wanted.num < wanted.den


def test_specials():
    """NaN is 0 and Inf the largest element; with poison their groups are zeros."""
    array = np.ones((4, 8), np.float32)
    array[0, 0], array[1, 1] = np.nan, -np.inf
    # Ones are 8 and 2, exactly; the largest elements 15 and 3.
    assert of(array, fast("4x4")) == Improvement(num=15 - 12, den=4 * (2 * 30 + 3))
    assert of(array, fast("4x4", special="poison")) == Improvement(num=0, den=4 * 2 * 16)


def test_other_formats_have_none():
    assert of(np.ones((4, 4), np.float32), fast("4x4", name="bfp4")) is None


def test_counters_stop():
    assert Improvement.counted(2**33, 2**33) == Improvement(num=COUNTER_MAX, den=4 * COUNTER_MAX)
    assert Improvement.counted(5, 3) == Improvement(num=5, den=12)


def test_ratio():
    assert Improvement(num=3, den=12).ratio == 0.25
    assert Improvement(num=0, den=0).ratio == 0
    assert Improvement(num=1, den=0).ratio == float("inf")


RATIOS = {
    "uniform": (lambda rng, shape: rng.uniform(-1, 1, shape), 0.16),
    "ReLU of normal": (lambda rng, shape: np.maximum(rng.standard_normal(shape), 0), 0.28),
    "normal": (lambda rng, shape: rng.standard_normal(shape), 0.32),
    "Laplace": (lambda rng, shape: rng.laplace(size=shape), 0.42),
    "constant": (lambda rng, shape: np.ones(shape), 0.0),
}
"""Distributions and their r in groups of 64, computed by another program."""


@pytest.mark.parametrize("draw, ratio", RATIOS.values(), ids=RATIOS)
def test_distributions(draw, ratio, np_rng):
    found = of(draw(np_rng, (512, 512)).astype(np.float32), fast("8x8")).ratio
    assert found == pytest.approx(ratio, abs=0.015)
