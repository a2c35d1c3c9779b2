"""The store unit in time: a drain per direction, one writer; rows go out one request each."""

from collections import deque
from dataclasses import dataclass, field

from diastole_sim.perf.machine import ModelledMachine, ceil_div
from diastole_sim.perf.walk import Span

EAST, NORTH = 0, 1
WRITES_AHEAD = 16
"""Bursts whose responses have not come."""
PIPELINE = 5  # words between the accumulators and the beats


@dataclass
class _Drain:
    """One direction: tiles whose sums are complete, and the rows of the one at work."""

    turned: int  # vectors that wait in the turning array
    side_by_side: int  # vectors of a word
    tiles: deque[tuple[int, tuple[Span, ...]]] = field(default_factory=deque)
    spans: deque[Span] = field(default_factory=deque)
    row: int = 0
    ready: int = 0  # when its next request is offered
    data: int = 0  # when the first word of a tile is there
    announced: int = 0  # words of all tiles so far
    written: int = 0  # words that have left
    emptied: deque[tuple[int, int]] = field(default_factory=deque)  # (words, not before)
    freed: list[int] = field(default_factory=list)  # when each tile's bank became free
    opened: int = 0

    def words(self, span: Span) -> int:
        """Of a row: neighbouring vectors leave together."""
        return ceil_div(span.vectors, self.side_by_side)


@dataclass
class Store:
    """Drains that are advanced in order of time, as far as somebody asks about a bank.

    The north drain's rows go first where both wait. A bank is free when its last word is read:
    those in the pipeline and in the turning array are still to be written then.
    """

    machine: ModelledMachine
    fused: bool
    units: tuple[int, int]  # of sums that a tile takes, east and north
    writer: int = 0  # when the writer takes the next request
    last_beat: int = 0
    beats: int = 0
    responses: deque[int] = field(default_factory=deque)  # of the last bursts, oldest first

    def __post_init__(self) -> None:
        machine = self.machine
        self.drains = (
            _Drain(0, machine.drained_vectors(north=False)),
            _Drain(machine.block if self.fused else 0, machine.drained_vectors(north=True)),
        )

    def tile(self, direction: int, cycle: int, spans: tuple[Span, ...]) -> None:
        """The sums of a tile are complete at ``cycle``."""
        drain = self.drains[direction]
        drain.tiles.append((cycle, spans))
        words = sum(drain.words(span) * span.whole for span in spans)
        drain.announced += words
        ahead = PIPELINE + drain.turned
        drain.emptied.append((drain.announced - ahead, cycle + 2 + words))
        self._free(drain, 0)

    def bank(self, direction: int) -> int:
        """Take a bank for a new tile; the cycle in which there is one."""
        drain = self.drains[direction]
        drain.opened += 1
        needed = drain.opened - self.machine.sum_units // self.units[direction]
        while len(drain.freed) < needed:
            self._advance()
        return drain.freed[needed - 1] if needed > 0 else 0

    def drained(self, direction: int, number: int) -> int:
        """When the bank of tile ``number`` (from 0 on) becomes free."""
        freed = self.drains[direction].freed
        while len(freed) <= number:
            self._advance()
        return freed[number]

    def finish(self) -> int:
        """Drain what is left; the cycle in which the last write is acknowledged."""
        while any(drain.spans or drain.tiles for drain in self.drains):
            self._advance()
        return self.last_beat + self.machine.memory.response_cycles

    def _advance(self) -> None:
        """Write the next row of whichever drain's turn it is."""
        waiting: list[tuple[int, int]] = []
        for direction, drain in enumerate(self.drains):
            if not drain.spans and drain.tiles:
                cycle, spans = drain.tiles.popleft()
                drain.spans.extend(spans)
                drain.ready = max(drain.ready, cycle + 5)
                drain.data = cycle + 2 + PIPELINE + drain.turned
                drain.row = 0
            if drain.spans:  # north first if both have come by the time the writer is free
                waiting.append((max(drain.ready, self.writer), -direction))
        start, direction = min(waiting)
        self._row(self.drains[-direction], start)

    def _row(self, drain: _Drain, start: int) -> None:
        span = drain.spans[0]
        words = drain.words(span)
        first = max(start + self.machine.memory.write_gap_cycles, drain.data)
        if len(self.responses) == WRITES_AHEAD:
            first = max(first, self.responses.popleft())
        cycles = max(span.beats, words)
        end = first + cycles  # cycle of its last beat
        self.responses.append(end + self.machine.memory.response_cycles)
        self.last_beat = end
        self.writer = end
        self.beats += span.beats
        drain.written += words
        drain.ready = end
        drain.row += 1
        self._free(drain, end, ceil_div(cycles, words))
        if drain.row == span.rows:
            dropped = span.whole - span.rows
            drain.written += dropped * words
            drain.ready += dropped * words + 1
            drain.row = 0
            drain.spans.popleft()
            self._free(drain, drain.ready)

    @staticmethod
    def _free(drain: _Drain, end: int, word_cycles: int = 1) -> None:
        """Banks whose last word has been read by now; ``end``: of the last word written."""
        while drain.emptied and drain.emptied[0][0] <= drain.written:
            words, earliest = drain.emptied.popleft()
            drain.freed.append(max(earliest, end - (drain.written - words) * word_cycles))
