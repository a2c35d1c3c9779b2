"""From the largest magnitude of a group to its exponent, and to the scales of NVFP4."""

import itertools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diastole_sim.golden.convert import quantise
from diastole_sim.spec.formats import NVFP4, parse_format
from diastole_sim.spec.scales import amax_exponent, scale_parts
from support.conversions import (
    NAMES,
    SCALE_RULES,
    TINY,
    WHERE,
    convert,
    exponent_of,
    numerics,
    spread,
    top_binade,
)


def expected_exponent(rule, amax, kind):
    if rule == "fixed":
        return 127
    exponent = exponent_of(amax)
    ulp = Fraction(2) ** (exponent - kind.precision + 1)
    power = Fraction(2) ** exponent
    largest = kind.max_significand * ulp
    raised = {
        "floor": False,
        "even": round(amax / ulp) * ulp > largest and round(amax / ulp) == 2**kind.precision,
        "ceil": amax > power,
        "rceil": amax > largest,
    }[rule]
    return min(exponent + raised, 127)


@pytest.mark.parametrize("rule", SCALE_RULES)
@pytest.mark.parametrize(
    "name", [name for name in NAMES if "rceil" in parse_format(name).scale_rules]
)
@pytest.mark.sampled(2)
def test_scale_rules_around_their_thresholds(name, rule):
    """Both sides of powers of two, of the largest element and of what rounds to a power of two."""
    kind = parse_format(name)
    p, low = kind.precision, kind.lowest_exponent + 1
    places = [2**23, kind.max_significand << (24 - p), 2**24 - 2 ** (23 - p), 2**24]
    for x in {low, -1, 0, 1, 126, 127}:
        for s in {min(max(place + by, 2**23), 2**24 - 1) for place in places for by in (-1, 0, 1)}:
            amax = Fraction(s) * Fraction(2) ** (x - 23)
            grouping = "tensor" if kind.scale == "power" else "1x4"
            got = convert([[float(amax), 0]], name, scale=rule, grouping=grouping)
            e, _ = top_binade(got, 0, 0, 0)
            assert e == expected_exponent(rule, amax, kind), (x, s)
            if kind.scale == "power":
                assert got.tensor_exponent == e
            if rule == "rceil" and e < 127:
                assert got.saturated == 0


@settings(max_examples=200)
@given(st.integers(1 << 23, 0x7F7FFFFF), st.sampled_from(SCALE_RULES), st.sampled_from(NAMES))
def test_scale_rules_anywhere(bits, rule, name):
    kind = parse_format(name)
    if kind.scale in ("one", "e4m3"):
        rule = kind.default_scale_rule
    amax = float(np.array([bits], np.uint32).view(np.float32)[0])
    got = convert([[amax]], name, scale=rule)
    e, _ = top_binade(got, 0, 0, 0)
    if kind.scale == "e4m3":
        assert got.tensor_exponent == expected_two_level(Fraction(amax))
    elif (
        kind.scale == "e8m0"
        and expected_exponent(rule, Fraction(amax), kind) - kind.top_exponent < -126
    ):
        assert e is None
    else:
        assert e == expected_exponent(rule, Fraction(amax), kind)


@pytest.mark.parametrize("power", [-126, -125, -1, 0, 1, 10, 127])
def test_just_below_a_power_of_two(power):
    """A logarithm in floating point rounds up here; the exponent must not. The magnitude does."""
    top = np.ldexp(np.float32(1), power)
    below = np.nextafter(top, np.float32(0))
    got = convert([[below, -below, below / 2]], "bfp4")
    if power == -126:  # below it are subnormals only
        assert got.copies[0].exponents[0, 0] == 0
        return
    assert got.copies[0].exponents[0, 0] == power - 1 + 127
    assert got.saturated == 2
    assert convert([[top]], "bfp4").copies[0].exponents[0, 0] == power + 127


@pytest.mark.parametrize("name", ["mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp4_e2m1"])
def test_smallest_e8m0_scale(name):
    """A scale of 2^-126 is the last; below it a group is one of zeros, and counted."""
    kind = parse_format(name)
    last = 2.0 ** (-126 + kind.top_exponent)
    got = convert([[last, -last / 2]], name, grouping="8x8", scale="floor")
    assert got.copies[0].exponents[0, 0] == 1 + kind.top_exponent
    assert got.underflowed == 0
    assert got.values().tolist() == [[last, -last / 2]]
    below = [[np.nextafter(np.float32(last), np.float32(0)), -last / 2, 0.0]]
    got = convert(below, name, grouping="8x8", scale="floor")
    assert not got.copies[0].exponents.any()
    assert not got.values().any()
    assert np.signbit(got.values()).tolist() == [[False, True, False]]
    assert got.underflowed == 2
    for rule in ("ceil", "rceil"):
        raised = convert(below, name, grouping="8x8", scale=rule)  # 2^-126 after all
        assert raised.copies[0].exponents[0, 0] == 1 + kind.top_exponent
        assert raised.underflowed == 0


def test_no_exponent_is_above_127():
    """What would need more saturates."""
    largest = np.finfo(np.float32).max
    for rule in SCALE_RULES:
        got = convert([[largest]], "bfp4", scale=rule)
        assert (got.copies[0].exponents[0, 0], got.saturated) == (254, 1)
        assert got.values()[0, 0] == 15 * 2.0**124


def expected_two_level(amax):
    exponent = exponent_of(amax / 2688)
    return exponent + (amax > 2688 * Fraction(2) ** exponent)


