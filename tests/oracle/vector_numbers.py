"""The vector unit's arithmetic: binary32 as bit patterns, in plain integers.

Every function takes and returns patterns of 32 bits unless it says otherwise. An operation rounds
once, to nearest even at 24 bits with an unbounded exponent; what is then below 2^-126 is +0, what
is 2^128 or more infinite. Operands below 2^-126 are zeros of their sign, the only NaN made is one.
"""

NAN = 0x7FC00000
INFINITY = 0x7F800000
MINUS_INFINITY = 0xFF800000
ZERO = 0
MINUS_ZERO = 0x80000000
ONE = 0x3F800000
MINUS_ONE = 0xBF800000


def is_nan(x):
    return x & 0x7FFFFFFF > INFINITY


def is_infinite(x):
    return x & 0x7FFFFFFF == INFINITY


def is_zero(x):
    """Subnormals are zeros."""
    return x & 0x7F800000 == 0


def sign_of(x):
    return x >> 31


def parts(x):
    """(sign, significand, exponent) with x = (-1)^sign significand 2^exponent; x is finite."""
    if is_zero(x):
        return sign_of(x), 0, 0
    return sign_of(x), x & 0x7FFFFF | 0x800000, (x >> 23 & 0xFF) - 127 - 23


def encoded(sign, magnitude, exponent):
    """The pattern of (-1)^sign magnitude 2^exponent, rounded; magnitude is a positive integer."""
    below = magnitude.bit_length() - 24
    if below > 0:
        whole, rest = divmod(magnitude, 1 << below)
        half = 1 << (below - 1)
        magnitude = whole + (rest > half or (rest == half and whole % 2 == 1))
        exponent += below
    if magnitude == 1 << 24:
        magnitude, exponent = 1 << 23, exponent + 1
    up = 24 - magnitude.bit_length()
    magnitude, exponent = magnitude << up, exponent - up
    binade = exponent + 23
    if binade < -126:
        return ZERO
    if binade > 127:
        return sign << 31 | INFINITY
    return sign << 31 | (binade + 127) << 23 | magnitude - (1 << 23)


def integer(value):
    """The pattern of an integer."""
    return encoded(int(value < 0), abs(value), 0) if value else ZERO


def add(a, c):
    if is_nan(a) or is_nan(c):
        return NAN
    if is_infinite(a) or is_infinite(c):
        if is_infinite(a) and is_infinite(c) and a != c:
            return NAN
        return a if is_infinite(a) else c
    (sign_a, m_a, e_a), (sign_c, m_c, e_c) = parts(a), parts(c)
    if m_a == m_c == 0:
        return MINUS_ZERO if sign_a and sign_c else ZERO
    if m_a == 0 or m_c == 0:
        return c if m_a == 0 else a
    low = min(e_a, e_c)
    total = (-1) ** sign_a * (m_a << (e_a - low)) + (-1) ** sign_c * (m_c << (e_c - low))
    return encoded(int(total < 0), abs(total), low) if total else ZERO


def mul(a, b):
    if is_nan(a) or is_nan(b):
        return NAN
    sign = sign_of(a) ^ sign_of(b)
    if is_infinite(a) or is_infinite(b):
        return NAN if is_zero(a) or is_zero(b) else sign << 31 | INFINITY
    (_, m_a, e_a), (_, m_b, e_b) = parts(a), parts(b)
    if m_a == 0 or m_b == 0:
        return sign << 31
    return encoded(sign, m_a * m_b, e_a + e_b)


def mad(a, b, c):
    """Two roundings."""
    return add(mul(a, b), c)


def cleaned(x):
    """As an operand: a subnormal is a zero of its sign, a NaN the one NaN."""
    if is_nan(x):
        return NAN
    return x & 0x80000000 if is_zero(x) else x


def order(x):
    """An integer that is ordered as the numbers are; both zeros are 0. Of no NaN."""
    magnitude = cleaned(x) & 0x7FFFFFFF
    return -magnitude if sign_of(x) else magnitude


def maximum(a, c):
    if is_nan(a) or is_nan(c):
        return NAN
    return cleaned(a) if order(a) > order(c) else cleaned(c)


def minimum(a, c):
    if is_nan(a) or is_nan(c):
        return NAN
    return cleaned(a) if order(a) < order(c) else cleaned(c)


def greater(a, c):
    return ONE if not is_nan(a) and not is_nan(c) and order(a) > order(c) else ZERO


def equal(a, c):
    return ONE if not is_nan(a) and not is_nan(c) and order(a) == order(c) else ZERO


def select(b, a, c):
    """a if b is not a zero, else c: bits as they are."""
    return c if is_zero(b) else a


def negated(x):
    """The sign bit flipped, of no NaN."""
    return x if is_nan(x) else x ^ 0x80000000


# What streams hold.


def to_bf16(x):
    """16 bits: to nearest even, NaN 7fc0, subnormals zeros of their sign."""
    if is_nan(x):
        return NAN >> 16
    whole, rest = divmod(cleaned(x), 1 << 16)
    return whole + (rest > 0x8000 or (rest == 0x8000 and whole % 2 == 1))


def from_bf16(half):
    return half << 16


def to_u8(x):
    """To nearest even within 0 to 255; NaN is 0."""
    if is_nan(x) or sign_of(x):
        return 0
    if is_infinite(x):
        return 255
    _, magnitude, exponent = parts(x)
    if exponent >= 0:
        return min(magnitude << exponent, 255)
    whole, rest = divmod(magnitude, 1 << -exponent)
    half = 1 << (-exponent - 1)
    return min(whole + (rest > half or (rest == half and whole % 2 == 1)), 255)


def from_label(value):
    """Of an int32; -1 if it is not in 0 .. 2^24."""
    return integer(value) if 0 <= value <= 2**24 else MINUS_ONE
