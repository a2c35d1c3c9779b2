"""The vector unit's special functions: patterns of binary32 in and out, integers throughout.

Tables are made here, by MPFR: a parabola through the function at the three Chebyshev points of a
segment, and a shift that balances the integer evaluation's errors.
"""

import hashlib
import struct
from functools import cache

import gmpy2

from oracle.vector_numbers import (
    INFINITY,
    MINUS_INFINITY,
    NAN,
    ONE,
    ZERO,
    encoded,
    integer,
    is_infinite,
    is_nan,
    is_zero,
    sign_of,
)

BITS = {"exp": 21, "rcp": 16, "rsq": 16, "lgg": 17}
"""By table, those of the argument within a segment."""
LOG2_E = 12392656037
"""round(2^33 log2 e)."""


def evaluated(entry, t, bits):
    """The parabola as the hardware has it, with 28 fraction bits; t has ``bits``."""
    c0, c1, c2 = entry
    th = t >> (bits - 14)
    q = (th * th) >> 14
    return c0 + ((c1 * t) >> (bits + 3)) + ((c2 * q) >> 17)


def _segments(name):
    """The functions of each segment's place, 0 to 1."""
    one, two = gmpy2.mpfr(1), gmpy2.mpfr(2)

    def log_over(d):
        return gmpy2.log1p(d) / d if d else one

    if name == "exp":
        return [lambda z, i=i: two ** ((i + z) / 64) - 1 for i in range(64)]
    if name == "rcp":
        return [lambda z, i=i: 2 / (1 + (i + z) / 128) - 1 for i in range(128)]
    if name == "rsq":
        first = [lambda z, i=i: 2 / gmpy2.sqrt(1 + (i + z) / 128) - 1 for i in range(128)]
        second = [lambda z, i=i: 2 / gmpy2.sqrt(2 + (i + z) / 64) - 1 for i in range(128)]
        return first + second
    return [lambda z, i=i: log_over((i + z) / 128 - one / 4) for i in range(96)]


def _entry(function, bits):
    half = gmpy2.mpfr(1) / 2
    swing = gmpy2.sqrt(gmpy2.mpfr(3)) / 4
    x0, x1, x2 = half - swing, half, half + swing
    y0, y1, y2 = function(x0), function(x1), function(x2)
    slope, other = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)  # Newton's divided differences
    bend = (other - slope) / (x2 - x0)
    linear = slope - bend * (x0 + x1)
    constant = y0 - slope * x0 + bend * x0 * x1
    c1, c2 = (int(gmpy2.rint(each * 2**31)) for each in (linear, bend))
    c0 = int(gmpy2.rint(constant * 2**28))
    errors = []
    for k in range(65):
        t = k * (2**bits - 1) // 64
        errors.append(evaluated((c0, c1, c2), t, bits) - function(gmpy2.mpfr(t) / 2**bits) * 2**28)
    return c0 - int(gmpy2.rint((max(errors) + min(errors)) / 2)), c1, c2


@cache
def table(name):
    """Of ``exp``, ``rcp``, ``rsq`` or ``lgg``: rows (c0, c1, c2)."""
    with gmpy2.context(precision=200):
        return [_entry(function, BITS[name]) for function in _segments(name)]


def digest(name):
    """SHA-256 of a table's rows as little-endian int32, in hexadecimal."""
    rows = table(name)
    return hashlib.sha256(b"".join(struct.pack("<3i", *row) for row in rows)).hexdigest()


def packed(sign, exponent, significand):
    """The pattern of (-1)^sign 2^exponent significand / 2^28, rounded; ``significand`` is in
    2^28 to 2^29."""
    assert 1 << 28 <= significand <= 1 << 29
    r = (significand + 16) >> 5
    if r == 1 << 24:
        exponent += 1
    if exponent < -126:
        return ZERO
    if exponent > 127:
        return sign << 31 | INFINITY
    return sign << 31 | (exponent + 127) << 23 | r & 0x7FFFFF


def _taken_apart(x):
    """(sign, exponent, fraction)."""
    return sign_of(x), (x >> 23 & 0xFF) - 127, x & 0x7FFFFF


def exp(x):
    if is_nan(x):
        return NAN
    if is_zero(x):
        return ONE
    sign, e, f = _taken_apart(x)
    if e >= 7:
        return ZERO if sign else INFINITY
    y = ((-1) ** sign * (2**23 + f) * LOG2_E) >> min(29 - e, 62)
    n, g = divmod(y, 2**27)
    i, t = divmod(g, 2**21)
    return packed(0, n, 2**28 + evaluated(table("exp")[i], t, 21))


def rcp(x):
    if is_nan(x):
        return NAN
    sign, e, f = _taken_apart(x)
    if is_zero(x):
        return sign << 31 | INFINITY
    if is_infinite(x):
        return sign << 31
    i, t = divmod(f, 2**16)
    return packed(sign, -e - 1, 2**28 + evaluated(table("rcp")[i], t, 16))


def rsq(x):
    if is_nan(x):
        return NAN
    if is_zero(x):
        return INFINITY
    sign, e, f = _taken_apart(x)
    if sign:
        return NAN
    if is_infinite(x):
        return ZERO
    h, o = divmod(e, 2)
    i, t = divmod(f, 2**16)
    return packed(0, -h - 1, 2**28 + evaluated(table("rsq")[128 * o + i], t, 16))


def _logarithm(x):
    """(E, D) of a positive finite number: x = (1 + D / 2^24) 2^E."""
    _, e, f = _taken_apart(x)
    m = 2**23 + f
    if f < 2**22:
        return e, 2 * m - 2**24
    return e + 1, m - 2**24


def _special_logarithm(x, at_zero, at_infinity):
    """What a logarithm's part is where x is not positive and finite, else None."""
    if is_nan(x):
        return NAN
    if is_zero(x):
        return at_zero
    if sign_of(x):
        return NAN
    return at_infinity if is_infinite(x) else None


def lge(x):
    special = _special_logarithm(x, MINUS_INFINITY, INFINITY)
    return integer(_logarithm(x)[0]) if special is None else special


def lgm(x):
    special = _special_logarithm(x, ZERO, ZERO)
    if special is not None:
        return special
    _, d = _logarithm(x)
    return encoded(int(d < 0), abs(d), -24) if d else ZERO


def lgg(x):
    special = _special_logarithm(x, ONE, ONE)
    if special is not None:
        return special
    _, d = _logarithm(x)
    i, t = divmod(d + 2**22, 2**17)
    p = evaluated(table("lgg")[i], t, 17)
    return packed(0, -1, 2 * p) if p < 2**28 else packed(0, 0, p)
