"""Model when the start states of rows are ready, for random bits from one register per row."""

from collections import deque

from diastole_sim.spec.sizes.draws import STARTS_AHEAD

FIRST_START = 18
"""Cycles from the beginning of a tensor to the start state of its first row."""


class RowStarts:
    """Start states of a tensor that begins in the cycle ``begin``. Two states are at least
    ``apart`` cycles apart."""

    def __init__(self, begin: int, apart: int):
        self.apart = apart
        self.ready = begin + FIRST_START  # when the next row's state is ready
        self.begun = deque([begin] * STARTS_AHEAD)  # when rows have begun

    def delay(self, begin: int, rows: int, words: int) -> int:
        """Return the delay of ``rows`` rows of ``words`` words caused by start states. Without the
        delay the rows would begin in sequence, in the cycle ``begin``."""
        delay = 0
        for row in range(rows):
            at = max(begin + row * words + delay, self.ready)
            delay = at - begin - row * words
            self.begun.append(at)
            self.ready = max(self.ready + self.apart, self.begun.popleft() + 1)
        return delay

    @property
    def times(self) -> list[int]:
        """Times that later rows depend on."""
        return [self.ready, *self.begun]

    def later(self, cycles: int) -> None:
        """Shift all times by ``cycles`` cycles."""
        self.ready += cycles
        self.begun = deque(time + cycles for time in self.begun)
