"""The one place that words an error about a parameter: its name, what is accepted, what came."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def require_int(name: str, value: object, low: int, high: int) -> int:
    """Return ``value`` if it is an integer in ``low..high``, both included.

    Booleans are no integers here. ValueError otherwise, for a wrong type too, so that a caller who
    collects the errors of a whole file has one exception to catch.
    """
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return value
    raise ValueError(f"{name} must be an integer in {low}..{high}, not {value!r}")


def require_choice(name: str, value: T, choices: Sequence[T]) -> T:
    """Return ``value`` if it equals one of ``choices`` and has its type; ValueError otherwise."""
    if any(type(value) is type(choice) and value == choice for choice in choices):
        return value
    accepted = ", ".join(str(choice) for choice in choices)
    raise ValueError(f"{name} must be one of {accepted}, not {value!r}")
