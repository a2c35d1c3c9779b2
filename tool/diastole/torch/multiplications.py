"""Counts the multiplications of a forward pass, by the module that asks for them.

Counted are the multiplications of matrix products, convolutions, attention and recurrent layers: of
an (M x K) by (K x N) product M K N. Multiplications of single elements, as in normalisations, are
none of these. What a backward pass computes is not counted.
"""

# pyright: reportUnknownMemberType=false, reportUntypedBaseClass=false

import threading
from collections import Counter
from collections.abc import Callable, Container, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from diastole.torch.steps import in_backward

aten = torch.ops.aten


@dataclass(kw_only=True, eq=False)
class Tally:
    """Multiplications by the name of the module that asked for them, ``""`` for the model itself:
    those that a device of Diastole did, and all others."""

    on_device: Counter[str] = field(default_factory=lambda: Counter[str]())
    elsewhere: Counter[str] = field(default_factory=lambda: Counter[str]())

    @property
    def total(self) -> int:
        """All multiplications that were counted."""
        return self.on_device.total() + self.elsewhere.total()

    @property
    def by_module(self) -> dict[str, int]:
        """All of them, by the name of their module, in the order in which they came."""
        return dict(self.on_device + self.elsewhere)

    def share(self, swapped: Container[str]) -> float:
        """The part of a device, where all that these modules multiply is the device's."""
        others = sum(n for name, n in self.on_device.items() if name not in swapped)
        return (
            sum(n for name, n in self.by_module.items() if name in swapped) + others
        ) / self.total


class Counting:
    """Counts into ``tally``, a new one by default, while it is entered, in the thread that entered
    it. What no module of the model asks for is not counted.

    ``dry``: devices compute nothing meanwhile; torch multiplies in their place. ``running``:
    whether the model's forward pass has begun already.
    """

    def __init__(
        self,
        model: nn.Module,
        tally: Tally | None = None,
        *,
        dry: bool = False,
        running: bool = False,
    ):
        self.tally = Tally() if tally is None else tally
        self.dry = dry
        self._names = {id(module): name for name, module in model.named_modules()}
        self._path: list[nn.Module] = [model] * running
        self._silent = 0
        self._handles: list[Any] = []
        self._mode: Any = Dispatched(self)

    def __enter__(self) -> "Counting":
        hooks = nn.modules.module
        self._handles = [
            hooks.register_module_forward_pre_hook(self._begin),
            hooks.register_module_forward_hook(self._end, always_call=True),
        ]
        _thread.counting = self
        self._mode.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._mode.__exit__(*error)
        _thread.counting = None
        for handle in self._handles:
            handle.remove()

    def add_of_torch(self, count: int) -> None:
        """Count multiplications of torch."""
        if not self._silent:
            self._add(self.tally.elsewhere, count)

    def add_of_device(self, count: int) -> None:
        """Count multiplications of a device."""
        self._add(self.tally.on_device, count)

    @contextmanager
    def silence(self) -> Generator[None]:
        """Count nothing that torch does meanwhile."""
        self._silent += 1
        try:
            yield
        finally:
            self._silent -= 1

    def _add(self, counts: Counter[str], count: int) -> None:
        if self._path and not in_backward():
            counts[self._names[id(self._path[-1])]] += count

    def _begin(self, module: nn.Module, args: Any) -> None:
        if id(module) in self._names and _counting() is self:
            self._path.append(module)

    def _end(self, module: nn.Module, args: Any, result: Any) -> None:
        if self._path and self._path[-1] is module and _counting() is self:
            self._path.pop()


class Dispatched(TorchDispatchMode):
    """Sees every function of torch that is called."""

    supports_higher_order_operators = True

    def __init__(self, counting: Counting):
        super().__init__()
        self.counting = counting

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        formula = _formula(getattr(func, "_overloadpacket", func))
        if formula is None and isinstance(func, torch._ops.OpOverload):
            with self:  # as in inference mode, where torch has not taken it to pieces
                found = func.decompose(*args, **named)
            if found is not NotImplemented:
                return found
        found = func(*args, **named)
        if formula is not None:
            self.counting.add_of_torch(formula(*args, **named, out_val=found))
        return found


_thread = threading.local()


def _counting() -> Counting | None:
    return getattr(_thread, "counting", None)


@contextmanager
def on_device(count: int) -> Generator[bool]:
    """Note so many multiplications of a device, which are done within; whether torch is to do them,
    since nothing but counting is wanted."""
    counting = _counting()
    if counting is None:
        yield False
        return
    counting.add_of_device(count)
    with counting.silence():
        yield counting.dry


def is_counting() -> bool:
    """Whether multiplications are counted in this thread."""
    return _counting() is not None


def is_dry() -> bool:
    """Whether nothing but counting is wanted."""
    counting = _counting()
    return counting is not None and counting.dry


def count_pass(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tally:
    """Count one forward pass of these inputs, without gradients.

    Devices compute nothing, and keep their steps; buffers of the model and torch's generators are
    as before. The model's own errors pass through.
    """
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    cards = {tensor.device for tensor in model.parameters() if tensor.device.type == "cuda"}
    with torch.random.fork_rng(sorted(card.index for card in cards)), torch.no_grad():
        with Counting(model, dry=True) as counting:
            torch.func.functional_call(model, buffers, args, dict(kwargs))
    return counting.tally


def _formula(packet: Any) -> Callable[..., int] | None:
    """Multiplications of a function of torch, from its arguments and, as ``out_val``, its result;
    None if it has none that are counted."""
    if packet in OWN:
        return OWN[packet]
    operations: Any = flop_registry.get(packet)
    if operations is None:
        return None
    # Of torch: a multiplication and an addition each.
    return lambda *args, **kwargs: int(operations(*args, **kwargs)) // 2


def _first(a: Any, *_: Any, **__: Any) -> int:
    return a.numel()


def _second(_: Any, a: Any, *__: Any, **___: Any) -> int:
    return a.numel()


def _product(a: Any, b: Any, *_: Any, **__: Any) -> int:
    return a.numel() * b.shape[-1]


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
    if sequences.is_nested:
        lengths = [int(each.shape[0]) for each in sequences.unbind()]
    else:
        lengths = [int(sequences.shape[1])] * int(sequences.shape[0])
    return sum(length * (weights + 2 * length * width) for length in lengths)


def _recurrence(given: Any, *rest: Any, **_: Any) -> int:
    """Each weight once for every element of every sequence."""
    return prod(given.shape[:-1]) * _weights(rest[:4])


def _listed_recurrence(place: int) -> Callable[..., int]:
    """The same where the weights are a list, the argument number ``place``."""
    return lambda *args, **_: prod(args[0].shape[:-1]) * _weights(args[place])


OWN: dict[Any, Callable[..., int]] = {
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
