"""NVFP4 by the rule four-over-six: against ml_dtypes in float64, and against exact fractions."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.spec.formats import NVFP4
from oracle import formats as oracle
from support.conversions import AT, SEED, TINY, exponent_of
from support.numerics import make_numerics

RULE = "four-over-six"


def convert(array, scale=None, **keys):
    chosen = {"formats": "nvfp4", "scales": RULE, "groupings": "1x16", "roundings": "nearest"}
    numerics = make_numerics(**chosen | keys)
    return numerics, quantise(
        array.astype(np.float32), Conversion("x", scale=scale, **AT), numerics, seed=SEED
    )


def by_ml_dtypes(array, exponent):
    """Codes and scales of groups of 16 along the rows; all numbers of few bits, so that float64 is
    exact: each group is stored both ways, and that of the smaller squared error is kept."""
    groups = array.astype(np.float64).reshape(len(array), -1, 16) / 2.0**exponent
    found = []
    for becomes in (6, 4):
        wanted = np.abs(groups).max(axis=2) / np.float64(becomes)
        scales = wanted.astype(np.float32).astype(ml_dtypes.float8_e4m3fn)
        factors = scales.astype(np.float64)[..., None]
        quotients = groups / np.where(factors, factors, 1)
        elements = quotients.astype(ml_dtypes.float4_e2m1fn) * (factors > 0)
        errors = ((groups - elements.astype(np.float64) * factors) ** 2).sum(axis=2)
        found.append((scales.view(np.uint8), elements.astype(np.float64), errors))
    (six, at_six, error_six), (four, at_four, error_four) = found
    fours = error_four < error_six
    return np.where(fours, four, six), np.where(fours[..., None], at_four, at_six), fours


@pytest.mark.parametrize("width", [0, 3, 7])
def test_against_ml_dtypes(width, np_rng):
    """Of 6 bits, so that quotients by 3 * 2^n are no ties but where they are exact."""
    array = np_rng.integers(-63, 64, (64, 96)) * 2.0 ** np_rng.integers(-width, 1, (64, 96))
    _, got = convert(array)
    scales, elements, fours = by_ml_dtypes(array, got.tensor_exponent)
    assert 0.2 < fours.mean() < 0.8
    assert (got.copies[0].exponents[:64, :6] == scales).all()
    unit = scales.view(ml_dtypes.float8_e4m3fn).astype(np.float64) * 2.0**got.tensor_exponent
    want = (elements * unit[..., None]).reshape(array.shape)
    assert (got.values() == want).all()


def data_of(kind, np_rng, shape):
    values = np_rng.standard_normal(shape)
    if kind == "wide":
        values *= 2.0 ** np_rng.integers(-9, 9, shape)
    values = values.astype(np.float32)
    if kind == "special":
        odd = np.array([0, -0.0, np.nan, np.inf, -np.inf, 1e-40, 2.0**-126, 3.4e38], np.float32)
        values = np.where(np_rng.random(shape) < 0.05, np_rng.choice(odd, shape), values)
    return values


@pytest.mark.parametrize("special", ["flag", "poison"])
@pytest.mark.parametrize("grouping", ["1x16", "1x4", "4x4", "8x8"])
@pytest.mark.parametrize("kind, scale", [("plain", None), ("wide", None), ("special", None)])
@pytest.mark.sampled(6)
def test_against_fractions(kind, scale, grouping, special, np_rng):
    check_against_fractions(data_of(kind, np_rng, (9, 21)), scale, grouping, special=special)


@pytest.mark.parametrize("exponent", [-9, -4, 0, 6])
@pytest.mark.parametrize("rounding", ["nearest", "stochastic-a"])
def test_scales_that_are_given(exponent, rounding, np_rng):
    """Too small, so that groups saturate; too large, so that scales are subnormal, or zero.
    Whatever elements are rounded by, the scales are tried to nearest."""
    array = np.ldexp(data_of("plain", np_rng, (9, 21)), np_rng.integers(-2, 3, (9, 1)))
    check_against_fractions(array, exponent, "1x8", roundings=rounding)


def check_against_fractions(array, scale, grouping, **keys):
    numerics, got = convert(array, scale, groupings=grouping, **keys)
    chosen = numerics.x
    want = oracle.quantise(
        array.astype(np.float32).tolist(),
        name="nvfp4",
        kind=chosen.grouping.kind,
        size=chosen.grouping.size,
        block=numerics.block,
        scale_rule=RULE,
        rule=chosen.rounding,
        bits=numerics.random_bits,
        special=numerics.special,
        scale=scale,
        seed=SEED,
        **AT,
    )
    assert got.tensor_exponent == want.tensor_exponent
    for copy, expected in zip(got.copies, want.copies, strict=True):
        assert copy.exponents.tolist() == expected.exponents
        assert copy.codes.tolist() == expected.codes
        assert copy.row_max.tolist() == expected.row_max
    counts = ("nan", "inf", "saturated", "underflowed")
    assert [getattr(got, name) for name in counts] == [getattr(want, name) for name in counts]


def test_the_scale_of_a_tensor():
    """The smallest T with amax <= 1536 * 2^T, on both sides, but none beyond a command's byte."""
    for x in (-126, -1, 0, 9, 127):
        for s in (1 << 23, 3 << 22, (3 << 22) + 1, 2**24 - 1):
            amax = s * 2.0 ** (x - 23)
            want = exponent_of(Fraction(amax) / 1536)
            want += Fraction(amax) > 1536 * Fraction(2) ** want
            _, got = convert(np.array([[amax]]))
            assert got.tensor_exponent == min(want, NVFP4.tensor_exponents[1]), amax
    assert convert(np.array([[TINY]]))[1].tensor_exponent == -136
    assert convert(np.zeros((1, 1)))[1].tensor_exponent == 0


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
