"""Patterns that choose layers of a model by their names."""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import Any, cast

from torch import nn

from diastole.torch.device_layers import Conv2d, DeviceLayer, Linear

KINDS: Mapping[Any, Any] = {nn.Linear: Linear, nn.Conv2d: Conv2d}
"""What is swapped, and for what. Types derived from these are left: they may compute anything, and
their owners may read the weights without calling them, as ``nn.MultiheadAttention`` does."""
EXCLUDES = "!"
SHOWN = 10
"""Names in a message."""


def chosen_modules(model: nn.Module, names: str | Sequence[str]) -> dict[str, nn.Module]:
    """Select the modules to swap, by all of their names, in the model's order.

    ``names``: patterns as of a shell, of modules; a module stands for all that is within it. Those
    that begin with ``!`` leave out what they match, wherever they stand; where there are no others,
    all others are meant. ValueError where a pattern matches nothing, or where nothing is left.
    """
    patterns = _patterns(names)
    modules = dict(model.named_modules(remove_duplicate=False))
    plain = [name for name, module in modules.items() if type(module) in KINDS]
    leaves = [name for name, module in modules.items() if not list(module.children())]
    wanted = [pattern for pattern in patterns if not pattern.startswith(EXCLUDES)]
    out = [pattern.removeprefix(EXCLUDES) for pattern in patterns if pattern not in wanted]
    for pattern in wanted or ["*"]:
        if not matching(plain, [pattern]):
            raise ValueError(_nothing(pattern, pattern, modules))
    for pattern in out:
        if not matching(leaves, [pattern]):
            raise ValueError(_nothing(EXCLUDES + pattern, pattern, modules))
    # A module with two names is left where one of the names is.
    held = {id(modules[name]) for name in matching(leaves, out)}
    found = {name: modules[name] for name in matching(plain, wanted or ["*"])}
    kept = {name: module for name, module in found.items() if id(module) not in held}
    if not kept:
        raise ValueError(f"names leave nothing to swap: {', '.join(patterns)}")
    return kept


def matching(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Select the names of modules that a pattern matches, or that are within a module that a
    pattern matches."""
    return [
        name
        for name in names
        if any(fnmatchcase(path, pattern) for path in _paths(name) for pattern in patterns)
    ]


def _paths(name: str) -> list[str]:
    """List the names of a module and of the modules that it is within: "a", "a.b", "a.b.c"."""
    return list(accumulate(name.split("."), "{}.{}".format))


def _patterns(names: Any) -> list[str]:
    """List the patterns, one or more."""
    listed = isinstance(names, Iterable) and not isinstance(names, str)
    patterns: list[Any] = list(cast(Iterable[Any], names)) if listed else [names]
    if not all(isinstance(pattern, str) for pattern in patterns):
        raise TypeError(
            f"names must be a pattern, as '*', or a list of patterns, not {names!r:.60}"
        )
    if not patterns:
        raise ValueError("names must have a pattern or more, as '*', not none")
    return patterns


def named_module(name: str) -> str:
    """Name a module in a message."""
    return name or "the model itself"


def few_names(names: Sequence[str]) -> str:
    """List some names for a message, and say how many more there are."""
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def kind_of(module: nn.Module) -> str:
    """Name the type of a module in a message."""
    return f"a {type(module).__name__}{' of diastole.torch' * isinstance(module, DeviceLayer)}"


def _nothing(said: str, pattern: str, modules: Mapping[str, nn.Module]) -> str:
    """Say that a pattern matches no layer, and what there is."""
    start = f"names: {said!r} matches no nn.Linear and no nn.Conv2d"
    found = [name for name in matching(modules, [pattern]) if name]
    if found:
        layers = (nn.Linear, nn.Conv2d)
        first = sorted(found, key=lambda name: not isinstance(modules[name], layers))[:3]
        return f"{start}, but {', '.join(f'{name}, {kind_of(modules[name])}' for name in first)}"
    plain = [named_module(name) for name, module in modules.items() if type(module) in KINDS]
    return f"{start}; there is {few_names(plain) or 'none'}"
