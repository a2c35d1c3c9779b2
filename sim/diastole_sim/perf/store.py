"""The store unit in time: a drain per direction, one writer; rows go out one request each."""

from collections import deque
from dataclasses import dataclass, field

from diastole_sim.perf.machine import ModelledMachine, ceil_div
from diastole_sim.perf.walk import Span

EAST, NORTH = 0, 1
WRITES_AHEAD = 16
"""Bursts whose responses have not come."""
ANSWERED = -1
"""Cycles from a response to the first beat of a burst that waited for it."""
PIPELINE = 5  # words between the accumulators and the beats, or the memory that turns
TURNED = 3  # cycles from the last column of a piece to its first row
PIECES = 2  # that the memory holds


@dataclass
class _Drain:
    """One direction: tiles whose sums are complete, and the rows of the one at work."""

    side_by_side: int  # vectors of a word
    tiles: deque[tuple[int, tuple[Span, ...]]] = field(default_factory=deque)
    spans: deque[Span] = field(default_factory=deque)
    row: int = 0
    ready: int = 0  # when its next request is offered
    data: int = 0  # when the first word of a tile, or of rows that have turned, is there
    announced: int = 0  # words of all tiles so far
    written: int = 0  # words that have left
    emptied: deque[tuple[int, int]] = field(default_factory=deque)  # (words, not before)
    freed: list[int] = field(default_factory=list)  # when each tile's bank became free
    opened: int = 0
    columns: int = 0  # when the next column can be read
    pieces: deque[int] = field(default_factory=lambda: deque([0] * PIECES))  # when each has left

    def words(self, span: Span) -> int:
        """Of a row: neighbouring vectors leave together."""
        return ceil_div(span.vectors, self.side_by_side)

    def turn(self) -> None:
        """Read the columns of the next span, while there is room for its piece."""
        span = self.spans[0]
        start = max(self.columns, self.pieces.popleft() - PIPELINE)
        self.columns = start + span.columns
        self.data = max(self.data, self.columns + PIPELINE + TURNED - 1)
        self.ready = max(self.ready, self.columns + PIPELINE + TURNED - 1)
        if len(self.spans) == 1:
            self.freed.append(self.columns)


@dataclass
class Store:
    """Drains that are advanced in order of time, as far as somebody asks about a bank.

    The north drain's rows go first where both wait. A bank is free when its last word is read:
    those in the pipeline are still to be written then, and those that turn.
    """

    machine: ModelledMachine
    units: tuple[int, int]  # of sums that a tile takes, east and north
    writer: int = 0  # when the writer takes the next request
    last_beat: int = 0
    beats: int = 0
    responses: deque[int] = field(default_factory=deque)  # of the last bursts, oldest first

    def __post_init__(self) -> None:
        vectors = (self.machine.drained_vectors(north=north) for north in (False, True))
        self.drains = tuple(_Drain(side_by_side) for side_by_side in vectors)

    def tile(self, direction: int, cycle: int, spans: tuple[Span, ...]) -> None:
        """The sums of a tile are complete at ``cycle``."""
        drain = self.drains[direction]
        drain.tiles.append((cycle, spans))
        if spans[0].columns:
            return
        words = sum(drain.words(span) * span.rows for span in spans)
        drain.announced += words
        drain.emptied.append((drain.announced - PIPELINE, cycle + 2 + words))
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
                drain.data = max(drain.data, cycle + 2 + PIPELINE)
                drain.row = 0
                if spans[0].columns:
                    drain.columns = max(drain.columns, cycle + 2)
                    drain.turn()
            if drain.spans:  # north first if both have come by the time the writer is free
                waiting.append((self._starts(direction), -direction))
        start, direction = min(waiting)
        self._row(-direction, start)

    def _starts(self, direction: int) -> int:
        """When the next row of a drain can."""
        return max(self.drains[direction].ready, self.writer)

    def _row(self, direction: int, start: int) -> None:
        drain = self.drains[direction]
        span = drain.spans[0]
        words = drain.words(span)
        first = max(start + self.machine.memory.write_gap_cycles, drain.data)
        cycles = max(span.beats, words)
        end = self.written(
            first, span.bursts(drain.row), cycles / span.beats, self.responses, ANSWERED
        )
        self.last_beat = end
        self.writer = end
        self.beats += span.beats
        drain.ready = end
        drain.row += 1
        if not span.columns:
            drain.written += words
            self._free(drain, end, ceil_div(cycles, words))
        if drain.row == span.rows:
            drain.data = max(drain.data, end + 1)  # what is asked for already waits for it
            drain.row = 0
            drain.spans.popleft()
            if span.columns:
                drain.pieces.append(end - 1)
                if drain.spans:
                    drain.turn()

    def written(
        self, first: int, bursts: list[int], cycles: float, responses: deque[int], answered: int
    ) -> int:
        """The cycle of the last beat of bursts whose first beat is there at ``first``, so many
        ``cycles`` a beat. ``responses``: of the bursts before, oldest first; what waited for one
        goes on ``answered`` cycles after it."""
        end = first
        for beats in bursts:
            if len(responses) == WRITES_AHEAD:
                end = max(end, responses.popleft() + answered)
            end += round(beats * cycles)
            responses.append(end + self.machine.memory.response_cycles)
        return end

    @staticmethod
    def _free(drain: _Drain, end: int, word_cycles: int = 1) -> None:
        """Banks whose last word has been read by now; ``end``: of the last word written."""
        while drain.emptied and drain.emptied[0][0] <= drain.written:
            words, earliest = drain.emptied.popleft()
            drain.freed.append(max(earliest, end - (drain.written - words) * word_cycles))
