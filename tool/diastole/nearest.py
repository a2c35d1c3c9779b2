"""Guess the meaning of a mistyped name, as the end of a message."""

import difflib
from collections.abc import Iterable

LIKE = 0.65
"""Least likeness of a mistyped name and the intended name. Equal names have a likeness of 1."""
MAX_SUGGESTED = 2


def suggestion(value: object, candidates: Iterable[str]) -> str:
    """Return "; did you mean X?" with the known name that is most like ``value``, ignoring case.

    One or two known names that begin with ``value`` go first, joined by "or". The text is empty if
    no name is likely, or if several names are equally likely.
    """
    if not isinstance(value, str) or not value.strip():
        return ""
    text = value.strip().lower()
    names = {name.lower(): name for name in candidates}
    begin = [name for small, name in names.items() if small.startswith(text)]
    if text in names:
        suggested = [names[text]]
    elif 1 <= len(begin) <= MAX_SUGGESTED:
        suggested = begin
    else:
        likeness = {each: difflib.SequenceMatcher(a=text, b=each).ratio() for each in names}
        maximum = max(likeness.values(), default=0)
        best = [names[each] for each, ratio in likeness.items() if ratio == maximum]
        suggested = best if len(best) == 1 and maximum >= LIKE else []
    return f"; did you mean {' or '.join(suggested)}?" if suggested else ""
