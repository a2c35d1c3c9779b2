"""Which cases of a test with many are run always."""

from collections.abc import Hashable, Mapping, Sequence

SHOWN = (int, str, type(None))
"""Of such parameters every value counts; others are of one case each as a rule."""


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
    return {(name, value) for name, value in case.items() if isinstance(value, SHOWN)}
