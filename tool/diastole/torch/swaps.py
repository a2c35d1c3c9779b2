"""Models whose layers are swapped for those of a device, and back."""

# pyright: reportUnknownMemberType=false

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import nn

from diastole.console import note
from diastole.devices import Formats
from diastole.torch.chosen_modules import KINDS, chosen_modules, named_module
from diastole.torch.coverage import FIRST_PASS, FirstPass, report
from diastole.torch.device_layers import DeviceLayer
from diastole.torch.exact import TorchGoldenDevice
from diastole.torch.exact_operands import TYPES
from diastole.torch.multiplications import count_pass
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
    """Swap the ``nn.Linear`` and ``nn.Conv2d`` of a model, in place, for layers of a device with
    the same parameters, and return the model.

    A line on standard error says how many layers are swapped, which part of the multiplications
    they have, and which layers are left; :func:`diastole.torch.report` has all of it. The
    multiplications are counted with ``example``, inputs of the model (a tensor, a tuple of
    arguments, or a mapping of them by name); without it in the first forward pass that
    ``torch.compile`` has not compiled, after which the line is said again.

    ``names``: patterns as of a shell, of what ``model.named_modules()`` calls the modules; a module
    stands for all layers within it. Patterns that begin with ``!`` leave layers out:
    ``["*", "!head"]``. ``formats``: of a numpy model that
    is made for it, with ``seed``; its exact products run on ``device``, the name of a device of
    torch (``"cpu"``). Or ``device``: one of Diastole, without ``formats``. Layers are numbered in
    the order of their names; one with two names is one layer. A model that is itself an
    ``nn.Linear`` or ``nn.Conv2d`` has no place to swap: the layer that is returned is the result.

    :func:`restore` undoes it. Left as they are: modules of a type derived from ``nn.Linear`` or
    ``nn.Conv2d``, whose owners may read the weights without calling them, as
    ``nn.MultiheadAttention`` does.

    ValueError, and nothing is swapped, where a pattern matches no layer, or one of them cannot be
    swapped; TypeError for another ``device``.
    """
    _require_module(model)
    tally = None if example is None else count_pass(model, *_arguments(example))
    model = place(model, formats=formats, names=names, device=device, seed=seed)
    forget(model)
    setattr(model, FIRST_PASS, FirstPass(model, tally))
    note(report(model).sentence_or("the first forward pass that is not compiled"))
    return model


def restore(model: Any) -> Any:
    """Put the layers back that :func:`convert` swapped, the very modules, with what training has
    made of their parameters; return the model.

    Layers that were made on a device become an ``nn.Linear`` or ``nn.Conv2d`` with their
    parameters. A model without such layers is returned as it is. ValueError, and nothing is put
    back, where a layer was parametrized since.
    """
    _require_module(model)
    modules = dict(model.named_modules(remove_duplicate=False))
    found = {name: each for name, each in modules.items() if isinstance(each, DeviceLayer)}
    for name, layer in found.items():
        if type(layer) not in KINDS.values():
            raise ValueError(
                f"{named_module(name)} must be a layer of diastole.torch, "
                f"not a {type(layer).__name__}, which is derived from one: "
                "torch.nn.utils.parametrize.remove_parametrizations undoes parametrizations"
            )
    for each in modules.values():
        forget(each)
    plain = {id(layer): layer.restored() for layer in found.values()}
    return _placed(model, {name: plain[id(layer)] for name, layer in found.items()})


def place(
    model: Any, *, formats: Formats | None, names: str | Sequence[str], device: Any, seed: int
) -> Any:
    """Swap layers as :func:`convert` does, without a word."""
    found = chosen_modules(model, names)
    _require_types(found)
    machine = _device(formats, device, seed)
    made: dict[int, nn.Module] = {}
    for module in found.values():
        if id(module) not in made:
            made[id(module)] = KINDS[type(module)].of(module, device=machine)
    return _placed(model, {name: made[id(module)] for name, module in found.items()})


def forget(model: nn.Module) -> None:
    """Count no first forward pass of this model."""
    first = cast(dict[str, Any], vars(model)).pop(FIRST_PASS, None)
    if isinstance(first, FirstPass):
        first.stop()


def _placed(model: nn.Module, modules: Mapping[str, nn.Module]) -> nn.Module:
    """Put other modules at these names of the model."""
    if "" in modules:
        return modules[""]
    for name, module in modules.items():
        path, _, last = name.rpartition(".")
        setattr(model.get_submodule(path), last, module)
    return model


def _require_module(model: Any) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")


def _require_types(found: Mapping[str, nn.Module]) -> None:
    for name, module in found.items():
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
        raise ValueError(f"formats must be absent: the device has its own, not {formats!r}")
    uses_of(device)
    return device
