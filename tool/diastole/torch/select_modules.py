"""Choose layers of a model by patterns of names."""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import Any, cast

from torch import nn

from diastole.torch.device_layers import Conv2d, DeviceLayer, Linear

KINDS: Mapping[Any, Any] = {nn.Linear: Linear, nn.Conv2d: Conv2d}
"""Swapped types, with their replacements. Types derived from the swapped types are not swapped:
derived types may compute anything, and their owners may read the weights without a call, as
``nn.MultiheadAttention`` does."""
EXCLUDES = "!"
MAX_LISTED = 10
"""Number of names in a message."""


def select_modules(model: nn.Module, names: str | Sequence[str]) -> dict[str, nn.Module]:
    """Return the modules to swap by all names of the modules, in the order of the model.

    ``names``: shell patterns of module names. A module stands for everything within the module. A
    pattern that begins with ``!`` leaves out the matches, in any position of the list. If all
    patterns begin with ``!``, the remaining modules are chosen. ValueError if a pattern matches
    nothing, or if nothing is left.
    """
    patterns = _patterns(names)
    modules = dict(model.named_modules(remove_duplicate=False))
    plain = [name for name, module in modules.items() if type(module) in KINDS]
    leaves = [name for name, module in modules.items() if not list(module.children())]
    included = [pattern for pattern in patterns if not pattern.startswith(EXCLUDES)]
    out = [pattern.removeprefix(EXCLUDES) for pattern in patterns if pattern not in included]
    for pattern in included or ["*"]:
        if not matching(plain, [pattern]):
            raise ValueError(_nothing(pattern, pattern, modules))
    for pattern in out:
        if not matching(leaves, [pattern]):
            raise ValueError(_nothing(EXCLUDES + pattern, pattern, modules))
    # A module with two names is left out if one of the names is left out.
    excluded = {id(modules[name]) for name in matching(leaves, out)}
    candidates = {name: modules[name] for name in matching(plain, included or ["*"])}
    chosen = {name: module for name, module in candidates.items() if id(module) not in excluded}
    if not chosen:
        raise ValueError(f"names leave nothing to swap: {', '.join(patterns)}")
    return chosen


def matching(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Return the names of modules that a pattern matches, and the names of modules within a matched
    module."""
    return [
        name
        for name in names
        if any(fnmatchcase(path, pattern) for path in _paths(name) for pattern in patterns)
    ]


def _paths(name: str) -> list[str]:
    """Return the names of the enclosing modules and of the module: "a", "a.b", "a.b.c"."""
    return list(accumulate(name.split("."), "{}.{}".format))


def _patterns(names: Any) -> list[str]:
    """Return the list of patterns. TypeError for anything but patterns, ValueError for no
    pattern."""
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
    """Return the name of a module for a message."""
    return name or "the model itself"


def few_names(names: Sequence[str]) -> str:
    """Return some names for a message, and the number of the remaining names."""
    more = len(names) - MAX_LISTED
    return ", ".join(names[:MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def kind_of(module: nn.Module) -> str:
    """Return the type of a module for a message."""
    return f"a {type(module).__name__}{' of diastole.torch' * isinstance(module, DeviceLayer)}"


def _nothing(argument: str, pattern: str, modules: Mapping[str, nn.Module]) -> str:
    """Return a message for a pattern that matches no layer, with the modules that are present."""
    start = f"names: {argument!r} matches no nn.Linear and no nn.Conv2d"
    matches = [name for name in matching(modules, [pattern]) if name]
    if matches:
        layers = (nn.Linear, nn.Conv2d)
        first = sorted(matches, key=lambda name: not isinstance(modules[name], layers))[:3]
        return f"{start}, but {', '.join(f'{name}, {kind_of(modules[name])}' for name in first)}"
    plain = [named_module(name) for name, module in modules.items() if type(module) in KINDS]
    return f"{start}; there is {few_names(plain) or 'none'}"
