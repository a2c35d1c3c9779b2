"""Model the lanes that convert sums to floats, in time: a word, or a part of a word, per cycle,
columns before rows."""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from diastole_sim.perf.moments import Moment, combined, since
from diastole_sim.spec.integers import ceil_div
from diastole_sim.spec.sizes.queues import FLOAT_WORDS

LATENCY = 7
"""Cycles from the read of a word of rows, or of the word's last part, to the first beat."""
COLUMN_LATENCY = 5
"""Cycles from the read of a column to the memory that transposes."""


class _Row(NamedTuple):
    """Words that leave a queue: number of words before, number of words, first cycle, and number of
    cycles."""

    before: int
    words: int
    first: int
    cycles: int

    @property
    def ends(self) -> int:
        """Number of the word behind the last word."""
        return self.before + self.words

    def left(self, number: int) -> int:
        """Return when word ``number`` has left."""
        return self.first + ceil_div((number - self.before + 1) * self.cycles, self.words)


@dataclass
class Departures:
    """Times at which the words of a queue leave, row by row."""

    rows: deque[_Row] = field(default_factory=deque)

    def add(self, before: int, words: int, first: int, cycles: int) -> None:
        """Add ``words`` words behind ``before`` words, which leave from ``first`` on and in
        ``cycles`` cycles."""
        self.rows.append(_Row(before, words, first, cycles))

    def left(self, number: int) -> int:
        """Return when word ``number``, counted from 0, has left. No later call may ask for an
        earlier word."""
        while self.rows[0].ends <= number:
            self.rows.popleft()
        return self.rows[0].left(number)

    def departure(self, number: int) -> int:
        """Return when word ``number`` has left. Later calls may ask for any word."""
        return next(row for row in self.rows if number < row.ends).left(number)

    def remaining(self, words: int, end: int) -> Iterator[tuple[int, ...]]:
        """Yield the rows that leave, with words counted from ``words`` and cycles from ``end``."""
        for row in self.rows:
            yield row.before - words, row.first - end, row.words, row.cycles

    def moment(self, now: int, oldest: int, words: int) -> Moment:
        """Return which words leave when, counted from ``words`` on."""
        counts = [number for row in self.rows for number in (row.before - words, row.words)]
        times = [time for row in self.rows for time in (row.first, row.first + row.cycles)]
        return Moment(tuple(counts), since(now, oldest, times))

    def later(self, words: int, cycles: int) -> None:
        """Shift the words that have not left by ``words`` words and ``cycles`` cycles."""
        self.rows = deque(
            row._replace(before=row.before + words, first=row.first + cycles) for row in self.rows
        )


