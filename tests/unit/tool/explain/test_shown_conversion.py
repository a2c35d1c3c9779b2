"""How elements were made: every step against fractions, an own rounding, and what is stored."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from diastole.explain.shown_conversion import conversions_of
from diastole.explain.shown_run import WavesDisagree
from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.spec.formats import FORMAT_NAMES
from oracle.draws import element_draw
from oracle.rounding import round_fraction
from support.products import KINDS, machine

SEED, TAG = 5, 1
RULES = ("nearest", "stochastic-a", "stochastic-b", "stochastic-c")


def explained(name, rule, rng, kind="plain", shape=(9, 21), **tables):
    """A tensor of the class ``w``, its conversions, and the numerics."""
    rounding = {"w": rule, "bits": 6} | tables.pop("rounding", {})
    numerics = machine("explained", name, rounding=rounding, **tables).numerics
    given = KINDS[kind](np.random.default_rng(rng.getrandbits(32)), shape)
    stored = quantise(given, Conversion("w", tag=TAG, step=0), numerics, seed=SEED)
    return given, stored, numerics, conversions_of(given, stored, numerics, seed=SEED, tag=TAG)


def two(exponent):
    return Fraction(2) ** int(exponent)


def normal(number):
    """A number as the converter reads it: subnormals of binary32 are zeros."""
    return Fraction(float(number)) if abs(number) >= 2.0**-126 else Fraction(0)


def check(given, stored, conversions):
    kind = stored.storage.format
    for number, made in enumerate(conversions):
        values = stored.values(number)
        for place in np.ndindex(given.shape):
            what = f"copy {number}, element {place}, {given[place]!r}"
            scale = Fraction(int(made.scale[place]), 8)
            unit = two(made.place[place]) * scale
            top = made.exponent[place] - made.depth[place] - kind.precision + 1
            value = int(made.significand[place]) * two(top) * scale
            assert value == Fraction(float(values[place])), what
            exact = abs(normal(given[place])) / unit
            if made.units[place] == 0:
                assert exact == 0 or value == 0, what
                continue
            assert abs(Fraction(float(made.units[place])) - exact) <= exact * two(-52), what
            draw = 0 if made.draws is None else int(made.draws[place])
            rounded = round_fraction(stored.storage.rounding, exact, draw, 6)
            if exact < 2**kind.precision:
                assert made.rounded[place] == rounded, what
            assert abs(value) == min(made.rounded[place] * unit, beyond(made, place, kind)), what


def beyond(made, place, kind):
    """The largest element of a group, before its exponent was lowered."""
    top = made.exponent[place] + made.folds[place]
    scale = Fraction(int(made.scale[place]), 8)
    return kind.max_significand * two(top - kind.precision + 1) * scale


@pytest.mark.parametrize("data", ["plain", "wide", "ties"])
@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_every_step_to_the_nearest_element(name, data, rng):
    given, stored, _, conversions = explained(name, "nearest", rng, data)
    assert len(conversions) == len(stored.copies)
    assert all(made.draws is None for made in conversions)
    check(given, stored, conversions)


@pytest.mark.parametrize("rule", RULES[1:])
@pytest.mark.parametrize("name", ["bfp4", "fp8_e5m2", "mxfp8_e4m3", "mxfp4_e2m1", "nvfp4"])
def test_every_step_with_random_bits(name, rule, rng):
    """The draws are those of an element's number in the untransposed tensor, in both copies."""
    given, stored, _, conversions = explained(name, rule, rng)
    check(given, stored, conversions)
    for second, made in enumerate(conversions):
        for row, column in [(0, 0), (3, 2), (8, 20)]:
            want = element_draw(
                float(given[row, column]), row=row, column=column, columns=given.shape[1],
                seed=SEED, tag=TAG, step=0, bits=6, second=bool(second),
            )  # fmt: skip
            assert made.draws[row, column] == want


def test_a_window_folds(rng):
    """Groups whose exponent was lowered say by how much."""
    *_, conversions = explained("fp8_e5m2", "nearest", rng, "wide")
    assert max(made.folds.max() for made in conversions) > 0


def test_by_hand(rng):
    """1.375, 0.6875 and -1.96875 as bfp4 with the exponent 0: eighths are the last place."""
    numerics = machine("explained", "bfp4", rounding={"w": "nearest"}).numerics
    given = np.array([[1.375, 0.6875, -1.96875]], np.float32)
    stored = quantise(given, Conversion("w", tag=1, step=0), numerics, seed=0)
    (made,) = conversions_of(given, stored, numerics, seed=0, tag=1)
    assert made.exponent.tolist() == [[0, 0, 0]]
    assert made.place.tolist() == [[-3, -3, -3]]
    assert made.units.tolist() == [[11.0, 5.5, 15.75]]
    assert made.rounded.tolist() == [[11, 6, 16]]
    assert made.significand.tolist() == [[11, 6, -15]], "16 is more than the largest mantissa"


@pytest.mark.parametrize("name", ["bfp4", "nvfp4"])
def test_an_element_that_does_not_follow_is_refused(name, rng):
    given, stored, numerics, _ = explained(name, "stochastic-a", rng)
    copies = list(stored.copies)
    codes = copies[-1].codes.copy()
    codes[2, 3] ^= 1
    copies[-1] = replace(copies[-1], codes=codes)
    with pytest.raises(WavesDisagree, match=r"element \(2, 3\) of a converted tensor"):
        conversions_of(given, replace(stored, copies=tuple(copies)), numerics, seed=SEED, tag=TAG)
    with pytest.raises(WavesDisagree, match="does not follow from its float32"):
        conversions_of(given, stored, numerics, seed=SEED + 1, tag=TAG)
