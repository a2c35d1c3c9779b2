"""Block floating point from its definition, on exact fractions."""

import math
import struct
from fractions import Fraction
from types import SimpleNamespace

from oracle.rounding import round_fraction
from oracle.threefry import draw

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


def quantise(rows, *, mantissa_bits, rule, block, bits, seed, tag, step):
    """Convert a list of lists of Python floats, each exact in binary32.

    Returns magnitudes and signs (padded), stored exponents, maxima, flags, and the exact values.
    """
    m, height, width = mantissa_bits, len(rows), len(rows[0])
    block_rows, block_columns = -(-height // block), -(-width // block)
    mags = [[0] * (block_columns * block) for _ in range(block_rows * block)]
    signs = [[0] * (block_columns * block) for _ in range(block_rows * block)]
    values = [[Fraction(0)] * width for _ in range(height)]
    exponents = [[0] * block_columns for _ in range(block_rows)]
    saturated = 0
    for block_row in range(block_rows):
        for block_column in range(block_columns):
            places = [
                (i, j)
                for i in range(block_row * block, min((block_row + 1) * block, height))
                for j in range(block_column * block, min((block_column + 1) * block, width))
            ]
            numbers = [finite(rows[i][j]) for i, j in places if math.isfinite(rows[i][j])]
            largest = max((abs(number) for number in numbers), default=0)
            if largest == 0:
                continue
            e = exponent_of(largest)
            exponents[block_row][block_column] = e + 127
            ulp = Fraction(2) ** (e - m + 1)
            for i, j in places:
                value = rows[i][j]
                if math.isnan(value):
                    mag = 0
                elif math.isinf(value):
                    mag = 2**m - 1
                else:
                    random = draw(seed=seed, tag=tag, step=step, index=i * width + j, bits=bits)
                    mag = round_fraction(rule, abs(finite(value)) / ulp, random, bits)
                    if mag > 2**m - 1:
                        mag, saturated = 2**m - 1, saturated + 1
                mags[i][j] = mag
                signs[i][j] = int(mag != 0 and is_negative(value))
                values[i][j] = mag * ulp * (-1 if signs[i][j] else 1)
    flat = [value for row in rows for value in row]
    return SimpleNamespace(
        mags=mags,
        signs=signs,
        exponents=exponents,
        row_max=[max(row) for row in exponents],
        col_max=[max(column) for column in zip(*exponents, strict=True)],
        values=values,
        nan=any(math.isnan(value) for value in flat),
        inf=any(math.isinf(value) for value in flat),
        saturated=saturated,
    )
