"""Describe states of the model's units, for the comparison with earlier states."""

from collections.abc import Iterable
from typing import NamedTuple


class Moment(NamedTuple):
    """State of a unit at one time: ``counts``, and ``times`` in cycles from now on.

    Two moments with the same counts and times have the same future, only shifted in time.
    """

    counts: tuple[int, ...]
    times: tuple[int, ...]

    def near(self, other: "Moment", slack: int) -> bool:
        """Return whether counts are equal and no time differs by more than ``slack`` cycles."""
        if self.counts != other.counts or len(self.times) != len(other.times):
            return False
        if not slack:
            return self.times == other.times
        return all(-slack <= a - b <= slack for a, b in zip(self.times, other.times, strict=True))


def combined(moments: Iterable[Moment]) -> Moment:
    """Return the moment of several units."""
    counts: list[int] = []
    times: list[int] = []
    for moment in moments:
        counts += moment.counts
        times += moment.times
    return Moment(tuple(counts), tuple(times))


def since(now: int, oldest: int, times: Iterable[int]) -> tuple[int, ...]:
    """Return times counted from ``now``. Times before ``oldest``, on which nothing depends, count
    as ``oldest``."""
    least = oldest - now
    return tuple([time - now if time > oldest else least for time in times])
