"""What a mistyped name was meant to be, as the end of a message."""

import difflib
from collections.abc import Iterable

LIKE = 0.65
"""Of two names, from which on one may be a slip of the other; 1 where they are the same."""
MOST_MEANT = 2


def meant(given: object, known: Iterable[str]) -> str:
    """Return "; did you mean X?" with the known name that is most like ``given``, in small letters
    or large ones, or with up to two that begin so; empty where several are as likely, or none."""
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
