"""Compute causal attention and its gradients on the host, in float32 and in a stated order.

As in :mod:`diastole_sim.train.host`, only ``+ - * /``, each rounded once, and the host's exp are
used. A sum begins at +0 and adds products in ascending order of the index. Work on further indices
in parallel does not change the order.

Arrays have leading axes (sequences, heads), then (places, channels) or (places, places). All
functions compute in the type of the arguments, so a test can compute in float64.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole_sim.train import host

Numbers = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class AttentionState:
    """Values of the forward pass for the backward pass: queries, keys and values (..., places,
    channels), and the weights of the values (..., places, places), where each row has the sum 1."""

    q: Numbers
    k: Numbers
    v: Numbers
    weights: Numbers


def contract(a: Numbers, b: Numbers) -> Numbers:
    """Return the products (..., M, K) by (..., K, N), with each sum in ascending order of k."""
    total = np.zeros((*a.shape[:-1], b.shape[-1]), a.dtype)
    term = np.empty_like(total)
    for k in range(a.shape[-1]):
        np.multiply(a[..., :, k, None], b[..., k, None, :], out=term)
        np.add(total, term, out=total)
    return total


def sum_last(x: Numbers) -> Numbers:
    """Return the sum over the last axis, in ascending order."""
    total = np.zeros(x.shape[:-1], x.dtype)
    for index in range(x.shape[-1]):
        total = total + x[..., index]
    return total


def transposed(x: Numbers) -> Numbers:
    """Return the array with the last two axes exchanged."""
    return np.ascontiguousarray(x.swapaxes(-1, -2))


def split_heads(x: Numbers, sequences: int, heads: int, parts: int) -> list[Numbers]:
    """Split (sequences * places, parts * heads * channels) into parts. Return each part as
    (sequences, heads, places, channels)."""
    divided = x.reshape(sequences, -1, parts, heads, x.shape[1] // (parts * heads))
    return [np.ascontiguousarray(divided[:, :, part].swapaxes(1, 2)) for part in range(parts)]


def join_heads(*parts: Numbers) -> Numbers:
    """Join parts: the inverse of :func:`split_heads`."""
    sequences, heads, places, channels = parts[0].shape
    joined = np.stack([part.swapaxes(1, 2) for part in parts], axis=2)
    return joined.reshape(sequences * places, len(parts) * heads * channels)


def attend(q: Numbers, k: Numbers, v: Numbers) -> tuple[Numbers, AttentionState]:
    """Return softmax(q k^T / sqrt(channels)) v, where a place attends to itself and to earlier
    places, and the values for the backward pass."""
    places = q.shape[-2]
    scores = contract(q, transposed(k)) * _scale(q)
    seen = np.tri(places, dtype=np.bool_)
    scores = np.where(seen, scores, -np.inf).astype(q.dtype)
    powers = host.exp(scores - scores.max(axis=-1, keepdims=True))
    weights: Numbers = powers / sum_last(powers)[..., None]
    return contract(weights, v), AttentionState(q=q, k=k, v=v, weights=weights)


def attend_gradients(passed: AttentionState, dy: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return the gradients by queries, keys and values, from the gradient by the result of
    :func:`attend`."""
    weights = passed.weights
    dweights = contract(dy, transposed(passed.v))
    mean = sum_last(weights * dweights)[..., None]
    dscores = (weights * (dweights - mean)) * _scale(dy)
    dq = contract(dscores, passed.k)
    dk = contract(transposed(dscores), passed.q)
    return dq, dk, contract(transposed(weights), dy)


def _scale(x: Numbers) -> Any:
    """Return 1 / sqrt(channels) in the type of ``x``."""
    one = x.dtype.type(1)
    return one / np.sqrt(x.dtype.type(x.shape[-1]))
