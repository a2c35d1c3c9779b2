"""Counts the multiplications of functions of torch from their arguments."""

# pyright: reportUnknownMemberType=false

import re
from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

aten = torch.ops.aten
Formula = Callable[..., int]
"""Takes the arguments of a function and, as ``out_val``, its result."""
NAMESPACES = ("aten", "prim", "prims", "profiler", "_c10d_functional", "c10d", "fsdp")
"""Namespaces of torch whose functions are looked at by name. Any function of another namespace, as
of another package or of quantised layers, may multiply matrices."""
PRODUCTS = frozenset(
    "mm addmm bmm baddbmm addbmm smm hspmm sspaddmm matmul mv addmv dot vdot conv convolution "
    "linear attention encoder gru lstm rnn cdist linalg solve".split()
)
"""Words in the names of functions of torch that multiply matrices."""
OTHERS = frozenset(
    "upsample thnn norm cross diagonal check flatten reorder search pack convert".split()
)
"""Words in the names of functions that do not, though a word of ``PRODUCTS`` is there too."""


def formula_of(function: Any) -> Formula | None:
    """Return what counts the multiplications of a function, or None without a formula; then
    :func:`is_unknown` tells whether the function multiplies all the same."""
    packet = getattr(function, "_overloadpacket", function)
    if packet in OWN:
        return OWN[packet]
    operations: Any = flop_registry.get(packet)
    if operations is None:
        return None
    # Of torch: a multiplication and an addition each.
    return lambda *args, **kwargs: int(operations(*args, **kwargs)) // 2


def is_unknown(function: Any) -> bool:
    """Tell whether a function without a formula may multiply matrices."""
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


def _linear(given: Any, weight: Any, *_: Any, **__: Any) -> int:
    return given.numel() * weight.shape[0]


def _added_product(_: Any, a: Any, b: Any, *__: Any, **___: Any) -> int:
    return a.numel() * b.shape[-1]


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    pairs = prod(query.shape[:-1]) * key.shape[-2]
    return pairs * (query.shape[-1] + value.shape[-1])


def _trilinear(a: Any, b: Any, c: Any, *places: Any, **_: Any) -> int:
    """Two multiplications for each element of what all three span."""
    spread = [
        tuple(torch.empty(each.shape, device="meta")[_widened(each.ndim, axes)].shape)
        for each, axes in zip((a, b, c), places[:3], strict=True)
    ]
    return 2 * prod(torch.broadcast_shapes(*spread))


def _widened(axes: int, places: Any) -> tuple[Any, ...]:
    """An index with an axis of length 1 at these places of the result."""
    return tuple(None if place in places else slice(None) for place in range(axes + len(places)))


def _weights(tensors: Any) -> int:
    """Elements of matrices, which each row of an operand is multiplied by; biases are vectors."""
    return sum(each.numel() for each in tensors if isinstance(each, torch.Tensor) and each.ndim > 1)


def _native_attention(
    query: Any, key: Any, value: Any, width: int, heads: int, *rest: Any, **_: Any
) -> int:
    return _self_attention(_weights(rest[:4]), width, query)


def _native_encoder(source: Any, width: int, heads: int, *rest: Any, **_: Any) -> int:
    return _self_attention(_weights(rest[:15]), width, source)


def _self_attention(weights: int, width: int, sequences: Any) -> int:
    """Of a batch of sequences, nested or not."""
    lengths = [int(each.shape[0]) for each in sequences.unbind()]
    return sum(length * (weights + 2 * length * width) for length in lengths)


def _recurrence(given: Any, *rest: Any, **_: Any) -> int:
    """Each weight once for every element of every sequence."""
    return prod(given.shape[:-1]) * _weights(rest[:4])


def _listed_recurrence(place: int) -> Callable[..., int]:
    """The same where the weights are a list, the argument number ``place``."""
    return lambda *args, **_: prod(args[0].shape[:-1]) * _weights(args[place])


OWN: dict[Any, Formula] = {
    aten.linear: _linear,  # as torch has it of nested tensors
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
"""What the registry of torch lacks."""