@dataclass
class Queue:
    """Queue for the words of a direction between the lanes and the rows."""

    read: int = 0  # words read so far
    scheduled: int = 0  # number of words with a known time of leaving
    free: int = 0  # when the next word can be read
    leaving: Departures = field(default_factory=Departures)

    def free_from(self, number: int) -> int:
        """Return when the queue has space for word ``number``, as far as the times of leaving are
        known."""
        needed = min(number - FLOAT_WORDS, self.scheduled - 1)
        return self.leaving.left(needed) if needed >= 0 else 0

    def read_with_pauses(
        self, words: int, begin: int, cycles: int, pauses: Iterable[tuple[int, int]]
    ) -> int:
        """Return when the last of ``words`` words is read, in at least ``cycles`` cycles from
        ``begin`` on. No word is read in a pause, from its first cycle until its second. Return 0 if
        no pause comes before the last word."""
        before = last = 0
        for start, end in pauses:

            def read(number: int, before: int = before, begin: int = begin) -> int:
                needed = min(self.read + number - FLOAT_WORDS, self.scheduled - 1)
                space_cycle = self.leaving.departure(needed) if needed >= 0 else 0
                return max(begin + (number - before) * cycles // words, space_cycle)

            if end <= begin:
                continue
            before = bisect_left(range(words), start, lo=before, key=read)
            if before == words:
                break
            begin = end
            last = end - 1 + ceil_div((words - before) * cycles, words)
        return last

    def remaining(self, end: int) -> tuple[object, ...]:
        """Return the state after rows that end in cycle ``end``."""
        rows = self.leaving.remaining(self.read, end)
        return self.free - end, self.scheduled - self.read, *rows

    def repeat(self, words: int, cycles: int) -> None:
        """Add ``words`` further words with ``cycles`` cycles."""
        self.read += words
        self.scheduled += words
        self.free += cycles
        self.leaving.later(words, cycles)

    def moment(self, now: int, oldest: int) -> Moment:
        """Return the state relevant to the next words."""
        leaving = self.leaving.moment(now, oldest, self.read)
        return combined(
            [Moment((self.scheduled - self.read,), since(now, oldest, [self.free])), leaving]
        )

    def later(self, cycles: int) -> None:
        """Shift all times by ``cycles`` cycles."""
        self.free += cycles
        self.leaving.later(0, cycles)

    def left(self, words: int, first: int, cycles: int) -> None:
        """Record that the words read last leave from ``first`` on, in ``cycles`` cycles."""
        self.leaving.add(self.read - words, words, first, cycles)
        self.scheduled = self.read
        self.free = max(self.free, self.free_from(self.read - 1) + 1)


@dataclass
class Lanes:
    """Schedule reads of words: rows are read in the cycles that columns leave free."""

    columns: deque[tuple[int, int]] = field(default_factory=deque)  # first cycle and end, in order

    def column(self, start: int, count: int) -> None:
        """Record that ``count`` columns are read from ``start`` on."""
        self.columns.append((start, start + count))

    def moment(self, now: int, oldest: int) -> Moment:
        """Return the state that decides further reads of rows: the columns that end after
        ``oldest``, as cycles relative to ``now``."""
        times = [time for each in self.columns if each[1] > oldest for time in each]
        return Moment((len(times),), since(now, oldest, times))

    def later(self, cycles: int) -> None:
        """Shift all times by ``cycles`` cycles."""
        self.columns = deque((start + cycles, end + cycles) for start, end in self.columns)

    def rows(
        self,
        queue: Queue,
        words: int,
        ready: int,
        cycles: int,
        pauses: Iterable[tuple[int, int]] = (),
    ) -> tuple[int, int]:
        """Read the words of a row, which are ready from ``ready`` on, in ``cycles`` cycles. Return
        the cycles of the last part of the first word and of the last word. No word is read in
        ``pauses``, which are pairs of a first cycle and an end."""
        begin = last = self.begins(queue, ready)
        left = cycles - 1
        for start, end in self._after(last):
            between = max(start - last - 1, 0)
            if between >= left:
                break
            left -= between
            last = end - 1
        last += left
        behind = queue.read_with_pauses(words, begin, cycles, pauses)
        last = self._free(max(last, queue.free_from(queue.read + words - 1), behind))
        queue.read += words
        queue.free = last + 1
        while self.columns and self.columns[0][1] < last - 10_000:
            self.columns.popleft()
        return begin + ceil_div(cycles, words) - 1, last

    def begins(self, queue: Queue, ready: int) -> int:
        """Return when the first word of a row is read, if the word is ready from ``ready`` on."""
        return self._free(max(ready, queue.free, queue.free_from(queue.read)))

    def _free(self, cycle: int) -> int:
        """Return the first cycle without a column, from ``cycle`` on."""
        for start, end in self._after(cycle):
            if start <= cycle:
                cycle = end
        return cycle

    def _after(self, cycle: int) -> Iterator[tuple[int, int]]:
        """Return the columns with an end after ``cycle``."""
        if not self.columns or self.columns[-1][1] <= cycle:
            return iter(())
        columns: list[tuple[int, int]] = []
        for each in reversed(self.columns):
            if each[1] <= cycle:
                break
            columns.append(each)
        return reversed(columns)
