"""Which cases of a test with many are run always."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from enum import Enum

SHOWN = (int, str, Enum, type(None))
"""Of such parameters every value counts; of lists and tables their words and keys, such as formats,
and not their numbers, of which the largest cases have most."""


def sample(cases: Sequence[Mapping[str, object]], one_in: int) -> set[int]:
    """Numbers of one in so many cases, at least one: those first that show the most values of
    parameters that none before them shows, as far as that goes every value. The same ones in every
    run."""
    values = [_values(case) for case in cases]
    left, seen, chosen = list(range(len(cases))), set[tuple[str, Hashable]](), set[int]()
    for _ in range(-(-len(cases) // one_in)):
        best = max(left, key=lambda number: len(values[number] - seen))
        left.remove(best)
        chosen.add(best)
        seen |= values[best]
        if seen >= set().union(*values):
            seen = set()  # and once more
    return chosen


def _values(case: Mapping[str, object]) -> set[tuple[str, Hashable]]:
    found = {(name, value) for name, value in case.items() if isinstance(value, SHOWN)}
    return found | {(name, word) for name, value in case.items() for word in _words(value)}


def _words(value: object) -> Iterator[str]:
    """Of a list or a table, those of the ones in it too."""
    if isinstance(value, Mapping):
        value = [*value.items()]
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from (each,) if isinstance(each, str) else _words(each)
