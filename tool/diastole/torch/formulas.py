"""Count the multiplications of torch functions from the arguments of the functions."""

# pyright: reportUnknownMemberType=false

import re
from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

aten = torch.ops.aten
Formula = Callable[..., int]
"""Function that counts from the arguments of a torch function and the result ``out_val``."""
NAMESPACES = ("aten", "prim", "prims", "profiler", "_c10d_functional", "c10d", "fsdp")
"""Namespaces of torch whose functions are judged by name. Any function of another namespace, for
example of another package or of quantised layers, may multiply matrices."""
PRODUCTS = frozenset(
    "mm addmm bmm baddbmm addbmm smm hspmm sspaddmm matmul mv addmv dot vdot conv convolution "
    "linear attention encoder gru lstm rnn cdist linalg solve".split()
)
"""Words in the names of torch functions that multiply matrices."""
OTHERS = frozenset(
    "upsample thnn norm cross diagonal check flatten reorder search pack convert".split()
)
"""Words in the names of functions that multiply no matrices, although a word of ``PRODUCTS`` is in
the name."""


def formula_of(function: Any) -> Formula | None:
    """Return the formula that counts the multiplications of a function; None without a formula. For
    a function without a formula, :func:`is_unknown` tells whether the function may multiply."""
    packet = getattr(function, "_overloadpacket", function)
    if packet in FORMULAS:
        return FORMULAS[packet]
    operations: Any = flop_registry.get(packet)
    if operations is None:
        return None
    # Formulas of torch count a multiplication and an addition as two operations.
    return lambda *args, **kwargs: int(operations(*args, **kwargs)) // 2


def is_unknown(function: Any) -> bool:
    """Return whether a function without a formula may multiply matrices."""
    if not isinstance(function, torch._ops.OpOverload) or function.namespace not in NAMESPACES:
        return True
    name = str(function._overloadpacket).rpartition(".")[2]
    words = {re.sub(r"\d+d?$", "", word) for word in name.split("_")}
    return bool(words & PRODUCTS) and not words & OTHERS


def _first(a: Any, *_: Any, **__: Any) -> int:
    return a.numel()


def _second(_: Any, a: Any, *__: Any, **___: Any) -> int:
    return a.numel()


def _product(a: Any, b: Any, *_: Any, **__: Any) -> int:
    return a.numel() * b.shape[-1]


def _linear(arguments: Any, weight: Any, *_: Any, **__: Any) -> int:
    return arguments.numel() * weight.shape[0]


def _added_product(_: Any, a: Any, b: Any, *__: Any, **___: Any) -> int:
    return a.numel() * b.shape[-1]


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    pairs = prod(query.shape[:-1]) * key.shape[-2]
    return pairs * (query.shape[-1] + value.shape[-1])


def _trilinear(a: Any, b: Any, c: Any, *places: Any, **_: Any) -> int:
    """Count two multiplications for every element of the space that the three operands span."""
    spread = [
        tuple(torch.empty(each.shape, device="meta")[_widened(each.ndim, axes)].shape)
        for each, axes in zip((a, b, c), places[:3], strict=True)
    ]
    return 2 * prod(torch.broadcast_shapes(*spread))


def _widened(axes: int, places: Any) -> tuple[Any, ...]:
    """Return an index that inserts an axis of length 1 at ``places`` of the result."""
    return tuple(None if place in places else slice(None) for place in range(axes + len(places)))


def _weights(tensors: Any) -> int:
    """Count the elements of matrices: every row of an operand is multiplied by the matrices. Biases
    are vectors, and do not count."""
    return sum(each.numel() for each in tensors if isinstance(each, torch.Tensor) and each.ndim > 1)


def _native_attention(
    query: Any, key: Any, value: Any, width: int, heads: int, *rest: Any, **_: Any
) -> int:
    return _self_attention(_weights(rest[:4]), width, query)


def _native_encoder(source: Any, width: int, heads: int, *rest: Any, **_: Any) -> int:
    return _self_attention(_weights(rest[:15]), width, source)


def _self_attention(weights: int, width: int, sequences: Any) -> int:
    """Count the multiplications for a batch of sequences, nested or not."""
    lengths = [int(each.shape[0]) for each in sequences.unbind()]
    return sum(length * (weights + 2 * length * width) for length in lengths)


def _recurrence(arguments: Any, *rest: Any, **_: Any) -> int:
    """Count every weight once for every element of every sequence."""
    return prod(arguments.shape[:-1]) * _weights(rest[:4])


def _listed_recurrence(place: int) -> Callable[..., int]:
    """Return :func:`_recurrence` for functions with a list of weights in argument number
    ``place``."""
    return lambda *args, **_: prod(args[0].shape[:-1]) * _weights(args[place])


FORMULAS: dict[Any, Formula] = {
    aten.linear: _linear,  # called by torch for nested tensors
    aten.mv: _first,
    aten.dot: _first,
    aten.vdot: _first,
    aten.addmv: _second,
    aten._int_mm: _product,
    aten._addmm_activation: _added_product,
    aten.addbmm: _added_product,
    aten._trilinear: _trilinear,
    aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    aten._native_multi_head_attention: _native_attention,
    aten._transformer_encoder_layer_fwd: _native_encoder,
    aten.mkldnn_rnn_layer: _recurrence,
    aten._cudnn_rnn: _listed_recurrence(1),
    aten.miopen_rnn: _listed_recurrence(1),
}
"""Formulas that the registry of torch lacks."""
