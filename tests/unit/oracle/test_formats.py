"""The oracle of number formats, before it judges: against tables of standards and against libraries
that others wrote, which are ml_dtypes, gfloat, MPFR and the scale rules of torchao."""

from fractions import Fraction
from itertools import pairwise

import gmpy2
import ml_dtypes
import numpy as np
import pytest
from gfloat import decode_ndarray

from oracle import formats as oracle
from oracle import libraries

LARGEST = {  # of the specifications: OFP8, MX 1.0, bfloat16
    "fp8_e4m3": 448,
    "fp8_e5m2": 57344,
    "bf16": (2 - 2.0**-7) * 2.0**127,
    "mxint8": 127 / 64,
    "mxfp8_e4m3": 448,
    "mxfp8_e5m2": 57344,
    "mxfp6_e3m2": 28,
    "mxfp6_e2m3": 7.5,
    "mxfp4_e2m1": 6,
    "nvfp4": 6,
    "bfp4": 15 / 8,
    "bfp1": 1,
}
SMALLEST = {
    "fp8_e4m3": 2.0**-9,
    "fp8_e5m2": 2.0**-16,
    "bf16": 2.0**-133,
    "mxint8": 2.0**-6,
    "mxfp6_e3m2": 2.0**-4,
    "mxfp6_e2m3": 2.0**-3,
    "mxfp4_e2m1": 0.5,
    "bfp8": 2.0**-7,
}


@pytest.mark.parametrize("name", LARGEST)
def test_largest(name):
    assert oracle.element(name).values[-1] == Fraction(LARGEST[name])


@pytest.mark.parametrize("name", SMALLEST)
def test_smallest(name):
    assert oracle.element(name).values[:2] == (0, Fraction(SMALLEST[name]))


@pytest.mark.parametrize("name", libraries.ML_DTYPES)
def test_every_code_against_ml_dtypes(name):
    chosen = oracle.element(name)
    codes = np.arange(2 << chosen.bits)
    theirs = libraries.decode_ml(name, codes).tolist()
    for code, value in zip(codes.tolist(), theirs, strict=True):
        mine = oracle.decode(chosen, code)
        assert mine == Fraction(value) if isinstance(mine, Fraction) else repr(mine) == repr(value)


@pytest.mark.parametrize("name", [name for name in libraries.GFLOAT if name != "mxint8"])
def test_every_code_against_gfloat(name):
    chosen = oracle.element(name)
    codes = np.arange(2 << chosen.bits)
    mine = [float(oracle.decode(chosen, code)) for code in codes.tolist()]
    np.testing.assert_array_equal(mine, decode_ndarray(libraries.GFLOAT[name], codes))


def test_mxint8_is_two_s_complement_elsewhere():
    """Stored here with a sign: the values of codes -127 to 127, with one zero."""
    codes = np.arange(-127, 128)
    theirs = decode_ndarray(libraries.GFLOAT["mxint8"], codes % 256)
    signed = np.where(codes < 0, 128 - codes, codes)
    chosen = oracle.element("mxint8")
    assert [float(oracle.decode(chosen, code)) for code in signed.tolist()] == theirs.tolist()


@pytest.mark.parametrize("name", oracle.NAMES)
def test_rounding_against_gfloat_and_mpfr(name):
    """Every middle between two values (of bf16 every 37th), and what is close to it."""
    chosen = oracle.element(name)
    values = np.array([float(value) for value in chosen.values])
    middles = ((values[1:] + values[:-1]) / 2)[:: 37 if name == "bf16" else 1]
    points = np.concatenate([middles, middles * (1 + 2.0**-30), middles * (1 - 2.0**-30), values])
    codes = [
        min(oracle.round_to_code(chosen, Fraction(point)), chosen.top) for point in points.tolist()
    ]
    np.testing.assert_array_equal(values[codes], libraries.gfloat_round(name, points))
    if chosen.precision > 1:
        rounded = libraries.mpfr_round(
            points, precision=chosen.precision, smallest_exponent=chosen.smallest_exponent
        )
        np.testing.assert_array_equal(values[codes], np.minimum(rounded, values[-1]))


@pytest.mark.parametrize("rule", ["stochastic-a", "stochastic-b", "stochastic-c"])
@pytest.mark.parametrize("name", [name for name in oracle.NAMES if name != "bf16"])
@pytest.mark.sampled(3)
def test_given_draws_against_gfloat(name, rule, np_rng):
    """Above every code: the boundaries of draws, their halves, and what is beside these."""
    chosen, bits, fine = oracle.element(name), 3, 14
    halves = np.arange(2 ** (bits + 1)) << (fine - bits - 1)
    near = np.concatenate([halves, halves + 1, halves[1:] - 1])
    values = np.array([float(value) for value in chosen.values])
    parts = np_rng.choice(near, (chosen.top, 6)) / 2.0**fine
    points = (values[:-1, None] + np.diff(values)[:, None] * parts).ravel()
    draws = np_rng.integers(0, 2**bits, points.size)
    pairs = zip(points.tolist(), draws.tolist(), strict=True)
    codes = [oracle.round_to_code(chosen, Fraction(x), rule, draw, bits) for x, draw in pairs]
    want = libraries.gfloat_round(name, points, rule, draws=draws, bits=bits)
    np.testing.assert_array_equal(values[codes], want)


