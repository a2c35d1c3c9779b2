"""Describe a mapped machine as a tree of components, with the resources of every component."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Counted = Callable[[str], Mapping[str, float]]
"""Function that returns the resources of a cell of a type."""


@dataclass(frozen=True, kw_only=True)
class Component:
    """All instances of a component in a single place: number of instances, resources, and parts.

    ``local``: amounts by resource, without the parts. ``total``: amounts with the parts. The
    amounts are sums over all instances.
    """

    name: str
    instances: int
    local: Mapping[str, float]
    parts: tuple["Component", ...]

    @property
    def total(self) -> dict[str, float]:
        sums: dict[str, float] = defaultdict(float)
        for each in (self.local, *(part.total for part in self.parts)):
            _add(sums, each)
        return dict(sums)

    def record(self, resources: Iterable[str]) -> dict[str, Any]:
        """Return the values for JSON: local and total amounts of ``resources``."""
        resources = tuple(resources)
        return {
            "component": self.name,
            "instances": self.instances,
            "local": amounts(self.local, resources),
            "total": amounts(self.total, resources),
            "parts": [part.record(resources) for part in self.parts],
        }

    def everywhere(self, name: str) -> "list[Component]":
        """Return all places of a component with this name, the component itself and below."""
        own = [self] if self.name == name else []
        return own + [each for part in self.parts for each in part.everywhere(name)]


def amounts(of: Mapping[str, float], resources: tuple[str, ...]) -> dict[str, float]:
    """Return the amounts of ``resources`` for JSON, rounded to a tenth."""
    rounded = {each: round(of.get(each, 0), 1) for each in resources}
    return {each: int(value) if value == int(value) else value for each, value in rounded.items()}


def from_modules(
    modules: Mapping[str, Mapping[str, int]], top: str, counted: Counted, *, prefix: str = ""
) -> Component:
    """Return the tree of a design that was mapped module by module. ``modules``: numbers of cells
    by type for every module; a cell may be an instance of another module. ``prefix``: prefix of
    module names that component names leave out."""

    def component(module: str, instances: int) -> Component:
        own: dict[str, float] = defaultdict(float)
        parts: list[Component] = []
        for kind, number in modules[module].items():
            if kind in modules:
                parts.append(component(kind, instances * number))
            else:
                _add(own, counted(kind), instances * number)
        return _component(module.removeprefix(prefix), instances, own, parts)

    return component(top, 1)


def from_cells(
    cells: Iterable[tuple[str, str]],
    scopes: Mapping[str, str],
    top: str,
    counted: Counted,
    *,
    prefix: str = "",
) -> Component:
    """Return the tree of a design that was mapped flat. ``cells``: names and types of the cells.
    ``scopes``: modules of all instances by path.

    A cell belongs to the innermost instance with a path that begins the cell's name. Yosys names a
    cell after a register or a signal nearby, mostly after the signal that the cell drives.
    """
    own: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for name, kind in cells:
        _add(own[scope_of(name, scopes)], counted(kind))
    inner: dict[str, list[str]] = defaultdict(list)
    for path in scopes:
        inner[scope_of(path.rpartition(".")[0], scopes)].append(path)

    def component(module: str, paths: list[str]) -> Component:
        mine: dict[str, float] = defaultdict(float)
        below: dict[str, list[str]] = defaultdict(list)
        for path in paths:
            _add(mine, own.get(path, {}))
            for part in inner[path]:
                below[scopes[part]].append(part)
        parts = [component(kind, places) for kind, places in below.items()]
        return _component(module.removeprefix(prefix), len(paths), mine, parts)

    return component(top, [""])


def scope_of(name: str, scopes: Mapping[str, str]) -> str:
    """Return the longest path of ``scopes`` that begins ``name``; "" is the path of the top."""
    while name and name not in scopes:
        name = name.rpartition(".")[0]
    return name


def _add(to: dict[str, float], each: Mapping[str, float], times: int = 1) -> None:
    for resource, number in each.items():
        to[resource] += number * times


def _component(
    name: str, instances: int, local: Mapping[str, float], parts: Iterable[Component]
) -> Component:
    """Return a component with parts ordered by total resources, the largest part first."""
    ordered = sorted(parts, key=lambda part: (-sum(part.total.values()), part.name))
    return Component(name=name, instances=instances, local=dict(local), parts=tuple(ordered))
