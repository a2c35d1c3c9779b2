"""Count the multiplications of a forward pass, by the calling module.

The multiplications of matrix products, convolutions, attention and recurrent layers are counted. A
product of (M x K) by (K x N) counts as M K N. Multiplications of single elements, as in
normalisations, are not counted. The backward pass is not counted.
"""

# pyright: reportUnknownMemberType=false, reportUntypedBaseClass=false

import threading
import warnings
from collections import Counter
from collections.abc import Callable, Container, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from diastole.torch.formulas import formula_of, is_unknown
from diastole.torch.steps import in_backward

GLOBAL_HOOKS = r"Using `torch\.compile\(module\)` when there are global hooks"
"""Pattern of a torch warning about compiled modules. Nothing runs compiled while hooks count."""


@dataclass(kw_only=True, eq=False)
class Tally:
    """Counts of multiplications by name of the calling module, ``""`` for the model itself.

    ``on_device``: multiplications of devices of Diastole. ``elsewhere``: all remaining
    multiplications. ``unknown``: functions whose multiplications could not be counted.
    """

    on_device: Counter[str] = field(default_factory=lambda: Counter[str]())
    elsewhere: Counter[str] = field(default_factory=lambda: Counter[str]())
    unknown: set[str] = field(default_factory=lambda: set[str]())

    @property
    def total(self) -> int:
        """Number of counted multiplications."""
        return self.on_device.total() + self.elsewhere.total()

    @property
    def is_empty(self) -> bool:
        """True if nothing that multiplies was seen, for example with an empty batch."""
        return not self.total and not self.unknown

    @property
    def by_module(self) -> dict[str, int]:
        """All multiplications by name of the module: first modules with multiplications on devices,
        in the order of counting, then the remaining modules."""
        return dict(self.on_device + self.elsewhere)

    def share(self, swapped: Container[str]) -> float:
        """Return the share of devices, if a device does all multiplications of the ``swapped``
        modules."""
        layers = sum(n for name, n in self.by_module.items() if name in swapped)
        others = sum(n for name, n in self.on_device.items() if name not in swapped)
        return (layers + others) / self.total


class Counting:
    """Count multiplications into ``tally``, by default a new tally, while the object is entered.

    The count covers the thread that entered the object. Multiplications that no module of the model
    calls for are not counted. Nothing is compiled during the count. ``dry``: devices compute
    nothing during the count; torch multiplies in their place. ``running``: True if the forward pass
    of the model has already begun.
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
        self._entered = ExitStack()

    def __enter__(self) -> "Counting":
        hooks, entered = nn.modules.module, self._entered
        if hasattr(torch.compiler, "set_stance"):  # from torch 2.6 on
            entered.enter_context(torch.compiler.set_stance("force_eager"))
        entered.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message=GLOBAL_HOOKS)
        entered.callback(hooks.register_module_forward_pre_hook(self._begin).remove)
        last = hooks.register_module_forward_hook(self._end, always_call=True)
        entered.callback(last.remove)
        entered.enter_context(Dispatched(self))
        _thread.counting = self
        return self

    def __exit__(self, *error: Any) -> None:
        _thread.counting = None
        self._entered.close()

    def add_of_torch(self, count: int) -> None:
        """Count multiplications of torch."""
        if self._is_counted():
            self._add(self.tally.elsewhere, count)

    def add_unknown(self, function: Any) -> None:
        """Note a function whose multiplications cannot be counted."""
        if self._is_counted() and self._path:
            self.tally.unknown.add(str(getattr(function, "_overloadpacket", function)))

    def add_of_device(self, count: int) -> None:
        """Count multiplications of a device."""
        if not in_backward():
            self._add(self.tally.on_device, count)

    @contextmanager
    def silence(self) -> Generator[None]:
        """Suspend the count of torch's multiplications."""
        self._silent += 1
        try:
            yield
        finally:
            self._silent -= 1

    def _is_counted(self) -> bool:
        return not self._silent and not in_backward()

    def _add(self, counts: Counter[str], count: int) -> None:
        if self._path:
            counts[self._names[id(self._path[-1])]] += count

    def _begin(self, module: nn.Module, args: Any) -> None:
        if _counting() is self and id(module) in self._names:
            self._path.append(module)

    def _end(self, module: nn.Module, args: Any, result: Any) -> None:
        if self._path and self._path[-1] is module and _counting() is self:
            self._path.pop()


class Dispatched(TorchDispatchMode):
    """Dispatch mode that sees every called torch function."""

    supports_higher_order_operators = True

    def __init__(self, counting: Counting):
        super().__init__()
        self.counting = counting

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if any(each.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ for each in types):
            return NotImplemented  # wrapper tensors: functions of the inner tensors are seen
        named = dict(kwargs or {})
        formula = formula_of(func)
        if formula is None and _has_parts(func, args):
            with self:  # not yet decomposed below autograd and in inference mode
                result = func.decompose(*args, **named)
            if result is not NotImplemented:
                return result
        result = func(*args, **named)
        if formula is not None:
            self._count(func, lambda: formula(*args, **named, out_val=result))
        elif is_unknown(func):
            self.counting.add_unknown(func)
        return result

    def _count(self, function: Any, count: Callable[[], int]) -> None:
        """Add the count of a function. An error in the count must not end the user's pass."""
        try:
            self.counting.add_of_torch(count())
        except Exception:  # for example for a shape that the formula does not know
            self.counting.add_unknown(function)


def _has_parts(function: Any, args: Any) -> bool:
    """Return whether torch may decompose a function. Functions of nested tensors are never
    decomposed."""
    nested = any(isinstance(each, torch.Tensor) and each.is_nested for each in args)
    return isinstance(function, torch._ops.OpOverload) and not nested


_thread = threading.local()


def _counting() -> Counting | None:
    return getattr(_thread, "counting", None)


@contextmanager
def on_device(count: int) -> Generator[bool]:
    """Count multiplications of a device that run within the context. Yield True if torch must
    multiply instead of the device, because only counting is requested."""
    counting = _counting()
    if counting is None:
        yield False
        return
    counting.add_of_device(count)
    with counting.silence():
        yield counting.dry


def is_counting() -> bool:
    """Return whether multiplications are counted in the current thread."""
    return _counting() is not None


def is_dry() -> bool:
    """Return whether only counting is requested."""
    counting = _counting()
    return counting is not None and counting.dry


def count_pass(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tally:
    """Count a forward pass with the given inputs, without gradients.

    Devices compute nothing and keep their steps. Buffers of the model and torch's generators stay
    unchanged. Errors of the model are raised.
    """
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    cards = {tensor.device for tensor in model.parameters() if tensor.device.type == "cuda"}
    with torch.random.fork_rng(sorted(card.index for card in cards)), torch.no_grad():
        with Counting(model, dry=True) as counting:
            torch.func.functional_call(model, buffers, args, dict(kwargs))
    return counting.tally
