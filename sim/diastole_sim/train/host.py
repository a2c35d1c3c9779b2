"""Compute the host's share of training: everything that the hardware does *not* compute.

The machine does every conversion and every matrix product. This module alone does all work between
two products: bias, ReLU, softmax, cross-entropy, the derivatives, and the update of the master
weights. A vector unit can take the place of this module.

A run must give the same bits on every computer. The module therefore uses only the following
operations: float32 ``+ - * /``, each rounded to nearest even as IEEE 754 demands, one numpy
operation at a time (numpy contracts nothing to a fused multiply-add); comparisons and selections;
integer operations on the bits. The module uses no transcendental function of numpy, no BLAS product
and no numpy reduction with its own order. Sums run in ascending order of the index, one addition
after another. NaNs pass through as values.

All arrays are float32. A batch has one row per sample: ``(samples, units)``.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]

_ROUND = np.float32(12582912.0)  # 1.5 * 2**23: adding it leaves no fraction bits, nearest even
_LOG2_E = np.float32(1.4426950408889634)
_LN2_HIGH = np.float32(0.693359375)  # 9 significant bits, so that n * _LN2_HIGH is exact
_LN2_LOW = np.float32(-2.12194440e-4)
_EXP_TERMS = (  # Cephes expf: (exp(r) - 1 - r) / r**2 on |r| <= ln(2)/2, highest power first
    1.9875691500e-4,
    1.3981999507e-3,
    8.3334519073e-3,
    4.1665795894e-2,
    1.6666665459e-1,
    5.0000001201e-1,
)
EXP_LOW = -87.0  # below this exp gives 0: the results are close to the subnormals
EXP_HIGH = 88.0  # above this exp gives Inf
_ATANH_TERMS = (1 / 9, 1 / 7, 1 / 5, 1 / 3)  # artanh(s) / s - 1 in s**2, highest power first
_SQRT_HALF_BITS = 0x3F3504F3


def exp(x: Floats) -> Floats:
    """Return e**x, at most 2 units in the last place off on [-87, 88]; 0 below and Inf above.

    Source: Cody and Waite's reduction by multiples of ln 2, polynomial of Moshier's Cephes (expf).
    """
    bounded = np.where(x > EXP_LOW, np.where(x < EXP_HIGH, x, np.float32(EXP_HIGH)), EXP_LOW)
    bounded = bounded.astype(np.float32)
    n = (bounded * _LOG2_E + _ROUND) - _ROUND
    r = (bounded - n * _LN2_HIGH) - n * _LN2_LOW
    tail = np.full_like(r, _EXP_TERMS[0])
    for term in _EXP_TERMS[1:]:
        tail = tail * r + np.float32(term)
    power = ((n.astype(np.int32) + 127) << 23).view(np.float32)
    result = ((tail * (r * r) + r) + np.float32(1)) * power
    result = np.where(x < EXP_LOW, np.float32(0), result)
    result = np.where(x > EXP_HIGH, np.float32(np.inf), result)
    return np.where(np.isnan(x), np.float32(np.nan), result).astype(np.float32)


def log(x: Floats) -> Floats:
    """Return the natural logarithm of positive normal numbers, at most 2 units in the last place
    off.

    x = 2**n * v with v in [sqrt(1/2), sqrt(2)), log v = 2 artanh((v - 1) / (v + 1)). Inf and NaN
    are returned unchanged. Zero, negative and subnormal numbers are not checked for.
    """
    bits = np.ascontiguousarray(x).view(np.int32)
    n = (bits - _SQRT_HALF_BITS) >> 23
    v = (bits - (n << 23)).view(np.float32)
    s = (v - np.float32(1)) / (v + np.float32(1))
    square = s * s
    tail = np.full_like(s, _ATANH_TERMS[0])
    for term in _ATANH_TERMS[1:]:
        tail = tail * square + np.float32(term)
    twice = s + s
    count = n.astype(np.float32)
    result = count * _LN2_HIGH + (twice + (twice * (tail * square) + count * _LN2_LOW))
    return np.where(np.isfinite(x), result, x).astype(np.float32)


def sum_rows(x: Floats) -> Floats:
    """Return the sum over the rows, in ascending order: (rows, columns) -> (columns,)."""
    total = np.zeros(x.shape[1], np.float32)
    for row in x:
        total = total + row
    return total


def sum_columns(x: Floats) -> Floats:
    """Return the sum over the columns, in ascending order: (rows, columns) -> (rows,)."""
    return sum_rows(x.T)


def add_bias(y: Floats, bias: Floats) -> Floats:
    """Return a layer's product plus the bias: (samples, units) + (units,)."""
    return y + bias


def relu(z: Floats) -> Floats:
    """Return the positive part of ``z``, +0 elsewhere."""
    return np.where(z > 0, z, z.dtype.type(0))


def relu_gradient(dh: Floats, z: Floats) -> Floats:
    """Return the gradient in front of the ReLU: ``dh`` where ``z`` was positive, +0 elsewhere."""
    return np.where(z > 0, dh, dh.dtype.type(0))


def softmax_cross_entropy(z: Floats, labels: Labels) -> tuple[np.float32, Floats]:
    """Return the mean cross-entropy of the softmax of ``z`` (samples, classes), and the gradient by
    ``z``.

    ``labels``: (samples,) in 0..classes-1. The gradient is (softmax - one_hot) / samples.
    """
    samples = np.arange(len(z))
    shifted = z - z.max(axis=1, keepdims=True)
    powers = exp(shifted)
    totals = sum_columns(powers)
    losses = log(totals) - shifted[samples, labels]
    gradient = powers / totals[:, None]
    gradient[samples, labels] = gradient[samples, labels] - np.float32(1)
    count = np.float32(len(z))
    return sum_rows(losses[:, None])[0] / count, gradient / count


def accuracy(z: Floats, labels: Labels) -> float:
    """Return the fraction of rows of ``z`` whose largest entry is at the label. The first of equal
    entries counts."""
    return int((z.argmax(axis=1) == labels).sum()) / len(z)


def learning_rate(rate: float, step: int, steps: int) -> np.float32:
    """Return a rate that falls linearly from ``rate`` in step 0 towards 0 in step ``steps``."""
    return np.float32(rate) * (np.float32(steps - step) / np.float32(steps))


def descend(
    value: Floats, velocity: Floats, gradient: Floats, rate: np.float32, momentum: float
) -> tuple[Floats, Floats]:
    """Do one update by gradient descent with momentum. Return the new value and the new velocity.

    velocity' = momentum * velocity + gradient; value' = value - rate * velocity'.
    """
    moved: Floats = np.float32(momentum) * velocity + gradient
    change: Floats = rate * moved
    return value - change, moved
