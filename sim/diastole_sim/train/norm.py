"""Compute root-mean-square normalisation and its gradients on the host, in float32 and in a stated
order.

Source: Zhang and Sennrich, NeurIPS 2019.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole_sim.train import host

Numbers = NDArray[Any]

EPSILON = 2.0**-16
"""Number added to the mean square, so that a row of zeros has a nonzero root."""


@dataclass(frozen=True, kw_only=True)
class NormState:
    """Values of the forward pass for the backward pass: the input (rows, channels), and 1 / root of
    each row."""

    x: Numbers
    inverse: Numbers


def normalise(x: Numbers, gain: Numbers) -> tuple[Numbers, NormState]:
    """Return gain * (x / sqrt(mean(x^2) + epsilon)), row by row, and the values for the backward
    pass. ``gain``: (channels,)."""
    kind = x.dtype.type
    square = host.sum_columns(x * x) / kind(x.shape[1]) + kind(EPSILON)
    inverse: Numbers = kind(1) / np.sqrt(square)
    return gain * (x * inverse[:, None]), NormState(x=x, inverse=inverse)


def normalise_gradients(passed: NormState, gain: Numbers, dy: Numbers) -> tuple[Numbers, Numbers]:
    """Return the gradients by x and by the gain."""
    inverse = passed.inverse[:, None]
    unit = passed.x * inverse
    inner = dy * gain
    mean = host.sum_columns(inner * unit) / passed.x.dtype.type(passed.x.shape[1])
    return (inner - unit * mean[:, None]) * inverse, host.sum_rows(dy * unit)
