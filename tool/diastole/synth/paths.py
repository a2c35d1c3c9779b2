"""Read the longest path from a report of place and route, in names of components and signals."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from diastole.synth.level_harness import MACHINE
from diastole.synth.tree import scope_of

# Our signals have small letters. Yosys names a cell after a signal and appends types and ports.
_MADE_BY_TOOLS = re.compile(r"(_[A-Z][A-Z0-9]|\$).*")
_UNNAMED = re.compile(r"_\d+_|\d*")
_TIMES = {"logic": "logic_ns", "clk-to-q": "logic_ns", "setup": "logic_ns", "routing": "routing_ns"}


@dataclass(frozen=True, kw_only=True)
class PathPoint:
    """Point of a path. ``component``: names of the instances that lead to the component, "" for the
    top. ``signal``: a signal of the component, "" without a name."""

    component: str
    signal: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.component or "top", self.signal) if part)


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Part of a path within a single component: number of cells, delay in the cells and on the way
    to the cells."""

    place: PathPoint
    cells: int
    logic_ns: float
    routing_ns: float


@dataclass(frozen=True, kw_only=True)
class LongestPath:
    """Longest path from a register to a register."""

    begin: PathPoint
    end: PathPoint
    stretches: tuple[Stretch, ...]

    @property
    def logic_ns(self) -> float:
        return sum(each.logic_ns for each in self.stretches)

    @property
    def routing_ns(self) -> float:
        return sum(each.routing_ns for each in self.stretches)

    @property
    def ns(self) -> float:
        return self.logic_ns + self.routing_ns

    def record(self) -> dict[str, Any]:
        """Return the values for JSON."""
        stretches = [
            {**asdict(each.place), "cells": each.cells}
            | {"logic_ns": round(each.logic_ns, 3), "routing_ns": round(each.routing_ns, 3)}
            for each in self.stretches
        ]
        return {
            "ns": round(self.ns, 3),
            "logic_ns": round(self.logic_ns, 3),
            "routing_ns": round(self.routing_ns, 3),
            "from": asdict(self.begin),
            "to": asdict(self.end),
            "stretches": stretches,
        }


def place_of(name: str, scopes: Mapping[str, str]) -> PathPoint:
    """Return the component and the signal of a cell or a net of a flat design, derived from its
    name: ``core.unit.level_LUT4_Z_D[3]`` is ``level[3]`` of ``core.unit``. ``scopes``: paths of all
    instances."""
    scope = scope_of(name, scopes)
    rest = name.removeprefix(scope).removeprefix(".")
    bit = re.search(r"\[\d+\]$", rest)
    own = _MADE_BY_TOOLS.sub("", rest)
    signal = own.split(".")[0]
    if _UNNAMED.fullmatch(signal):
        signal = ""
    if bit and own == rest:
        signal = signal.removesuffix(bit.group()) + bit.group()
    if scope == MACHINE or scope.startswith(f"{MACHINE}."):
        scope = scope.removeprefix(MACHINE).removeprefix(".")
    elif MACHINE in scopes and not scope:
        scope = "harness"
    return PathPoint(component=scope, signal=signal)


def longest_path(
    report: Sequence[Mapping[str, Any]], scopes: Mapping[str, str]
) -> LongestPath | None:
    """Return the longest of the paths between registers in ``critical_paths`` of a report; None
    without a path between registers."""
    clocked = [path["path"] for path in report if _within_clock(path) and path["path"]]
    if not clocked:
        return None
    steps = max(clocked, key=lambda path: sum(step["delay"] for step in path))
    nets = [step["net"] for step in steps if step.get("net")]
    first, last = steps[0]["from"]["cell"], steps[-1]["to"]["cell"]
    begin, named = place_of(first, scopes), place_of(nets[0] if nets else first, scopes)
    return LongestPath(
        begin=named if named.component == begin.component and named.signal else begin,
        end=place_of(last, scopes),
        stretches=tuple(_stretches(steps, scopes)),
    )


def _within_clock(path: Mapping[str, Any]) -> bool:
    return "<async>" not in (path["from"], path["to"])


def _stretches(steps: Sequence[Mapping[str, Any]], scopes: Mapping[str, str]) -> Iterator[Stretch]:
    """Join consecutive steps in a component to a stretch. The stretch is named after the last
    signal on the way that has a name."""
    now: list[Mapping[str, Any]] = []
    for step in steps:
        component = place_of(step["to"]["cell"], scopes).component
        if now and component != place_of(now[-1]["to"]["cell"], scopes).component:
            yield _stretch(now, scopes)
            now = []
        now.append(step)
    yield _stretch(now, scopes)


def _stretch(steps: Sequence[Mapping[str, Any]], scopes: Mapping[str, str]) -> Stretch:
    delays = {"logic_ns": 0.0, "routing_ns": 0.0}
    for step in steps:
        delays[_TIMES.get(step["type"], "logic_ns")] += step["delay"]
    places = [place_of(step["to"]["cell"], scopes) for step in steps]
    return Stretch(
        place=next((place for place in reversed(places) if place.signal), places[-1]),
        cells=len({step["to"]["cell"] for step in steps}),
        **delays,
    )
