"""Special functions: to the bit against the definition with Python's integers, errors against
MPFR, and what is no number."""

import gmpy2
import numpy as np
import pytest

from diastole_sim.golden.vector.functions import exp, lge, lgg, lgm, rcp, rsq
from diastole_sim.golden.vector.numbers import floats, words
from diastole_sim.spec.functions import FUNCTION_TABLES
from support import composed

NAN, INF, MINUS, ONE = 0x7FC00000, 0x7F800000, 0x80000000, 0x3F800000
MINUS_INF = MINUS | INF
COUNT = 100_000
FUNCTIONS = {each.__name__: each for each in (exp, rcp, rsq, lge, lgm, lgg)}


def parabola(name, place):
    table = FUNCTION_TABLES[name]
    width = table.argument_bits
    i, t = divmod(place, 2**width)
    c0, c1, c2 = table.rows[i]
    th = t >> (width - 14)
    q = (th * th) >> 14
    return c0 + ((c1 * t) >> (width + 3)) + ((c2 * q) >> 17)


def pack(s, e, significand):
    assert 2**28 <= significand <= 2**29
    r = (significand + 16) >> 5
    if r == 2**24:
        e += 1
    if e < -126:
        return 0
    return s << 31 | (INF if e > 127 else (e + 127) << 23 | r % 2**23)


def defined(name, bits):
    """A result, as the definition has it, of a number that is no special."""
    s, e, f = bits >> 31, (bits >> 23 & 255) - 127, bits % 2**23
    m = 2**23 + f
    if name == "exp":
        if e >= 7:
            return 0 if s else INF
        y = ((-1) ** s * m * 12392656037) >> min(29 - e, 62)
        return pack(0, y >> 27, 2**28 + parabola("exp", y % 2**27))
    if name == "rcp":
        return pack(s, -e - 1, 2**28 + parabola("rcp", f))
    if s:
        return NAN
    if name == "rsq":
        h, o = divmod(e, 2)
        return pack(0, -h - 1, 2**28 + parabola("rsq", 2**23 * o + f))
    power, d = (e, 2 * m - 2**24) if f < 2**22 else (e + 1, m - 2**24)
    if name == "lgg":
        p = parabola("lgg", d + 2**22)
        return pack(0, -1, 2 * p) if p < 2**28 else pack(0, 0, p)
    exact = np.float32(power if name == "lge" else d * 2.0**-24)
    return int(exact.view(np.uint32))


def boundaries(name):
    """First and last numbers of every segment, in some binades and both signs."""
    if name == "exp":
        places = np.arange(-200 * 64, 200 * 64 + 1) / 64 * np.log(2)
        near = words(places.astype(np.float32))
        near = near[(near & ~np.uint32(MINUS)) >= 0x00800010]
        return np.concatenate([near + np.uint32(k % 2**32) for k in range(-3, 4)])
    starts = np.arange(0, 2**23, 2**16)
    fractions = np.concatenate([starts, starts + 1, starts + 2**16 - 1, starts + 2**15])
    fields = np.array([1, 2, 3, 126, 127, 128, 129, 252, 253, 254])
    bits = (fields[:, None] << 23 | fractions).ravel().astype(np.uint32)
    return np.concatenate([bits, bits | np.uint32(MINUS)])


