"""Numbers of the vector unit against MPFR with 24 bits, and the rules of what has no 24 bits."""

import gmpy2
import numpy as np
import pytest

from diastole_sim.golden.vector import numbers
from diastole_sim.golden.vector.numbers import floats, words

NAN = 0x7FC00000
INF = 0x7F800000
MINUS = 0x80000000
SPECIALS = np.array(
    """00000000 80000000 00000001 80000001 007fffff 807fffff 00400000 80400000 00800000 80800000
    00800001 80800001 3f800000 bf800000 3f7fffff bf7fffff 7f7fffff ff7fffff 7f800000 ff800000
    7fc00000 ffc00000 7f800001 ff800001 7fc12345 ffffffff 40000000 c0000000 3f000000 bf000000
    34000000 b4000000 7e800000 fe800000 01000000 81000000""".split()
)
SPECIALS = floats(np.array([int(word, 16) for word in SPECIALS], np.uint32))
PAIRS = tuple(each.ravel() for each in np.meshgrid(SPECIALS, SPECIALS))
COUNT = 20_000
"""Pairs of every kind."""


def operand(x):
    """As MPFR: exact, a subnormal a zero of its sign."""
    x = float(x)
    return gmpy2.mpfr(np.copysign(0.0, x) if abs(x) < 2.0**-126 else x)


def rounded(result):
    """Bits of what an exact or rounded result counts as."""
    if gmpy2.is_nan(result):
        return NAN
    sign = MINUS if gmpy2.is_signed(result) else 0
    if gmpy2.is_zero(result):
        return sign
    if abs(result) < gmpy2.exp2(-126):
        return 0
    if abs(result) >= gmpy2.exp2(128):
        return sign | INF
    return int(np.float32(float(result)).view(np.uint32))


def expected(operation, a, b):
    with gmpy2.context(precision=24, round=gmpy2.RoundToNearest):
        return np.array(
            [
                rounded(operation(operand(x), operand(y)))
                for x, y in zip(a.tolist(), b.tolist(), strict=True)
            ],
            np.uint32,
        )


def randoms(rng, low, high, count=COUNT):
    """Any sign and fraction, exponents of low .. high."""
    fields = rng.integers(low + 127, high + 128, count)
    signs, fractions = rng.integers(0, 2, count), rng.integers(0, 2**23, count)
    return floats((signs << 31 | fields << 23 | fractions).astype(np.uint32))


def beside(rng, x, most):
    """Up to so many places of the last bit away."""
    return floats((words(x) + rng.integers(-most, most + 1, x.size)).astype(np.uint32))


def sums(rng):
    """Pairs of all sizes; results near 2^-126, near 2^128; cancellation; ties."""
    yield randoms(rng, -126, 127), randoms(rng, -126, 127)
    yield randoms(rng, -126, -124), randoms(rng, -126, -124)
    a = randoms(rng, -126, -100)
    yield a, -beside(rng, a, 3)
    yield randoms(rng, 125, 127), randoms(rng, 125, 127)
    a = randoms(rng, -126, 127)
    yield a, -beside(rng, a, 2)
    a = randoms(rng, -60, 60)
    half = np.ldexp(a, -24) * rng.integers(-4, 5, a.size).astype(np.float32)
    yield a, half.astype(np.float32)
    largest = np.full(COUNT, np.finfo(np.float32).max)
    yield largest, beside(rng, np.full(COUNT, np.float32(2.0**103)), 2)


def products(rng):
    """Pairs of all sizes; products within some last places of 2^-126 and of 2^128; small ones."""
    yield randoms(rng, -126, 127), randoms(rng, -126, 127)
    yield randoms(rng, -70, -56), randoms(rng, -70, -56)
    for bound, exponents in ((2.0**-126, (-120, -6)), (2.0**128, (1, 126))):
        for wide in (2, 40):
            a = randoms(rng, *exponents)
            b = (bound / a.astype(np.float64)).astype(np.float32)
            yield a, beside(rng, b, wide)
    a = floats(words(np.ones(COUNT, np.float32)) + rng.integers(0, 4, COUNT).astype(np.uint32))
    yield a, beside(rng, floats(np.full(COUNT, 0x00800003, np.uint32)), 3)


