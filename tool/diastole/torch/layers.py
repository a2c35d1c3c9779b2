"""``nn.Linear`` on a device, and models whose layers are swapped for it."""

# pyright: reportUnknownMemberType=false

import copy
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, cast

import torch
from torch import nn

from diastole.devices import Formats
from diastole.torch.exact import TorchGoldenDevice
from diastole.torch.products import layer_tags, matmul
from diastole.torch.steps import Steps, uses_of
from diastole_sim.device.interface import DeviceProtocol

COPIED = (dict, OrderedDict, set)
"""What a module has of its own; the parameters in them are shared."""


class Machine:
    """A device, which copies of a model share as the model's layers do."""

    def __init__(self, device: DeviceProtocol):
        self.device = device

    def __deepcopy__(self, memo: Any) -> "Machine":
        return self


def watched(module: nn.Module, given: Any) -> None:
    """A hook that does nothing. ``nn.TransformerEncoderLayer`` reads the weights of its layers, and
    does not call them, where gradients are off and none of its modules has a hook."""


class Linear(nn.Linear):
    """``nn.Linear`` whose product, and gradients, are those of a device.

    ``device``: of Diastole, not of torch. ``number``: of its tags, by default the next of the
    device's layers; ``step``: see :class:`diastole.torch.Steps`. The bias is added in float32.
    Parameters are those of ``nn.Linear``: W is the transpose of ``weight``.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        device: DeviceProtocol,
        number: int | None = None,
    ):
        super().__init__(in_features, out_features, bias)
        self._place(device, number)

    @classmethod
    def of(
        cls, linear: nn.Linear, *, device: DeviceProtocol, number: int | None = None
    ) -> "Linear":
        """A layer with the parameters, the hooks and the mode of another one."""
        own = cls.__new__(cls)
        held = cast(dict[str, Any], linear.__dict__)
        for name, value in held.items():
            own.__dict__[name] = copy.copy(value) if type(value) in COPIED else value
        own._place(device, number)
        return own

    def _place(self, device: DeviceProtocol, number: int | None) -> None:
        uses = uses_of(device)
        self.machine = Machine(device)
        self.number = uses.number() if number is None else number
        layer_tags(self.number)
        self.register_forward_pre_hook(watched)

    @property
    def device(self) -> DeviceProtocol:
        """That of Diastole."""
        return self.machine.device

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """``input`` (..., in_features) to (..., out_features), as :func:`matmul`."""
        tags = layer_tags(self.number)
        y = matmul(input, self.weight.t(), device=self.machine.device, tags=tags)
        bias: Any = self.bias
        return y if bias is None else y + bias

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, number={self.number}"


@dataclass(frozen=True, kw_only=True)
class Swapped:
    """What :func:`convert` swapped: ``layers``, the number of each by its name; ``skipped``, why
    others that the names match were left; ``device``, and its ``steps``."""

    device: DeviceProtocol
    layers: Mapping[str, int]
    skipped: Mapping[str, str]
    steps: Steps

    def __str__(self) -> str:
        lines = [f"{name}: swapped, number {number}" for name, number in self.layers.items()]
        return "\n".join([*lines, *(f"{name}: {why}" for name, why in self.skipped.items())])


def convert(
    model: Any,
    *,
    formats: Formats | None = None,
    names: str | Sequence[str] = "*",
    device: Any = None,
    seed: int = 0,
) -> Swapped:
    """Swap the ``nn.Linear`` of a model, in place, for layers with the same parameters.

    ``names``: patterns as of a shell, of what ``model.named_modules()`` calls them. ``formats``: of
    a numpy model that is made for it, with ``seed``; its exact products run on ``device``, the name
    of a device of torch (``"cpu"``). Or ``device``: one of Diastole, without ``formats``. Layers
    are numbered in the order of their names; one with two names is one layer.

    Left as they are: modules of a type derived from ``nn.Linear``, whose owners may read the
    weights without calling them, as ``nn.MultiheadAttention`` does.

    ValueError, and nothing is swapped, where a pattern matches no ``nn.Linear``, or one of them
    cannot be swapped; TypeError for another ``device``.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    if type(model) is nn.Linear:
        raise ValueError("model is a Linear itself, which has no place to swap: Linear.of(model)")
    patterns = [names] if isinstance(names, str) else list(names)
    found, skipped = _matches(model, patterns)
    machine = _device(formats, device, seed)
    made: dict[int, Linear] = {}
    layers: dict[str, int] = {}
    for name, module in found.items():
        if id(module) not in made:
            made[id(module)] = Linear.of(module, device=machine)
        own = made[id(module)]
        layers[name] = own.number
        path, _, last = name.rpartition(".")
        setattr(model.get_submodule(path), last, own)
    steps = uses_of(machine).steps
    return Swapped(device=machine, layers=layers, skipped=skipped, steps=steps)


def _matches(model: nn.Module, patterns: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The modules to swap by name, and why others of these names stay."""
    found: dict[str, Any] = {}
    skipped: dict[str, str] = {}
    modules = dict(model.named_modules(remove_duplicate=False))
    for pattern in patterns:
        matching = [name for name in modules if fnmatchcase(name, pattern)]
        linear = [name for name in matching if type(modules[name]) is nn.Linear]
        for name in matching:
            if isinstance(modules[name], nn.Linear) and name not in linear:
                skipped[name] = f"left, it is {_kind(modules[name])}"
        if not linear:
            raise ValueError(_nothing(pattern, modules, [name for name in matching if name]))
        found |= {name: modules[name] for name in linear}
    for name, module in found.items():
        wrong = {p.dtype for p in module.parameters()} - {torch.float32}
        if wrong:
            raise ValueError(f"{name} must hold float32, not {', '.join(map(str, wrong))}")
    return {name: found[name] for name in modules if name in found}, skipped


def _nothing(pattern: str, modules: Mapping[str, nn.Module], matching: Sequence[str]) -> str:
    """That there is nothing to swap, with what there is."""
    if matching:
        few = sorted(matching, key=lambda name: not isinstance(modules[name], nn.Linear))[:3]
        shown = ", ".join(f"{name}, {_kind(modules[name])}" for name in few)
        return f"names: {pattern!r} matches no nn.Linear, but {shown}"
    linear = [name for name, module in modules.items() if type(module) is nn.Linear]
    return f"names: {pattern!r} matches no nn.Linear; there is {', '.join(linear) or 'none'}"


def _kind(module: nn.Module) -> str:
    return f"a {type(module).__name__}{' of diastole.torch' * isinstance(module, Linear)}"


def _device(formats: Formats | None, device: Any, seed: int) -> DeviceProtocol:
    if device is None or isinstance(device, str | torch.device):
        if formats is None:
            raise ValueError("formats must be given, or a device of Diastole")
        where = "cpu" if device is None else device
        return TorchGoldenDevice(formats=formats, seed=seed, device=where)
    if formats is not None:
        raise ValueError(f"formats must be absent: the device has its own, not {formats!r}")
    uses_of(device)
    return device
