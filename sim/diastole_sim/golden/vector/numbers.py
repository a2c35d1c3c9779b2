"""Compute the arithmetic of the vector unit on arrays of binary32: every operation rounds once.

A subnormal operand is a zero of the same sign. A result is rounded to 24 bits, to nearest even, as
if exponents had no bound. A result below 2^-126 that is not already a zero becomes +0, and a result
of 2^128 or more becomes Inf with its sign. Exact zeros have the signs of IEEE 754. The only NaN is
7fc00000: every operation except a move returns this NaN for any NaN operand, for Inf - Inf and for
0 * Inf.

Arrays are float32, with shapes that broadcast. No operand is written to. A result may be an operand
itself if nothing changes.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Words = NDArray[np.uint32]
Mask = NDArray[np.bool_]

SIGN = np.uint32(0x80000000)
MAGNITUDE = np.uint32(0x7FFFFFFF)
INFINITY = np.uint32(0x7F800000)
SMALLEST = np.uint32(0x00800000)
"""Bits of 2^-126, the smallest nonzero number."""
NAN_BITS = np.uint32(0x7FC00000)
NAN = NAN_BITS.view(np.float32)

ROUNDS_UP_TO_SMALLEST = 2.0**-126 - 2.0**-151
"""Smallest magnitude that 24 bits round up to 2^-126: half a last place of the binade below
2^-126."""


def words(x: Floats) -> Words:
    """Return the bits of every number."""
    return np.asarray(x).view(np.uint32)


def floats(bits: Words) -> Floats:
    """Return the numbers with the given bits."""
    return np.asarray(bits, np.uint32).view(np.float32)


def is_zero(x: Floats) -> Mask:
    """Return a mask of zeros and of subnormals, which count as zeros."""
    return (words(x) & MAGNITUDE) < SMALLEST


def clean(x: Floats) -> Floats:
    """Replace subnormals by zeros of the same sign. All other numbers stay, bit for bit."""
    x = np.asarray(x)
    tiny = _subnormal(x)
    return floats(words(x) & ~(_all_ones(tiny) & MAGNITUDE)) if tiny.any() else x


def add(a: Floats, c: Floats) -> Floats:
    """Return a + c."""
    with np.errstate(all="ignore"):
        total = np.asarray(clean(a) + clean(c))
    # A sum below 2^-126 is exact, so the sum appears as a subnormal.
    return _one_nan(_zero_where(_subnormal(total), total))


def mul(a: Floats, b: Floats) -> Floats:
    """Return a * b."""
    a, b = clean(a), clean(b)
    with np.errstate(all="ignore"):
        product = np.asarray(a * b)
    # Below 2^-126 float32 has fewer than 24 bits; a double holds the whole product.
    doubtful = (words(product) & MAGNITUDE) <= SMALLEST
    if doubtful.any() and (doubtful & (a != 0) & (b != 0)).any():
        with np.errstate(invalid="ignore"):  # signalling NaN and 0 * Inf
            exact = np.abs(np.multiply(a, b, dtype=np.float64))
        product = _zero_where((exact < ROUNDS_UP_TO_SMALLEST) & (exact != 0), product)
    return _one_nan(product)


def mad(a: Floats, b: Floats, c: Floats) -> Floats:
    """Return a * b + c, with two roundings."""
    return add(mul(a, b), c)


def maximum(a: Floats, c: Floats) -> Floats:
    """Return NaN if an operand is NaN, else a if a > c, else c. Of -0 and +0 the result is c."""
    a, c = clean(a), clean(c)
    with np.errstate(invalid="ignore"):
        return _ordered(a, c, a > c)


def minimum(a: Floats, c: Floats) -> Floats:
    """Return NaN if an operand is NaN, else a if a < c, else c."""
    a, c = clean(a), clean(c)
    with np.errstate(invalid="ignore"):
        return _ordered(a, c, a < c)


def gt(a: Floats, c: Floats) -> Floats:
    """Return 1.0 if a > c, else +0, also if an operand is NaN."""
    with np.errstate(invalid="ignore"):
        return np.asarray(clean(a) > clean(c)).astype(np.float32)


def eq(a: Floats, c: Floats) -> Floats:
    """Return 1.0 if a = c, else +0, also if an operand is NaN; -0 equals +0."""
    with np.errstate(invalid="ignore"):
        return np.asarray(clean(a) == clean(c)).astype(np.float32)


def sel(b: Floats, a: Floats, c: Floats) -> Floats:
    """Return a if b is not a zero (NaN is not a zero), else c: a move, in which bits stay as they
    are."""
    return _choose(~is_zero(b), a, c)


def move(a: Floats) -> Floats:
    """Return a, bit for bit."""
    return np.asarray(a)


def negate(x: Floats) -> Floats:
    """Flip the sign bit, except of NaN."""
    bits = words(x)
    number = (bits & MAGNITUDE) <= INFINITY
    return floats(bits ^ (number.astype(np.uint32) << np.uint32(31)))


def to_bf16(x: Floats) -> NDArray[np.uint16]:
    """Return the bits of the nearest bfloat16, ties to even. NaN gives 7fc0, and subnormals give
    zeros of the same sign."""
    bits = words(clean(x))
    last = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = np.add(bits, last + np.uint32(0x7FFF)) >> np.uint32(16)
    nan = (bits & MAGNITUDE) > INFINITY
    return np.where(nan, NAN_BITS >> np.uint32(16), rounded).astype(np.uint16)


def from_bf16(bits: NDArray[np.uint16]) -> Floats:
    """Return the numbers with the given bfloat16 bits, which are the upper halves of their binary32
    bits."""
    return floats(np.asarray(bits).astype(np.uint32) << np.uint32(16))


def to_u8(x: Floats) -> NDArray[np.uint8]:
    """Return the nearest integer of 0..255, ties to even; NaN gives 0."""
    with np.errstate(invalid="ignore"):
        within = np.clip(np.where(np.isnan(x), np.float32(0), x), 0, 255)
    return np.rint(within).astype(np.uint8)


def _subnormal(x: Floats) -> Mask:
    # Zeros wrap to the largest word. For a single number only the ufunc gives no warning of the
    # wrap.
    return np.subtract(words(x) & MAGNITUDE, np.uint32(1)) < SMALLEST - np.uint32(1)


def _all_ones(mask: Mask) -> Words:
    """Return a word of ones for every true element, else a word of zeros. np.where takes many times
    as long if a mask has no pattern."""
    return np.negative(np.asarray(mask).astype(np.uint32))


def _choose(first: Mask, a: Floats, c: Floats) -> Floats:
    """Return a where ``first`` is true, else c, bit for bit."""
    other = words(c)
    return floats(other ^ ((words(a) ^ other) & _all_ones(first)))


def _zero_where(mask: Mask, x: Floats) -> Floats:
    """Return +0 where the mask is true, else x."""
    return floats(words(x) & ~_all_ones(mask)) if mask.any() else x


def _one_nan(result: Floats) -> Floats:
    """Replace every NaN in ``result``, in place, by the only NaN."""
    nan = np.isnan(result)
    if nan.any():
        np.copyto(result, NAN, where=nan)
    return result


def _ordered(a: Floats, c: Floats, first: Mask) -> Floats:
    """Return a where ``first`` is true, else c, and NaN where an operand is NaN."""
    chosen = _choose(first, a, c)
    nan = np.isnan(a) | np.isnan(c)
    if nan.any():
        np.copyto(chosen, NAN, where=nan)
    return chosen
