"""Write the text of every error about a parameter: name, accepted values, refused value."""

import re
from collections.abc import Sequence
from enum import Enum
from math import inf, isfinite
from typing import TypeVar

T = TypeVar("T")
MAX_DIGITS = 40
"""Digits of the longest accepted number. Python itself refuses some thousands of digits, with an
error text of its own."""
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
MAX_TEXT = 60
"""Most characters of a refused value in a message."""


def excerpt(value: object) -> str:
    """Return the text of a value in a message: on one line, and not too long. An empty text is
    shown as two quotation marks."""
    return _shortened(value) or '""'


def quoted_excerpt(value: object) -> str:
    """Return the text of :func:`excerpt` between quotation marks."""
    return f'"{_shortened(value)}"'


def _shortened(value: object) -> str:
    try:
        text = value if isinstance(value, str) else repr(value)
    except ValueError:  # Python does not write integers of more than 4300 digits
        text = "a huge integer"
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."


def whole_number(text: str) -> int | None:
    """Return the number in a text of digits 0 to 9. None for any different text, and for more
    digits than :data:`MAX_DIGITS`."""
    whole = text.isascii() and text.isdecimal()
    return int(text) if whole and len(text) <= MAX_DIGITS else None


def signed_number(text: str) -> int | None:
    """Return the number of a text as in :func:`whole_number`, with an optional sign in front."""
    value = whole_number(text[1:] if text[:1] in ("+", "-") else text)
    return -value if value is not None and text.startswith("-") else value


def real_number(text: str) -> float | None:
    """Return the number in a text of digits 0 to 9, with an optional point and exponent. None for
    any different text, ``nan`` and ``inf`` included, and for a number beyond the range of
    float64."""
    value = float(text) if _REAL.fullmatch(text) else inf
    return value if isfinite(value) else None


def require_int(name: str, value: object, low: int, high: int) -> int:
    """Return ``value`` if it is an integer in ``low..high``, ``low`` and ``high`` included.

    A boolean is no integer. ValueError otherwise, for a wrong type too. So a caller who collects
    the errors of a whole file catches a single kind of exception.
    """
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return value
    accepted = f"an integer in {low}..{high}" if low < high else str(low)
    raise ValueError(f"{name} must be {accepted}, not {_quoted(value)}")


def require_choice(name: str, value: T, choices: Sequence[T]) -> T:
    """Return ``value`` if a member of ``choices`` has the same value and type. ValueError
    otherwise."""
    if any(type(value) is type(choice) and value == choice for choice in choices):
        return value
    accepted = ", ".join(_choice(choice) for choice in choices)
    one_of = "one of " if len(choices) > 1 else ""
    raise ValueError(f"{name} must be {one_of}{accepted}, not {_quoted(value)}")


def _choice(value: object) -> str:
    """Return the text of an accepted value; of a member of an enumeration, the name."""
    return value.name.lower() if isinstance(value, Enum) else str(value)


def _quoted(value: object) -> str:
    if isinstance(value, Enum):
        return _choice(value)
    return excerpt(repr(value) if isinstance(value, str) else value)