@pytest.mark.parametrize("rule, way", [("nearest", gmpy2.RoundToNearest), ("up", gmpy2.RoundUp)])
def test_scales_of_nvfp4_against_mpfr(rule, way):
    """Every E4M3 number, every middle, and what is beside them."""
    scales = [float(value) for value in oracle.element("fp8_e4m3").values]
    points = np.array([*scales[1:], *((a + b) / 2 for a, b in pairwise(scales))])
    points = [*points, *points * (1 + 2.0**-30), *points * (1 - 2.0**-30)]
    for point in points:
        with gmpy2.context(precision=4, emin=-8, emax=100, subnormalize=True, round=way):
            want = min(float(gmpy2.mpfr(point)), scales[-1])
        assert scales[oracle.scale_code(rule, Fraction(point))] == want, point


@pytest.mark.parametrize("width", [0, 3, 7])
def test_four_over_six_against_ml_dtypes(width, np_rng):
    """Numbers of 6 bits, so that float64 is exact: each group is stored both ways, and the way of
    the smaller squared error is kept."""
    array = np_rng.integers(-63, 64, (16, 96)) * 2.0 ** np_rng.integers(-width, 1, (16, 96))
    options = {"name": "nvfp4", "kind": "vector", "size": 16, "block": 4}
    got = oracle.quantise(array.tolist(), scale_rule="four-over-six", **options)
    groups = array.reshape(16, 6, 16) / 2.0**got.tensor_exponent
    found = []
    for becomes in (6, 4):
        wanted = np.abs(groups).max(axis=2) / becomes
        scales = wanted.astype(np.float32).astype(ml_dtypes.float8_e4m3fn)
        factors = scales.astype(np.float64)[..., None]
        quotients = groups / np.where(factors, factors, 1)
        elements = (quotients.astype(ml_dtypes.float4_e2m1fn) * (factors > 0)).astype(np.float64)
        errors = ((groups - elements * factors) ** 2).sum(axis=2)
        found.append((scales.view(np.uint8), elements * factors, errors))
    (six, at_six, error_six), (four, at_four, error_four) = found
    fours = error_four < error_six
    assert 0.2 < fours.mean() < 0.8
    assert got.copies[0].exponents == np.where(fours, four, six).tolist()
    want = np.where(fours[..., None], at_four, at_six) * 2.0**got.tensor_exponent
    assert np.array(got.copies[0].values, float).tolist() == want.reshape(array.shape).tolist()


@pytest.mark.parametrize("rule", ["floor", "even", "ceil", "rceil"])
@pytest.mark.parametrize("name", [n for n in oracle.NAMES if n not in ("bf16", "nvfp4")])
def test_scale_rules_against_torchao(name, rule, np_rng):
    """At random significands and at both sides of every place where a rule changes its mind.

    The float32 reciprocal form of ``rceil`` is the exact comparison for the MX minifloats only:
    1 / (127/64) is already rounded too far up.
    """
    chosen = oracle.element(name)
    reach = float(chosen.values[-1])
    edges = np.array([1, 2 - 2.0**-chosen.precision, reach / 2**chosen.largest_exponent])
    edges = edges.astype(np.float32).view(np.uint32).astype(np.int64)
    near = (edges[:, None] + np.arange(-2, 3)).ravel()
    bits = np.concatenate([near, 0x3F800000 + np_rng.integers(0, 2**23, 300)]).astype(np.uint32)
    largest = np.ldexp(bits.view(np.float32), np_rng.integers(-90, 90, bits.size))
    largest = largest.astype(np.float32)
    mine = [oracle.top_binade(chosen, rule, Fraction(value)) for value in largest.tolist()]
    if rule == "rceil" and (chosen.scale != "e8m0" or name == "mxint8"):
        for value, exponent in zip(largest.tolist(), mine, strict=True):
            scale = Fraction(2) ** (exponent - chosen.largest_exponent)
            assert scale * chosen.values[-1] / 2 < Fraction(value) <= scale * chosen.values[-1]
        return
    theirs = libraries.torchao_exponent(
        rule, largest, chosen.precision, chosen.largest_exponent, reach
    )
    assert mine == theirs.tolist()
