"""Functions that programs of the vector unit put together, for tests of their errors.

Constants are binary32, and every operation is one of the unit's.
"""

import numpy as np

from diastole_sim.golden.vector.functions import exp, lge, lgg, lgm, rcp, rsq
from diastole_sim.golden.vector.numbers import (
    add,
    floats,
    gt,
    mad,
    maximum,
    mul,
    negate,
    sel,
    words,
)
from diastole_sim.spec.functions import LN2_HIGH

LN2_LOW = float.fromhex("0x1.c85fe0p-10")
"""ln 2 - LN2_HIGH as binary32."""
ONE = np.float32(1)
SMALLEST = np.float32(2.0**-126)
GELU_LINEAR = np.float32(1.5957691)
GELU_CUBIC = np.float32(0.0713548)


def divide(a, b):
    return mul(a, rcp(b))


def root(x):
    return mul(x, rsq(maximum(x, SMALLEST)))


def logarithm(x):
    fraction = mul(lgm(x), lgg(x))
    exponent = lge(x)
    return mad(exponent, np.float32(LN2_HIGH), mad(exponent, np.float32(LN2_LOW), fraction))


def sigmoid(z):
    return rcp(add(ONE, exp(negate(z))))


def gelu(x):
    """x sigmoid(x (1.5957691 + 0.0713548 x^2))."""
    return mul(x, sigmoid(mul(x, mad(GELU_CUBIC, mul(x, x), GELU_LINEAR))))


def tanh(x):
    magnitude = floats(words(x) & np.uint32(0x7FFFFFFF))
    small = gt(np.float32(0.125), magnitude)
    square = mul(x, x)
    series = mad(square, np.float32(-17 / 315), np.float32(2 / 15))
    series = mad(square, series, np.float32(-1 / 3))
    series = mad(x, mul(square, series), x)
    power = exp(mul(np.float32(-2), magnitude))
    large = mul(add(ONE, negate(power)), rcp(add(ONE, power)))
    signed = floats(words(large) | (words(x) & np.uint32(0x80000000)))
    return sel(small, series, signed)
