"""The arithmetic of the vector unit on arrays of binary32: every operation rounds once.

A subnormal operand is a zero of its sign. A result is rounded to 24 bits, to nearest even, as if
exponents had no bound; then it is +0 if it is below 2^-126 and not already a zero, and Inf with
its sign if it is 2^128 or more. Zeros that are exact have the signs of IEEE 754. The only NaN is
7fc00000: every operation but a move makes it of any NaN operand, of Inf - Inf and of 0 * Inf.

Arrays are float32, of shapes that broadcast. None is written to; what comes back may be an operand
itself where nothing changes.
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
"""Bits of 2^-126, the smallest number that is no zero."""
NAN_BITS = np.uint32(0x7FC00000)
NAN = NAN_BITS.view(np.float32)

ROUNDS_UP_TO_SMALLEST = 2.0**-126 - 2.0**-151
"""From this magnitude on 24 bits are 2^-126: half a last place of the binade below it."""


def words(x: Floats) -> Words:
    """The bits of each number."""
    return np.asarray(x).view(np.uint32)


def floats(bits: Words) -> Floats:
    """The numbers that bits stand for."""
    return np.asarray(bits, np.uint32).view(np.float32)


def is_zero(x: Floats) -> Mask:
    """Zeros and subnormals, which count as zeros."""
    return (words(x) & MAGNITUDE) < SMALLEST


def clean(x: Floats) -> Floats:
    """Subnormals become zeros of their sign; all else stays, bit for bit."""
    x = np.asarray(x)
    tiny = _subnormal(x)
    return floats(words(x) & ~(_all_ones(tiny) & MAGNITUDE)) if tiny.any() else x


def add(a: Floats, c: Floats) -> Floats:
    """a + c."""
    with np.errstate(all="ignore"):
        total = np.asarray(clean(a) + clean(c))
    # A sum below 2^-126 is exact, so it is seen as a subnormal.
    return _one_nan(_zero_where(_subnormal(total), total))


def mul(a: Floats, b: Floats) -> Floats:
    """a * b."""
    a, b = clean(a), clean(b)
    with np.errstate(all="ignore"):
        product = np.asarray(a * b)
    # Below 2^-126 float32 keeps fewer than 24 bits; a double has the whole product.
    doubtful = (words(product) & MAGNITUDE) <= SMALLEST
    if doubtful.any() and (doubtful & (a != 0) & (b != 0)).any():
        with np.errstate(invalid="ignore"):  # of signalling NaN, and of 0 * Inf
            exact = np.abs(np.multiply(a, b, dtype=np.float64))
        product = _zero_where((exact < ROUNDS_UP_TO_SMALLEST) & (exact != 0), product)
    return _one_nan(product)


def mad(a: Floats, b: Floats, c: Floats) -> Floats:
    """a * b + c: two roundings."""
    return add(mul(a, b), c)


def maximum(a: Floats, c: Floats) -> Floats:
    """NaN if one is NaN, else a if a > c, else c: so of -0 and +0 the second."""
    a, c = clean(a), clean(c)
    with np.errstate(invalid="ignore"):
        return _ordered(a, c, a > c)


def minimum(a: Floats, c: Floats) -> Floats:
    """NaN if one is NaN, else a if a < c, else c."""
    a, c = clean(a), clean(c)
    with np.errstate(invalid="ignore"):
        return _ordered(a, c, a < c)


def gt(a: Floats, c: Floats) -> Floats:
    """1.0 if a > c, else +0, also if one is NaN."""
    with np.errstate(invalid="ignore"):
        return np.asarray(clean(a) > clean(c)).astype(np.float32)


def eq(a: Floats, c: Floats) -> Floats:
    """1.0 if a = c, else +0, also if one is NaN; -0 equals +0."""
    with np.errstate(invalid="ignore"):
        return np.asarray(clean(a) == clean(c)).astype(np.float32)


def sel(b: Floats, a: Floats, c: Floats) -> Floats:
    """a if b is not a zero (NaN is none), else c: a move, bits stay as they are."""
    return _choose(~is_zero(b), a, c)


def move(a: Floats) -> Floats:
    """a, bit for bit."""
    return np.asarray(a)


def negate(x: Floats) -> Floats:
    """The sign bit flipped, NaN excepted."""
    bits = words(x)
    number = (bits & MAGNITUDE) <= INFINITY
    return floats(bits ^ (number.astype(np.uint32) << np.uint32(31)))


def to_bf16(x: Floats) -> NDArray[np.uint16]:
    """The bits of the nearest bfloat16, ties to even; NaN 7fc0, subnormals zeros of their sign."""
    bits = words(clean(x))
    last = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = np.add(bits, last + np.uint32(0x7FFF)) >> np.uint32(16)
    nan = (bits & MAGNITUDE) > INFINITY
    return np.where(nan, NAN_BITS >> np.uint32(16), rounded).astype(np.uint16)


def from_bf16(bits: NDArray[np.uint16]) -> Floats:
    """The numbers that bits of bfloat16 stand for: the upper halves of theirs."""
    return floats(np.asarray(bits).astype(np.uint32) << np.uint32(16))


def to_u8(x: Floats) -> NDArray[np.uint8]:
    """The nearest integer of 0..255, ties to even; NaN is 0."""
    with np.errstate(invalid="ignore"):
        within = np.clip(np.where(np.isnan(x), np.float32(0), x), 0, 255)
    return np.rint(within).astype(np.uint8)


def _subnormal(x: Floats) -> Mask:
    # Zeros wrap to the largest word, of which only the ufunc says nothing for a single number.
    return np.subtract(words(x) & MAGNITUDE, np.uint32(1)) < SMALLEST - np.uint32(1)


def _all_ones(mask: Mask) -> Words:
    """A word for each: of ones where it holds, else of zeros. np.where takes many times as long
    where a mask has no pattern."""
    return np.negative(np.asarray(mask).astype(np.uint32))


def _choose(first: Mask, a: Floats, c: Floats) -> Floats:
    """a where ``first``, else c, bit for bit."""
    other = words(c)
    return floats(other ^ ((words(a) ^ other) & _all_ones(first)))


def _zero_where(mask: Mask, x: Floats) -> Floats:
    """+0 where it holds, else x."""
    return floats(words(x) & ~_all_ones(mask)) if mask.any() else x


def _one_nan(result: Floats) -> Floats:
    """``result``, written to: every NaN becomes the one."""
    nan = np.isnan(result)
    if nan.any():
        np.copyto(result, NAN, where=nan)
    return result


def _ordered(a: Floats, c: Floats, first: Mask) -> Floats:
    """a where ``first``, else c, and NaN where one is NaN."""
    chosen = _choose(first, a, c)
    nan = np.isnan(a) | np.isnan(c)
    if nan.any():
        np.copyto(chosen, NAN, where=nan)
    return chosen
