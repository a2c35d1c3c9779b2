"""Numbers of binary32 as exact fractions."""

import struct
from fractions import Fraction

MIN_NORMAL = Fraction(2) ** -126


def finite(value):
    """A finite binary32 as a fraction, subnormals as zero."""
    exact = Fraction(value)
    return exact if abs(exact) >= MIN_NORMAL else Fraction(0)


def exponent_of(value):
    """floor(log2 |value|) of a fraction that is not zero, by comparison only."""
    value, exponent = abs(value), 0
    while value >= 2:
        value, exponent = value / 2, exponent + 1
    while value < 1:
        value, exponent = value * 2, exponent - 1
    return exponent


def is_negative(value):
    return struct.pack(">f", value)[0] >= 128
