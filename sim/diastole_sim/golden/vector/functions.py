"""Compute the special functions of the vector unit on arrays of binary32, in integers.

A number is x = (-1)^s m 2^(e - 23), m = 2^23 + f. Zeros below include subnormals, and NaN gives the
one NaN. Tables, constants and the parabola p of a segment: :mod:`diastole_sim.spec.functions`. S =
2^28 + p is a significand with 28 fraction bits, which is rounded to 23 bits, halves upwards. A
result below 2^-126 is +0, and a result of 2^128 or more is Inf.

==========  =======================================================================  =========
operation   result                                                                   error
==========  =======================================================================  =========
exp         e^x                                                                      0.80 ulp
rcp         1 / x                                                                    0.86 ulp
rsq         1 / sqrt(x)                                                              0.64 ulp
lge         E of x = (1 + d) 2^E, -1/4 <= d < 1/2                                    exact
lgm         d of x = (1 + d) 2^E                                                     exact
lgg         log(1 + d) / d of x = (1 + d) 2^E                                        0.66 ulp
==========  =======================================================================  =========

The logarithm is log x = E log 2 + lgm lgg. Exact results are exp(0), rcp of powers of two, and rsq
of powers of four.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diastole_sim.golden.vector.numbers import (
    INFINITY,
    MAGNITUDE,
    NAN_BITS,
    SIGN,
    Floats,
    Mask,
    floats,
    words,
)
from diastole_sim.spec.functions import (
    EXP,
    EXP_OVERFLOW,
    EXP_SHIFT_LIMIT,
    LGG,
    LGG_LOWEST,
    LOG2E,
    LOG2E_BITS,
    RCP,
    RSQ,
    SLOPE_BITS,
    SQUARE_BITS,
    VALUE_BITS,
    FunctionTable,
)

Integers = NDArray[np.int64]

FRACTION_BITS = 23
HIDDEN = 1 << FRACTION_BITS
BIAS = 127
EXP_FRACTION_BITS = 27
"""Fraction bits of x log2 e in ``exp``: index and argument of the table."""
ONE_BITS = np.uint32(0x3F800000)
ZERO_BITS = np.uint32(0)


@dataclass(frozen=True)
class _Parts:
    """Parts of numbers as integers: sign 0 or 1, exponent e, fraction f; and masks of special
    numbers."""

    sign: Integers
    exponent: Integers
    fraction: Integers
    zero: Mask
    infinite: Mask
    nan: Mask

    @classmethod
    def of(cls, x: Floats) -> "_Parts":
        bits = words(x)
        magnitude = bits & MAGNITUDE
        wide = magnitude.astype(np.int64)
        field = wide >> FRACTION_BITS
        return cls(
            sign=(bits >> np.uint32(31)).astype(np.int64),
            exponent=field - BIAS,
            fraction=wide & (HIDDEN - 1),
            zero=field == 0,
            infinite=magnitude == INFINITY,
            nan=magnitude > INFINITY,
        )

    @property
    def signed_zero(self) -> NDArray[np.uint32]:
        return (self.sign << 31).astype(np.uint32)

    @property
    def signed_infinity(self) -> NDArray[np.uint32]:
        return self.signed_zero | INFINITY

    @property
    def below_zero(self) -> Mask:
        """True for negative numbers that are not zeros."""
        return (self.sign == 1) & ~self.zero


def exp(x: Floats) -> Floats:
    """Return e^x: 1 for zeros, and from a magnitude of 128 on Inf or +0."""
    parts = _Parts.of(x)
    product = (HIDDEN + parts.fraction) * LOG2E
    # Units of y are 2^-27: the product has 23 + 33 fraction bits at e = 0.
    shift = FRACTION_BITS + LOG2E_BITS - EXP_FRACTION_BITS - parts.exponent
    large = parts.exponent >= EXP_OVERFLOW
    shift = np.where(large, 0, np.minimum(shift, EXP_SHIFT_LIMIT))
    y = np.where(parts.sign == 1, -product, product) >> shift
    place = y & ((1 << EXP_FRACTION_BITS) - 1)
    result = _pack(0, y >> EXP_FRACTION_BITS, (1 << VALUE_BITS) + _parabola(EXP, place))
    return _special(
        result,
        (parts.nan, NAN_BITS),
        (parts.zero, ONE_BITS),
        (large, np.where(parts.sign == 1, ZERO_BITS, INFINITY)),
    )


def rcp(x: Floats) -> Floats:
    """Return 1 / x: Inf for zeros and zero for Inf, with their signs."""
    parts = _Parts.of(x)
    significand = (1 << VALUE_BITS) + _parabola(RCP, parts.fraction)
    return _special(
        _pack(parts.sign, -parts.exponent - 1, significand),
        (parts.nan, NAN_BITS),
        (parts.zero, parts.signed_infinity),
        (parts.infinite, parts.signed_zero),
    )


def rsq(x: Floats) -> Floats:
    """Return 1 / sqrt(x): +Inf for zeros, +0 for +Inf, NaN for negative numbers."""
    parts = _Parts.of(x)
    half, odd = parts.exponent >> 1, parts.exponent & 1
    place = (odd << FRACTION_BITS) + parts.fraction
    significand = (1 << VALUE_BITS) + _parabola(RSQ, place)
    return _special(
        _pack(0, -half - 1, significand),
        (parts.nan | parts.below_zero, NAN_BITS),
        (parts.zero, INFINITY),
        (parts.infinite, ZERO_BITS),
    )


def lge(x: Floats) -> Floats:
    """Return E of x = (1 + d) 2^E: -Inf for zeros, +Inf for +Inf, NaN for negative numbers."""
    parts = _Parts.of(x)
    exponent, _ = _split(parts)
    return _special(
        words(exponent.astype(np.float32)),
        (parts.nan | parts.below_zero, NAN_BITS),
        (parts.zero, SIGN | INFINITY),
        (parts.infinite, INFINITY),
    )


def lgm(x: Floats) -> Floats:
    """Return d of x = (1 + d) 2^E: +0 for zeros and +Inf, NaN for negative numbers."""
    parts = _Parts.of(x)
    _, d = _split(parts)
    return _special(
        words((d * 2.0 ** -(FRACTION_BITS + 1)).astype(np.float32)),
        (parts.nan | parts.below_zero, NAN_BITS),
        (parts.zero | parts.infinite, ZERO_BITS),
    )


def lgg(x: Floats) -> Floats:
    """Return log(1 + d) / d of x = (1 + d) 2^E: 1 for zeros and +Inf, NaN for negative numbers."""
    parts = _Parts.of(x)
    _, d = _split(parts)
    p = _parabola(LGG, d + LGG_LOWEST)
    below = p < 1 << VALUE_BITS
    return _special(
        _pack(0, -below.astype(np.int64), np.where(below, 2 * p, p)),
        (parts.nan | parts.below_zero, NAN_BITS),
        (parts.zero | parts.infinite, ONE_BITS),
    )


def _split(parts: _Parts) -> tuple[Integers, Integers]:
    """Return E, and d in units of 2^-24."""
    upper = parts.fraction >= HIDDEN >> 1
    significand = HIDDEN + parts.fraction
    d = np.where(upper, significand, 2 * significand) - 2 * HIDDEN
    return parts.exponent + upper, d


_COLUMNS = {
    table: np.array(table.columns, np.int64).reshape(3, -1) for table in (EXP, RCP, RSQ, LGG)
}


def _parabola(table: FunctionTable, place: Integers) -> Integers:
    """Return p at ``place``, which has the number of the segment above the bits of the segment's
    argument."""
    bits = table.argument_bits
    segment, t = place >> bits, place & ((1 << bits) - 1)
    c0, c1, c2 = (column[segment] for column in _COLUMNS[table])
    top = t >> (bits - SQUARE_BITS)
    square = (top * top) >> SQUARE_BITS
    linear = (c1 * t) >> (bits + SLOPE_BITS - VALUE_BITS)
    return c0 + linear + ((c2 * square) >> (SQUARE_BITS + SLOPE_BITS - VALUE_BITS))


def _pack(sign: Integers | int, exponent: Integers, significand: Integers) -> NDArray[np.uint32]:
    """Return the bits of (-1)^sign significand 2^(exponent - 28), for 2^28 <= significand <=
    2^29."""
    dropped = VALUE_BITS - FRACTION_BITS
    rounded = (significand + (1 << (dropped - 1))) >> dropped
    exponent = exponent + (rounded >> (FRACTION_BITS + 1))  # after a carry the fraction is zero
    bits = sign << 31 | (exponent + BIAS) << FRACTION_BITS | rounded & (HIDDEN - 1)
    bits = np.where(exponent > BIAS, sign << 31 | int(INFINITY), bits)
    return np.where(exponent < 1 - BIAS, 0, bits).astype(np.uint32)


def _special(
    bits: NDArray[np.uint32], *cases: tuple[Mask, NDArray[np.uint32] | np.uint32]
) -> Floats:
    """Return the numbers, replaced where the mask of a case is true. The first of several cases
    counts."""
    for mask, instead in reversed(cases):
        if mask.any():
            bits = np.where(mask, instead, bits)
    return floats(bits)
