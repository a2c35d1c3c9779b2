"""Guess the meaning of a mistyped name, as the end of a message."""

import difflib
from collections.abc import Iterable

LIKE = 0.65
"""Least likeness of a mistyped name and the intended name. Equal names have a likeness of 1."""
MOST_MEANT = 2


def meant(given: object, known: Iterable[str]) -> str:
    """Return "; did you mean X?" with the known name that is most like ``given``, ignoring case.

    One or two known names that begin with ``given`` go first, joined by "or". The text is empty if
    no name is likely, or if several names are equally likely.
    """
    if not isinstance(given, str) or not given.strip():
        return ""
    text = given.strip().lower()
    names = {name.lower(): name for name in known}
    begin = [name for small, name in names.items() if small.startswith(text)]
    if text in names:
        found = [names[text]]
    elif 1 <= len(begin) <= MOST_MEANT:
        found = begin
    else:
        likeness = {each: difflib.SequenceMatcher(a=text, b=each).ratio() for each in names}
        most = max(likeness.values(), default=0)
        best = [names[each] for each, ratio in likeness.items() if ratio == most]
        found = best if len(best) == 1 and most >= LIKE else []
    return f"; did you mean {' or '.join(found)}?" if found else ""
