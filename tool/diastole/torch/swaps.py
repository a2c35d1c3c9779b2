"""Swap the layers of a model for layers of a device, and swap back."""

# pyright: reportUnknownMemberType=false

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import nn

from diastole.console import note
from diastole.devices import Formats
from diastole.torch.coverage import FIRST_PASS, FirstPass, report
from diastole.torch.device_layers import DeviceLayer
from diastole.torch.exact import TorchGoldenDevice
from diastole.torch.exact_operands import TYPES
from diastole.torch.multiplications import count_pass
from diastole.torch.select_modules import KINDS, named_module, select_modules
from diastole.torch.steps import uses_of
from diastole_sim.device.interface import DeviceProtocol


def convert(
    model: Any,
    *,
    formats: Formats | None = None,
    names: str | Sequence[str] = "*",
    device: Any = None,
    seed: int = 0,
    example: Any = None,
) -> Any:
    """Swap the ``nn.Linear`` and ``nn.Conv2d`` layers of a model, in place, for layers of a device
    that share the parameters, and return the model.

    A line on standard error gives the number of swapped layers, their share of the multiplications,
    and the layers that are not swapped. :func:`diastole.torch.report` gives the whole report.
    Multiplications are counted with ``example``, inputs of the model (a tensor, a tuple of
    arguments, or a mapping of arguments by name). Without ``example``, multiplications are counted
    in the first forward pass that ``torch.compile`` has not compiled, and the line is printed again
    after the pass.

    ``names``: shell patterns of the module names in ``model.named_modules()``. A module stands for
    all layers within the module. Patterns that begin with ``!`` leave layers out:
    ``["*", "!head"]``. ``formats``: formats of a numpy model that is created for the layers, with
    ``seed``. The exact products of the numpy model run on ``device``, the name of a torch device
    (``"cpu"``). Without ``formats``, ``device`` is a device of Diastole. Layers are numbered in the
    order of ``model.named_modules()``; a layer with two names is a single layer. A model that is
    itself an ``nn.Linear`` or ``nn.Conv2d`` has no place for a swap: the returned layer is the
    result.

    :func:`restore` undoes the swap. Modules of a type derived from ``nn.Linear`` or ``nn.Conv2d``
    are not swapped, because their owners may read the weights without a call, as
    ``nn.MultiheadAttention`` does.

    ValueError, without any swap, if a pattern matches no layer, or if a matching layer cannot be
    swapped. TypeError for a ``device`` of any other kind.
    """
    _require_module(model)
    tally = None if example is None else count_pass(model, *_arguments(example))
    model = place(model, formats=formats, names=names, device=device, seed=seed)
    forget(model)
    setattr(model, FIRST_PASS, FirstPass(model, tally))
    note(report(model).sentence_or("the first forward pass that is not compiled"))
    return model


def restore(model: Any) -> Any:
    """Put back the layers that :func:`convert` swapped, and return the model. The layers are the
    original modules, with the trained parameters.

    Layers that were created on a device become an ``nn.Linear`` or ``nn.Conv2d`` with the trained
    parameters. A model without device layers is returned unchanged. ValueError, without any change,
    if a layer was parametrized after the swap.
    """
    _require_module(model)
    modules = dict(model.named_modules(remove_duplicate=False))
    layers = {name: each for name, each in modules.items() if isinstance(each, DeviceLayer)}
    for name, layer in layers.items():
        if type(layer) not in KINDS.values():
            raise ValueError(
                f"{named_module(name)} must be a layer of diastole.torch, "
                f"not a {type(layer).__name__}, which is derived from one: "
                "torch.nn.utils.parametrize.remove_parametrizations undoes parametrizations"
            )
    for each in modules.values():
        forget(each)
    plain = {id(layer): layer.restored() for layer in layers.values()}
    return _placed(model, {name: plain[id(layer)] for name, layer in layers.items()})


def place(
    model: Any, *, formats: Formats | None, names: str | Sequence[str], device: Any, seed: int
) -> Any:
    """Swap layers as :func:`convert` does, without a message."""
    chosen = select_modules(model, names)
    _require_types(chosen)
    machine = _device(formats, device, seed)
    made: dict[int, nn.Module] = {}
    for module in chosen.values():
        if id(module) not in made:
            made[id(module)] = KINDS[type(module)].of(module, device=machine)
    return _placed(model, {name: made[id(module)] for name, module in chosen.items()})


def forget(model: nn.Module) -> None:
    """Cancel the count of the first forward pass of a model."""
    first = cast(dict[str, Any], vars(model)).pop(FIRST_PASS, None)
    if isinstance(first, FirstPass):
        first.stop()


def _placed(model: nn.Module, modules: Mapping[str, nn.Module]) -> nn.Module:
    """Put modules at these names of the model."""
    if "" in modules:
        return modules[""]
    for name, module in modules.items():
        path, _, last = name.rpartition(".")
        setattr(model.get_submodule(path), last, module)
    return model


def _require_module(model: Any) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")


def _require_types(modules: Mapping[str, nn.Module]) -> None:
    for name, module in modules.items():
        wrong = {p.dtype for p in module.parameters()} - set(TYPES)
        if wrong:
            raise ValueError(
                f"{named_module(name)} must hold float32, bfloat16 or float16, "
                f"not {', '.join(sorted(map(str, wrong)))}"
            )


def _arguments(example: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    if isinstance(example, Mapping):
        return (), cast(Mapping[str, Any], example)
    return (cast(tuple[Any, ...], example) if isinstance(example, tuple) else (example,)), {}


def _device(formats: Formats | None, device: Any, seed: int) -> DeviceProtocol:
    if device is None or isinstance(device, str | torch.device):
        if formats is None:
            raise ValueError("formats must be given, or a device of Diastole")
        where = "cpu" if device is None else device
        return TorchGoldenDevice(formats=formats, seed=seed, device=where)
    if formats is not None:
        raise ValueError(
            f"formats must be left out, not {formats!r}: the device already has formats"
        )
    uses_of(device)
    return device