def test_tensor_exponents_of_nvfp4():
    """The smallest T with amax <= 2688 * 2^T, on both sides; the ends are those of binary32."""
    for x in (-126, -1, 0, 1, 127):
        for s in (1 << 23, 21 << 19, (21 << 19) + 1, 2**24 - 1):
            amax = s * 2.0 ** (x - 23)
            assert convert([[amax]], "nvfp4").tensor_exponent == expected_two_level(Fraction(amax))
    ends = [convert([[end]], "nvfp4").tensor_exponent for end in (TINY, 2.0**127 * 1.5)]
    assert tuple(ends) == NVFP4.tensor_exponents


@pytest.mark.parametrize("scale", ["nearest", "up"])
@pytest.mark.sampled(2)
def test_scale_codes_of_nvfp4(scale):
    """Every midpoint and every value of E4M3, and their neighbours in binary32."""
    table = [
        Fraction(float(v)) for v in np.arange(127, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn)
    ]
    middles = [(a + b) / 2 for a, b in itertools.pairwise(table)]
    for ratio in [*table, *middles]:
        for side in (-1, 0, 1):
            amax = np.float32(float(ratio * 6))
            amax = np.nextafter(amax, np.float32(side * 1e9)) if side else amax
            if not TINY <= amax <= 6 * 448:
                continue
            quotient = Fraction(float(amax)) / 6
            if scale == "up":
                want = min(code for code in range(127) if table[code] >= quotient)
            else:
                want = min(range(127), key=lambda c: (abs(table[c] - quotient), c % 2))
            got = convert([[amax]], "nvfp4", scale_given=0, scale=scale)
            assert got.copies[0].exponents[0, 0] == want, (ratio, side)


def test_nvfp4_scales_at_their_ends():
    """A scale that rounds to 0 makes a group of zeros; the largest is 448."""
    array = np.array([[2688 * 2.0**20, 0, 0, 0, 1.0, -2.0, 0.0, 0]], np.float32)
    got = convert(array, "nvfp4", grouping="1x4")
    assert got.tensor_exponent == 20
    assert got.copies[0].exponents[0].tolist() == [0x7E, 0]
    assert got.underflowed == 4
    assert np.signbit(got.values())[0, 5]
    up = convert(array, "nvfp4", grouping="1x4", scale="up")
    assert up.copies[0].exponents[0].tolist() == [0x7E, 1]
    beyond = convert(array, "nvfp4", grouping="1x4", scale_given=8)
    assert beyond.copies[0].exponents[0].tolist() == [0x7E, 1]
    assert beyond.saturated == 2
    assert beyond.values()[0, 0] == 2688 * 2.0**8
    field, significand = scale_parts(np.array([0, 1, 7, 8, 0x7E]))
    assert field.tolist() == [1, 1, 1, 1, 15]
    assert significand.tolist() == [0, 1, 7, 8, 14]


def test_nvfp4_beyond_binary32():
    """A group's scale may round up to more than its largest element needs."""
    got = convert([[np.finfo(np.float32).max]], "nvfp4")
    assert got.values()[0, 0] == np.inf
    assert got.saturated == 0


@pytest.mark.parametrize(
    "name, overflow, special, flags, stored",
    [
        ("fp8_e4m3", "saturate", "flag", (False, False), None),
        ("fp8_e4m3", "specification", "flag", (True, False), None),
        ("fp8_e4m3", "specification", "poison", (True, False), math.nan),
        ("e2m1", "saturate", "flag", (False, False), None),
        ("fp8_e5m2", "saturate", "poison", (False, False), None),
        ("fp8_e5m2", "specification", "flag", (False, True), None),
        ("fp8_e5m2", "specification", "poison", (False, True), math.inf),
    ],
)
def test_given_scale(name, overflow, special, flags, stored):
    """An exponent too small for the data: all that lies beyond overflows, in whole binades too."""
    kind = parse_format(name)
    largest = kind.max_significand * 2.0 ** (1 - kind.precision)
    array = [[largest, -2.0, 2.0**100, 0.0, 2.0**-3]]
    got = convert(array, name, scale_given=0, overflow=overflow, special=special)
    assert (got.saturated, got.nan, got.inf) == (2, *flags)
    assert got.tensor_exponent == 0
    beyond = largest if stored is None else stored
    want = [largest, math.copysign(beyond, -1), beyond, 0, 0.125]
    np.testing.assert_array_equal(got.values()[0, :4], want[:4])
    assert got.values()[0, 4] == 0.125 or name == "e2m1"
    lowest = -126
    for scale in (lowest, 127):
        assert convert(array, name, scale_given=scale).tensor_exponent == scale


@pytest.mark.parametrize("name", ["fp8_e4m3", "fp8_e5m2", "e3m2", "nvfp4"])
def test_what_a_host_would_choose(name, np_rng):
    """``amax_exponent`` of the tensor's own largest is the scale that is measured."""
    array = spread(np_rng, (9, 9), low=-30, high=30)
    chosen = numerics(name)
    measured = quantise(array, "x", chosen, **WHERE)
    assert measured.amax == int(np.abs(array).max().view(np.uint32))
    scale = amax_exponent(measured.amax, chosen.x)
    assert scale == measured.tensor_exponent
    again = quantise(array, "x", chosen, scale=scale, **WHERE)
    np.testing.assert_array_equal(again.copies[0].codes, measured.copies[0].codes)
    assert amax_exponent(0, chosen.x) == (0 if name == "nvfp4" else chosen.x.format.top_exponent)


def test_amax_is_the_largest_finite_magnitude():
    got = convert([[np.inf, np.nan, -3.0, 2.0]], "fp8_e4m3")
    assert np.uint32(got.amax).view(np.float32) == 3.0
    assert (got.nan, got.inf) == (True, True)
    assert convert([[np.inf, 1e-40]], "fp8_e4m3").amax == 0