def numbers_of_all_sizes(rng, count):
    bits = rng.integers(0, 2**32, count, dtype=np.uint32)
    field = bits >> np.uint32(23) & np.uint32(255)
    return bits[(field != 0) & (field != 255)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_to_the_bit(name, np_rng):
    """Of exp most of what is not Inf, 0 or 1 too."""
    bits = [boundaries(name), numbers_of_all_sizes(np_rng, 20_000)]
    if name == "exp":
        bits.append(words(np_rng.uniform(-110, 110, 20_000).astype(np.float32)))
        bits.append(words(np.linspace(-88, -87, 2000, dtype=np.float32)))
        bits.append(words(np.linspace(88, 89, 2000, dtype=np.float32)))
    bits = np.concatenate(bits)
    got = words(FUNCTIONS[name](floats(bits)))
    want = np.array([defined(name, each) for each in bits.tolist()], np.uint32)
    np.testing.assert_array_equal(got, want)


SPECIALS = (0, MINUS, 1, 0x807FFFFF, INF, MINUS_INF, NAN, 0xFFC00000, 0x7F800001, 0xBF800000)
"""+0, -0, a subnormal of either sign, Inf, -Inf, three NaN, -1."""


@pytest.mark.parametrize(
    "name, want",
    [
        ("exp", (ONE, ONE, ONE, ONE, INF, 0, NAN, NAN, NAN, 0x3EBC5AB2)),
        ("rcp", (INF, MINUS_INF, INF, MINUS_INF, 0, MINUS, NAN, NAN, NAN, 0xBF800000)),
        ("rsq", (INF, INF, INF, INF, 0, NAN, NAN, NAN, NAN, NAN)),
        ("lge", (*(MINUS_INF,) * 4, INF, NAN, NAN, NAN, NAN, NAN)),
        ("lgm", (0, 0, 0, 0, 0, NAN, NAN, NAN, NAN, NAN)),
        ("lgg", (ONE, ONE, ONE, ONE, ONE, NAN, NAN, NAN, NAN, NAN)),
    ],
)
def test_specials(name, want):
    got = words(FUNCTIONS[name](floats(np.array(SPECIALS, np.uint32))))
    assert got.tolist() == list(want)


def test_exact_results():
    exponents = np.arange(-126, 127)
    powers = np.ldexp(np.float32(1), exponents).astype(np.float32)
    assert (FUNCTIONS["rcp"](powers) == powers[::-1]).all()
    assert words(FUNCTIONS["rcp"](np.float32(2.0**127))) == 0
    assert (FUNCTIONS["rsq"](powers[::2]) == np.ldexp(1.0, -exponents[::2] // 2)).all()
    assert (FUNCTIONS["lge"](powers) == exponents).all()
    assert not words(FUNCTIONS["lgm"](powers)).any()
    assert (FUNCTIONS["lgg"](powers) == 1).all()


def test_the_logarithm_s_parts_are_exact(np_rng):
    x = floats(numbers_of_all_sizes(np_rng, 20_000) & np.uint32(~MINUS % 2**32)).astype(np.float64)
    exponent = FUNCTIONS["lge"](x.astype(np.float32)).astype(np.float64)
    d = FUNCTIONS["lgm"](x.astype(np.float32)).astype(np.float64)
    assert (np.ldexp(1 + d, exponent.astype(int)) == x).all()
    assert (d.min(), d.max()) >= (-0.25, 0.4)
    assert d.max() < 0.5


@pytest.mark.parametrize("name", FUNCTIONS)
def test_any_shape(name):
    """Single numbers, matrices, and what is not contiguous, as one flat array; operands stay."""
    function = FUNCTIONS[name]
    x = floats(np.array([*SPECIALS, 0x3F9D1234, 0xC0123456], np.uint32))
    kept = words(x).copy()
    flat = function(x)
    assert flat.dtype == np.float32
    turned = function(x.reshape(3, 4).T)
    np.testing.assert_array_equal(words(turned), words(flat).reshape(3, 4).T)
    for place, want in enumerate(words(flat).tolist()):
        single = function(x[place])
        assert (single.shape, int(words(single))) == ((), want)
    np.testing.assert_array_equal(words(x), kept)


# Errors, in units of the last place of the exact result.


def error(got, x, exact, *more):
    """The largest; results are neither zero nor Inf, and so are those that are exact."""
    with gmpy2.context(precision=80):
        largest = 0.0
        operands = [x.tolist(), *(each.tolist() for each in more)]
        for value, *given in zip(got.tolist(), *operands, strict=True):
            want = exact(*map(gmpy2.mpfr, given))
            place = gmpy2.exp2(gmpy2.floor(gmpy2.log2(abs(want))) - 23)
            largest = max(largest, float(abs(value - want) / place))
    return largest


def in_binades(rng, low, high, count=COUNT):
    exponents = rng.integers(low, high + 1, count)
    return np.ldexp(rng.uniform(1, 2, count), exponents).astype(np.float32)


def d_quotient(x):
    """log(1 + d) / d of x = 1 + d."""
    return gmpy2.log(x) / (x - 1) if x != 1 else gmpy2.mpfr(1)


@pytest.mark.parametrize(
    "name, exact, bound, low, high",
    [
        ("exp", gmpy2.exp, 0.8, -25, 5),
        ("rcp", lambda x: 1 / x, 0.9, -126, 125),
        ("rsq", lambda x: 1 / gmpy2.sqrt(x), 0.7, -126, 127),
    ],
)
@pytest.mark.sampled(3)
def test_errors(name, exact, bound, low, high, np_rng):
    x = in_binades(np_rng, low, high)
    if name == "exp":
        x = np.where(np_rng.integers(0, 2, x.size) == 1, -x, x)
    assert 0.5 < error(FUNCTIONS[name](x), x, exact) < bound


def test_error_of_the_quotient(np_rng):
    x = np_rng.uniform(0.75, 1.5, COUNT).astype(np.float32)
    x = x[x < 1.5]
    assert 0.5 < error(FUNCTIONS["lgg"](x), x, d_quotient) < 0.7


def exact_sigmoid(z):
    return 1 / (1 + gmpy2.exp(-z))


def exact_gelu(x):
    """With the constants that the program has: with sqrt(8 / pi) unrounded it is up to 9.2."""
    linear, cubic = float(composed.GELU_LINEAR), float(composed.GELU_CUBIC)
    return x * exact_sigmoid(x * (linear + cubic * x * x))


@pytest.mark.parametrize(
    "name, exact, bound, low, high, signed",
    [
        ("root", gmpy2.sqrt, 1.6, -126, 127, False),
        ("logarithm", gmpy2.log, 1.7, -126, 127, False),
        ("sigmoid", exact_sigmoid, 2.5, -20, 3, True),
        ("tanh", gmpy2.tanh, 4.5, -40, 6, True),
        ("gelu", exact_gelu, 6, -20, 0, True),
    ],
)
@pytest.mark.sampled(2)
def test_errors_of_programs(name, exact, bound, low, high, signed, np_rng):
    x = in_binades(np_rng, low, high, COUNT // 2)
    x = np.concatenate([x, in_binades(np_rng, max(low, -4), min(high, 4), COUNT // 2)])
    if signed:
        x = np.where(np_rng.integers(0, 2, x.size) == 1, -x, x)
    if name == "logarithm":
        x = np.concatenate([x, np.arange(0x3F700000, 0x3F880000, 37, np.uint32).view(np.float32)])
        x = x[x != 1]
    if name == "gelu":
        x = x[np.abs(x) < 2]
    assert error(getattr(composed, name)(x), x, exact) < bound


def test_error_of_sigmoid_where_a_one_is_half_a_place(np_rng):
    """Beyond z = -16 it is larger near -log 2^24 alone, where 1 + exp(-z) rounds most."""
    z = np_rng.uniform(-87, -16, COUNT).astype(np.float32)
    z[::2] = np_rng.uniform(-16.7, -16.6, COUNT // 2)
    assert 2.5 < error(composed.sigmoid(z), z, exact_sigmoid) < 2.9
    z = z[(z < -16.7) | (z > -16.63)]
    assert error(composed.sigmoid(z), z, exact_sigmoid) < 2.5


def test_error_of_quotients(np_rng):
    a, b = in_binades(np_rng, -60, 60), in_binades(np_rng, -60, 60)
    assert error(composed.divide(a, -b), a, lambda a, b: -a / b, b) < 1.6


def test_programs_at_their_ends():
    assert composed.logarithm(np.float32(1)) == 0
    assert composed.logarithm(np.float32(0)) == -np.inf
    assert composed.logarithm(np.float32(np.inf)) == np.inf
    assert composed.root(np.float32(0)) == 0
    assert composed.sigmoid(np.float32(-200)) == 0
    assert composed.sigmoid(np.float32(200)) == 1
    assert words(composed.tanh(np.float32(-200))) == MINUS | ONE
    assert np.isnan(composed.tanh(np.float32(np.nan)))
