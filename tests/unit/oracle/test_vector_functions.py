"""The judge's special functions: the tables' hashes, errors against MPFR, exact cases."""

import gmpy2
import pytest

from oracle import vector_functions as functions
from oracle.vector_numbers import INFINITY, MINUS_INFINITY, NAN, ONE, parts

MINUS_ZERO, SMALLEST = 0x80000000, 0x00800000


def value(pattern):
    sign, magnitude, exponent = parts(pattern)
    return (-1) ** sign * gmpy2.mpfr(magnitude) * gmpy2.mpfr(2) ** exponent


def patterns(rng, exponents, signs=(0,), count=3000):
    """Of exponents in a range: at both ends of segments, and anywhere."""
    fractions = [segment << 16 for segment in range(128)]
    fractions += [each + 2**16 - 1 for each in fractions] + [2**22 - 1, 2**22, 1]
    fractions += [rng.getrandbits(23) for _ in range(count)]
    for fraction in fractions:
        exponent = rng.choice(exponents)
        yield rng.choice(signs) << 31 | (exponent + 127) << 23 | fraction


@pytest.mark.parametrize(
    "name, first, digest",
    [
        ("exp", (3, 23257903, 126632), "b5f68cace6c00f48"),
        ("rcp", (268435452, -33553293, 259099), "14665389b9eae391"),
        ("rsq", (268435456, -16776860, 97351), "a184e3d4d12dd9e2"),
        ("lgg", (308896272, -12254061, 82132), "63e718a57626ad01"),
    ],
)
def test_tables(name, first, digest):
    assert functions.table(name)[0] == first
    assert functions.digest(name)[:16] == digest


@pytest.mark.parametrize(
    "significand, want",
    [
        (2**28 + 15, 0x3F800000),
        (2**28 + 16, 0x3F800001),  # half an ulp goes up, of odd and even alike
        (2**28 + 48, 0x3F800002),
        (2**29 - 17, 0x3FFFFFFF),
        (2**29 - 16, 0x40000000),
        (2**29, 0x40000000),
    ],
)
def test_packing(significand, want):
    assert functions.packed(0, 0, significand) == want
    assert functions.packed(1, 0, significand) == want | MINUS_ZERO


def log_over(x):
    """log(1 + d) / d with 1 + d = x over the power of two beside it."""
    _, magnitude, _ = parts(x)
    below = magnitude - 2**23 < 2**22
    d = gmpy2.mpfr(magnitude if below else gmpy2.mpfr(magnitude) / 2) / 2**23 - 1
    return gmpy2.log1p(d) / d if d else gmpy2.mpfr(1)


@pytest.mark.parametrize(
    "name, exact, exponents, signs, most",
    [
        ("exp", lambda x: gmpy2.exp(value(x)), range(-30, 6), (0, 1), 0.79),
        ("rcp", lambda x: 1 / value(x), range(-126, 126), (0, 1), 0.86),
        ("rsq", lambda x: 1 / gmpy2.sqrt(value(x)), range(-126, 128), (0,), 0.64),
        ("lgg", log_over, range(-126, 128), (0,), 0.66),
    ],
)
def test_errors(name, exact, exponents, signs, most, rng):
    """In ulps of the exact value's binade."""
    largest = 0
    with gmpy2.context(precision=100):
        for x in patterns(rng, exponents, signs):
            got, want = value(getattr(functions, name)(x)), exact(x)
            ulp = gmpy2.mpfr(2) ** (gmpy2.floor(gmpy2.log2(abs(want))) - 23)
            error = abs(got - want) / ulp
            assert error <= most, f"{x:08x}"
            largest = max(largest, error)
    assert largest > 0.5  # else the bound says nothing of these functions


def test_parts_of_a_logarithm_are_exact(rng):
    """x = (1 + lgm) 2^lge, with lgm from -1/4 to 1/2."""
    for x in patterns(rng, range(-126, 128)):
        d, e = value(functions.lgm(x)), int(value(functions.lge(x)))
        assert -0.25 <= d < 0.5
        with gmpy2.context(precision=60):
            assert (1 + d) * gmpy2.mpfr(2) ** e == value(x), f"{x:08x}"


def test_a_logarithm_of_its_parts(rng):
    with gmpy2.context(precision=100):
        for x in patterns(rng, range(-126, 128), count=300):
            d, e, g = (value(each(x)) for each in (functions.lgm, functions.lge, functions.lgg))
            want = gmpy2.log(value(x))
            assert abs(e * gmpy2.log(gmpy2.mpfr(2)) + d * g - want) <= abs(want) * 2e-7, f"{x:08x}"


@pytest.mark.parametrize("exponent", range(-126, 127))
@pytest.mark.sampled(4)
def test_powers_of_two_are_exact(exponent):
    x = (exponent + 127) << 23
    if exponent < 127:
        assert functions.rcp(x) == (127 - exponent) << 23
    if exponent % 2 == 0:
        assert functions.rsq(x) == (127 - exponent // 2) << 23
    assert (functions.lgm(x), functions.lgg(x)) == (0, ONE)


@pytest.mark.parametrize(
    "name, x, want",
    [
        ("exp", 0, ONE),
        ("exp", 0x807FFFFF, ONE),
        ("exp", INFINITY, INFINITY),
        ("exp", MINUS_INFINITY, 0),
        ("exp", 0x43000000, INFINITY),  # 128
        ("exp", 0xC3000000, 0),
        ("exp", 0x42B17218, INFINITY),  # just beyond 128 ln 2
        ("exp", 0x42B17217, 0x7F7FFF84),
        ("exp", 0xC2AEAC4F, 0x00800026),  # just above -126 ln 2
        ("exp", 0xC2AEAC50, 0),
        ("exp", SMALLEST, ONE),
        ("exp", 0xFF800001, NAN),
        ("rcp", 0, INFINITY),
        ("rcp", 0x80000001, MINUS_INFINITY),
        ("rcp", INFINITY, 0),
        ("rcp", MINUS_INFINITY, MINUS_ZERO),
        ("rcp", 0x7E800000, SMALLEST),  # 2^126
        ("rcp", 0xFE800001, 0),  # below 2^-126, whatever its sign
        ("rcp", 0x7FC00001, NAN),
        ("rsq", MINUS_ZERO, INFINITY),
        ("rsq", 0x00000001, INFINITY),
        ("rsq", INFINITY, 0),
        ("rsq", 0xBF800000, NAN),
        ("rsq", MINUS_INFINITY, NAN),
        ("lge", MINUS_ZERO, MINUS_INFINITY),
        ("lge", INFINITY, INFINITY),
        ("lge", 0xBF800000, NAN),
        ("lge", 0x3FC00000, ONE),  # 1.5 is 2 (1 - 1/4)
        ("lgm", 0x3FC00000, 0xBE800000),
        ("lgm", 0x3FBFFFFF, 0x3EFFFFFC),
        ("lgm", 0, 0),
        ("lgm", INFINITY, 0),
        ("lgm", MINUS_INFINITY, NAN),
        ("lgg", 0, ONE),
        ("lgg", INFINITY, ONE),
        ("lgg", 0x80800000, NAN),
        ("lgg", 0x7F800001, NAN),
    ],
)
def test_special_values(name, x, want):
    assert getattr(functions, name)(x) == want, f"{getattr(functions, name)(x):08x}"