@pytest.mark.parametrize(
    "name, operation, pairs",
    [
        ("add", lambda x, y: x + y, sums),
        ("mul", lambda x, y: x * y, products),
    ],
)
def test_rounds_once(name, operation, pairs, np_rng):
    """At least 10^5 pairs, and specials with specials."""
    seen = 0
    for a, b in [*pairs(np_rng), PAIRS]:
        got = words(getattr(numbers, name)(a, b))
        np.testing.assert_array_equal(got, expected(operation, a, b))
        seen += a.size
    assert seen > 100_000


@pytest.mark.parametrize(
    "below, above, result",
    [
        (1, 0, 0),  # a tie in float32, which keeps 2^-126
        (2, 1, 0x00800000),
        (3, 1, 0),
        (2 * 1448, 1448, 0x00800000),  # 2^-126 - 0.99978 2^-151
        (2 * 1449, 1449, 0),  # 2^-126 - 1.00117 2^-151
    ],
)
def test_products_at_the_smallest_number(below, above, result):
    """(1 - below 2^-24) times 2^-126 (1 + above 2^-23): half a last place below 2^-126 rounds up;
    a little less is +0 of either sign, though float32 has 2^-126."""
    a, b = np.float32(1 - below * 2.0**-24), np.float32(2.0**-126 * (1 + above * 2.0**-23))
    assert words(numbers.mul(a, b)) == result
    assert words(numbers.mul(-a, b)) == (result | MINUS if result else 0)


def test_a_product_halfway_below_the_smallest_number():
    """2^25 - 1 = 31 * 1082401 units of 2^-151: to even, which is 2^-126."""
    a, b = np.float32(31 * 2.0**-71), np.float32(1082401 * 2.0**-80)
    assert float(a) * float(b) == 2.0**-126 - 2.0**-151
    assert words(numbers.mul(a, -b)) == MINUS | 0x00800000


def test_mad_is_two_roundings(np_rng):
    a, b, c = (randoms(np_rng, -20, 20) for _ in range(3))
    c[::2] = -(a * b)[::2]
    got = words(numbers.mad(a, b, c))
    product = floats(expected(lambda x, y: x * y, a, b))
    np.testing.assert_array_equal(got, expected(lambda x, y: x + y, product, c))
    assert not got[::2].any()


def order(bits):
    """A number's place among all: zeros and subnormals are one."""
    magnitude = bits & ~MINUS
    return 0 if magnitude < 0x00800000 else -magnitude if bits & MINUS else magnitude


def flushed(bits):
    return bits & MINUS if (bits & ~MINUS) < 0x00800000 else bits


def is_nan(bits):
    return (bits & ~MINUS) > INF


def in_words(name, a, c):
    """Comparisons of two numbers as bits, by their order as integers."""
    unordered = is_nan(a) or is_nan(c)
    greater, less = order(a) > order(c), order(a) < order(c)
    if name in ("gt", "eq"):
        holds = greater if name == "gt" else not greater and not less
        return 0x3F800000 if holds and not unordered else 0
    if unordered:
        return NAN
    return flushed(a if (greater if name == "maximum" else less) else c)


@pytest.mark.parametrize("name", ["maximum", "minimum", "gt", "eq"])
def test_comparisons(name, np_rng):
    x, y = randoms(np_rng, -126, 127, 2000), randoms(np_rng, -126, 127, 2000)
    for a, c in ((x, y), (x, beside(np_rng, x, 1)), PAIRS):
        pairs = np.stack([words(a), words(c)], axis=1).tolist()
        want = [in_words(name, *pair) for pair in pairs]
        assert words(getattr(numbers, name)(a, c)).tolist() == want


def test_comparisons_by_hand():
    zero, minus = np.float32(0), np.float32(-0.0)
    assert words(numbers.maximum(minus, zero)) == 0
    assert words(numbers.maximum(zero, minus)) == MINUS
    assert words(numbers.minimum(zero, minus)) == MINUS
    assert words(numbers.minimum(minus, zero)) == 0
    assert numbers.eq(zero, minus) == 1
    nan = floats(np.uint32(0xFFC00001))
    assert words(numbers.maximum(nan, zero)) == NAN
    assert words(numbers.minimum(zero, nan)) == NAN


