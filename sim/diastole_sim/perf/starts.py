"""When the start states of rows are there, where draws are those of a register per row."""

from collections import deque

FIRST_START = 18
"""Cycles from the begin of a tensor to the start state of its first row."""
STARTS_AHEAD = 8
"""Rows whose states are there before they begin."""


class RowStarts:
    """The states of a tensor that begins in the cycle ``begin``; from one to the next take
    ``apart`` cycles at least."""

    def __init__(self, begin: int, apart: int):
        self.apart = apart
        self.ready = begin + FIRST_START  # the next row's
        self.gone = deque([begin] * STARTS_AHEAD)  # when rows have begun

    def delay(self, begin: int, rows: int, words: int) -> int:
        """By which ``rows`` of as many ``words`` are through later for their states; they would
        begin, one after the other, in the cycle ``begin``."""
        delay = 0
        for row in range(rows):
            at = max(begin + row * words + delay, self.ready)
            delay = at - begin - row * words
            self.gone.append(at)
            self.ready = max(self.ready + self.apart, self.gone.popleft() + 1)
        return delay

    @property
    def times(self) -> list[int]:
        """What it leaves behind."""
        return [self.ready, *self.gone]

    def later(self, cycles: int) -> None:
        """As if all had been so many cycles later."""
        self.ready += cycles
        self.gone = deque(time + cycles for time in self.gone)
