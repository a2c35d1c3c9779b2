# amaranth: UnusedElaboratable=no
"""Which of two scales fits an element better: against squares of errors in exact fractions."""

from fractions import Fraction
from itertools import pairwise

import pytest

from diastole_hw.convert.lanes.scale_trial import TRIAL_CYCLES, ScaleTrial
from support.bench import design
from support.pipelines import check_pipeline
from support.two_scales import ELEMENTS, SCALES, nearest, number, worse

LARGEST = len(SCALES) - 1


def codes_of(largest, scale):
    """The scales by which a magnitude becomes 6 and 4."""
    wanted = largest / Fraction(2) ** (scale - 138)
    return [min(nearest(SCALES, wanted / target), LARGEST) for target in (6, 4)]


def bits_of(value, nudge=0):
    """A positive fraction's binary32, cut, some last places from there."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    exponent -= value < Fraction(2) ** exponent
    return (
        ((exponent + 127) << 23) + int(value / Fraction(2) ** exponent * 2**23) - (1 << 23) + nudge
    )


def middles(code, scale):
    """Where an element changes its code, and the largest."""
    unit = SCALES[code] * Fraction(2) ** (scale - 138)
    edges = [(a + b) / 2 * unit for a, b in pairwise(ELEMENTS)]
    return [*edges, 6 * unit]


def below(largest, scales, scale, rng):
    """An element of a group with this largest magnitude, and these scales."""
    way = rng.randrange(6)
    if way == 0:
        return bits_of(largest)
    if way == 1:
        return bits_of(largest / 2 ** rng.randrange(40))
    if way == 2:
        return rng.choice([0, 1, 0x7F80_0000, 0x7FC0_0000, 0x0080_0000])
    edges = [edge for code in scales for edge in middles(code, scale) if 0 < edge <= largest]
    if way == 3 or not edges:
        return bits_of(largest * Fraction(rng.randrange(1, 1 << 20), 1 << 20))
    return bits_of(rng.choice(edges), rng.randrange(-1, 2))


def cases_of(scale, rng, count):
    """(value, six, four, scale): elements of groups of all scales, often where one rounds another
    way; the largest of a group too, scales that are subnormal, zero, or as large as can be."""
    for _ in range(count):
        code = rng.choice([0, 1, 2, 7, 8, 9, 124, LARGEST, rng.randrange(len(SCALES))])
        largest = 6 * max(SCALES[code], Fraction(1, 2000)) * Fraction(2) ** (scale - 138)
        largest = number(bits_of(largest * Fraction(rng.randrange(940, 1060), 1000)))
        six, four = codes_of(largest, scale)
        bits = below(largest, (six, four), scale, rng)
        if number(bits) <= largest:
            yield bits | rng.getrandbits(1) << 31, six, four, scale


def check(cases):
    names, pipelined = ("value", "six", "four", "scale"), []
    for bits, *scales in cases:
        given = dict(zip(names, (bits % 2**32, *scales), strict=True))
        pipelined.append((given, {"worse": worse(bits & 0x7FFF_FFFF, *scales)}))
    check_pipeline(design(ScaleTrial), pipelined, TRIAL_CYCLES)


@pytest.mark.parametrize("scale", [40, 138, 226])
def test_elements(scale, rng):
    """The scale of a tensor may not change while numbers are on their way."""
    cases = list(cases_of(scale, rng, 1200))
    check(cases)
    assert {worse(*each) > 0 for each in cases if worse(*each)} == {False, True}


@pytest.mark.parametrize("code", [1, 8, 15, 126])
def test_every_magnitude_of_a_group(code, rng):
    """From 0 to the largest in steps, with the scales of the largest."""
    largest = number(bits_of(6 * SCALES[code]))
    six, four = codes_of(largest, 138)
    steps = [largest * n / 400 for n in range(1, 401)]
    check([(bits_of(step), six, four, 138) for step in steps])


def test_the_largest_numbers_say_nothing():
    """Beyond the largest scale there is no other to choose: numbers of any size give 0."""
    check([(field << 23 | 0x2A_AAAA, LARGEST, LARGEST, 100) for field in range(90, 255)])
