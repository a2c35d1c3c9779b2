"""A figure is a function that measures a number, with what is asked of the number."""

import functools
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True, kw_only=True)
class Row:
    """A measured number in words; ``met``: None where nothing is asked."""

    what: str
    target: str
    measured: str
    met: bool | None


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Figure that a function measures, with a goal. ``bound``: the goal by the values of the
    parameters ``names``."""

    what: str
    form: str
    kind: str
    bound: Any
    within: float
    names: tuple[str, ...]

    def title(self, values: Mapping[str, Any]) -> str:
        return self.what.format(**values)

    def bound_of(self, values: Mapping[str, Any]) -> float | None:
        key = tuple(values[name] for name in self.names)
        return self.bound[key[0] if len(key) == 1 else key] if key else self.bound

    def target(self, values: Mapping[str, Any]) -> str:
        """Return the bound in words, nothing where there is none."""
        bound = self.bound_of(values)
        if bound is None:
            return ""
        words = self.form.format(bound)
        if self.kind == "near":
            return f"{words} within {self.form.format(self.within)}"
        return f"{self.kind} {words}"

    def rows(self, values: Mapping[str, Any], numbers: Any) -> Iterable[Row]:
        """Yield a row for each number, as soon as the number is measured."""
        bound, title = self.bound_of(values), self.title(values)
        for label, value in [("", numbers)] if isinstance(numbers, int | float) else numbers:
            comparison = {
                "at least": lambda value=value: value >= bound,
                "at most": lambda value=value: value <= bound,
                "near": lambda value=value: abs(value - bound) <= self.within,
            }[self.kind]
            yield Row(
                what=f"{title}: {label}" if label else title,
                target=self.target(values),
                measured=self.form.format(value),
                met=None if bound is None else bool(comparison()),
            )


def figure(what, *, form="{:.2%}", at_least=None, at_most=None, near=None, within=0.0):
    """Make a test of pytest from a function that measures a number, or that yields (label, number)
    for several numbers of which the same is asked.

    ``what`` has the function's parameters in braces. ``at_least``, ``at_most`` or ``near`` is the
    bound; where it is a mapping, by values of the function's first parameters, the function is
    called for each of them, and None asks nothing. ``form`` writes the numbers, with their unit.
    """
    bounds = {"at least": at_least, "at most": at_most, "near": near}
    stated = {kind: bound for kind, bound in bounds.items() if bound is not None}
    ((kind, bound),) = stated.items() or [("at least", None)]

    def decorate(measure):
        names, function = (), functools.wraps(measure)(lambda **arguments: measure(**arguments))
        if isinstance(bound, Mapping):
            first = next(iter(bound))
            count = len(first) if isinstance(first, tuple) else 1
            names = tuple(inspect.signature(measure).parameters)[:count]
            function = pytest.mark.parametrize(",".join(names), list(bound))(function)
        function.figure = Figure(
            what=what, form=form, kind=kind, bound=bound, within=within, names=names
        )
        function.__test__ = True  # for pytest, whatever the name
        return function

    return decorate


def shown(*cases):
    """Return bounds by which a figure is measured for each case, and nothing is asked."""
    return dict.fromkeys(cases)