def test_moves_keep_bits():
    a, c = PAIRS
    assert words(numbers.move(a)).tolist() == words(a).tolist()
    for b in SPECIALS:
        zero = (int(words(b)) & ~MINUS) < 0x00800000
        got = words(numbers.sel(b, a, c))
        np.testing.assert_array_equal(got, words(c if zero else a))
    np.testing.assert_array_equal(
        words(numbers.sel(a, c, a)), np.where(flushed_zero(a), words(a), words(c))
    )


def flushed_zero(x):
    return np.array([order(bits) == 0 for bits in words(x).tolist()])


def test_negation_leaves_nan():
    got = words(numbers.negate(SPECIALS)).tolist()
    want = [bits if is_nan(bits) else bits ^ MINUS for bits in words(SPECIALS).tolist()]
    assert got == want


def test_cleaning():
    got = words(numbers.clean(SPECIALS)).tolist()
    assert got == [flushed(bits) for bits in words(SPECIALS).tolist()]
    assert numbers.is_zero(SPECIALS).tolist() == flushed_zero(SPECIALS).tolist()


def test_bfloat16(np_rng):
    """8 bits of MPFR; ties, and both ways to Inf."""
    x = randoms(np_rng, -126, 127, 4000)
    ties = floats(words(x) & np.uint32(0xFFFF0000) | np.uint32(0x8000))
    for each in (x, ties, beside(np_rng, ties, 1), SPECIALS):
        want = []
        with gmpy2.context(precision=8):
            for value in each.tolist():
                word = rounded(+operand(value))
                assert word & 0xFFFF == 0
                want.append(word >> 16)
        got = numbers.to_bf16(each)
        assert got.dtype == np.uint16
        assert got.tolist() == want
    for bits in (0x7F7F, 0x8001, 0x7FC1, 0xFF80):
        assert words(numbers.from_bf16(np.uint16(bits))) == bits << 16
    every = np.arange(2**16, dtype=np.uint16)
    back = numbers.to_bf16(numbers.from_bf16(every))
    numbered = ((every & 0x7F80) != 0) & ((every & 0x7FFF) <= 0x7F80)
    np.testing.assert_array_equal(back[numbered], every[numbered])


@pytest.mark.parametrize(
    "value, byte",
    [
        (0.5, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-3.0, 0), (254.5, 254), (255.4, 255),
        (256.0, 255), (1e30, 255), (np.inf, 255), (-np.inf, 0), (np.nan, 0), (1e-40, 0), (-0.0, 0),
        (127.49999, 127),
    ],
)  # fmt: skip
def test_bytes(value, byte):
    got = numbers.to_u8(np.full((2, 3), value, np.float32))
    assert got.dtype == np.uint8
    assert got.tolist() == [[byte] * 3] * 2


BINARY = ("add", "mul", "maximum", "minimum", "gt", "eq")
UNARY = ("clean", "negate", "move", "to_bf16", "to_u8", "is_zero")


@pytest.mark.parametrize("name", [*BINARY, *UNARY])
def test_any_shape(name):
    """Single numbers, matrices, and what is not contiguous, as one flat array; operands stay."""
    function = getattr(numbers, name)
    operands = PAIRS if name in BINARY else PAIRS[:1]
    before = [words(each).copy() for each in operands]
    flat = function(*operands)
    sides = [each.reshape(36, 36).T for each in operands]
    turned = function(*sides)
    assert turned.shape == (36, 36)
    same(turned.T.ravel(), flat)
    for place in range(0, flat.size, 7):
        same(function(*(each[place] for each in operands)), flat[place])
    for each, old in zip(operands, before, strict=True):
        np.testing.assert_array_equal(words(each), old)


def same(got, want):
    """In every bit."""
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape, got.tobytes()) == (want.dtype, want.shape, want.tobytes())


@pytest.mark.parametrize("name", BINARY)
def test_operands_broadcast(name):
    function = getattr(numbers, name)
    got = function(SPECIALS[:, None], SPECIALS)
    same(got, function(*PAIRS[::-1]).reshape(36, 36))
