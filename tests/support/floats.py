"""Floats of accumulators as plain integers, by MPFR."""

from fractions import Fraction

import gmpy2


def nearest(value, mantissa):
    """An integer to ``mantissa`` + 1 significant bits, ties to even."""
    with gmpy2.context(precision=mantissa + 1, round=gmpy2.RoundToNearest):
        return int(gmpy2.mpfr(value))


def encoded(value, mantissa):
    """The bits of an integer that has no more than ``mantissa`` + 1 significant ones."""
    if value == 0:
        return 0
    exponent = abs(value).bit_length()
    fraction = Fraction(abs(value), 2 ** (exponent - 1)) - 1
    field = fraction * 2**mantissa
    assert field.denominator == 1
    sign = int(value < 0) << (mantissa + 6)
    return sign | exponent << mantissa | int(field)


def decoded(bits, mantissa):
    """The integer that bits stand for."""
    rest, fraction = divmod(bits, 2**mantissa)
    sign, exponent = divmod(rest, 2**6)
    if exponent == 0:
        assert (sign, fraction) == (0, 0)
        return 0
    value = (1 + Fraction(fraction, 2**mantissa)) * 2 ** (exponent - 1)
    assert value.denominator == 1
    return -int(value) if sign else int(value)


def near_ties(rng, length, mantissa):
    """A magnitude of so many bits: any, at or beside the middle of two floats, or all ones."""
    value = rng.getrandbits(length) | 1 << (length - 1) if length else 0
    below = length - mantissa - 1
    kind = rng.randrange(4)
    if kind == 0 or below < 1:
        return value
    if kind == 1:
        return (1 << length) - 1
    tie = (value >> below << below) + (1 << (below - 1))
    return tie + rng.choice((-1, 0, 0, 1))
