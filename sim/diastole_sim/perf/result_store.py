"""Model the store unit in time: a drain per direction, a single writer, and a request per row."""

from collections import deque
from dataclasses import dataclass, field
from math import gcd, lcm

from diastole_sim.perf.chunk_walk import Span
from diastole_sim.perf.lanes import COLUMN_LATENCY, LATENCY, Lanes, Queue
from diastole_sim.perf.modelled_machine import ModelledMachine
from diastole_sim.perf.moments import Moment, combined, since
from diastole_sim.spec.integers import ceil_div
from diastole_sim.spec.sizes.array_sizes import SUM_MEMORIES
from diastole_sim.spec.sizes.queues import BURST_BEATS, OPEN_WRITES, TRANSPOSED_PIECES

EAST, NORTH = 0, 1
RESPONSE_TO_BEAT = -1
"""Cycles from a response to the first beat of a burst that waited for the response."""
REQUEST_CYCLES = 3  # cycles from the read of a tile's first word to its request
TRANSPOSE_CYCLES = 3  # cycles from the last column of a piece to its first row
SETTLES = 64
"""Rows of a span within which rows must begin to repeat; later rows are not compared."""
MAX_TILES = 4
"""Most tiles with places for their sums at once."""
LONG_DONE = 1024
"""Age of a departed row, in cycles, beyond which the row has no influence."""


@dataclass
class DrainState:
    """State of a drain in one direction: tiles with complete sums, and rows of the current tile."""

    parallel: int  # vectors per word
    tiles: deque[tuple[int, tuple[Span, ...]]] = field(default_factory=deque)
    spans: deque[Span] = field(default_factory=deque)
    row: int = 0
    ready: int = 0  # when the next request is offered
    data: int = 0  # when the first word of a tile, or of transposed rows, is ready
    sums: int = 0  # when the sums of the current tile can be read
    queue: Queue = field(default_factory=Queue)
    freed: list[int] = field(default_factory=list)  # when each tile's bank became free
    opened: int = 0
    # For every memory of sums, the intervals of cycles with additions, in order.
    adding: tuple[deque[tuple[int, int]], ...] = field(
        default_factory=lambda: tuple(deque[tuple[int, int]]() for _ in range(SUM_MEMORIES))
    )
    columns: int = 0  # when the next column can be read
    # Pieces whose columns are still to be read, with the first cycle; None behind the last of a
    # tile.
    transposing: deque[tuple[int, Span] | None] = field(default_factory=deque)
    valid: deque[int] = field(default_factory=deque)  # when rows of transposed pieces can leave
    pieces: deque[int] = field(
        default_factory=lambda: deque([0] * TRANSPOSED_PIECES)
    )  # when pieces have left
    # State that rows left behind, its cycle, and the cycles for which bursts had waited for
    # answers.
    before: deque[tuple[object, int, int]] = field(default_factory=deque)

    def moment(self, now: int, oldest: int, accepted: int) -> Moment:
        """Return the tiles and rows in progress, and the times that they wait for. The next tile
        opens after ``accepted``, and a place for sums counts as free if it became free before
        ``accepted``."""
        spans = [span for _, tile in self.tiles for span in tile] + list(self.spans)
        spans += [each[1] for each in self.transposing if each is not None]
        lengths = (len(each) for each in (self.tiles, self.spans, self.transposing, self.valid))
        counts = [self.row, self.opened - len(self.freed), *lengths]
        counts += [number for span in spans for number in span.alike]
        times = [cycle for cycle, _ in self.tiles]
        times += [each[0] for each in self.transposing if each is not None]
        times += [self.ready, self.data, self.sums, self.columns, *self.valid, *self.pieces]
        for memory in range(SUM_MEMORIES):
            adding = self.adding[(len(self.freed) + memory) % SUM_MEMORIES]
            matter = [time for each in adding if each[1] > oldest for time in each]
            times += matter
            counts.append(len(matter))
        free = since(now, accepted, ([accepted] * MAX_TILES + self.freed)[-MAX_TILES:])
        here = Moment(tuple(counts), (*since(now, oldest, times), *free))
        return combined([here, self.queue.moment(now, oldest)])

    def later(self, cycles: int) -> None:
        """Shift all times by ``cycles`` cycles."""
        self.tiles = deque((cycle + cycles, spans) for cycle, spans in self.tiles)
        self.transposing = deque(
            None if each is None else (each[0] + cycles, each[1]) for each in self.transposing
        )
        self.ready += cycles
        self.data += cycles
        self.sums += cycles
        self.columns += cycles
        self.valid = deque(time + cycles for time in self.valid)
        self.pieces = deque(time + cycles for time in self.pieces)
        self.freed = [time + cycles for time in self.freed]
        for adding in self.adding:
            adding.extend(
                (s + cycles, e + cycles) for s, e in [adding.popleft() for _ in [*adding]]
            )
        self.queue.later(cycles)
        self.before.clear()

    def read_next(self) -> None:
        """Continue with the rows of a transposed piece."""
        shown = self.valid.popleft()
        self.data, self.ready = max(self.data, shown), max(self.ready, shown)

    @property
    def pauses(self) -> deque[tuple[int, int]]:
        """Intervals of cycles with additions to sums in the memory of the current tile."""
        return self.adding[len(self.freed) % SUM_MEMORIES]

    def words(self, span: Span) -> int:
        """Return the words of a row. Neighbouring vectors leave together."""
        return ceil_div(span.vectors, self.parallel)

    def lane_cycles(self, span: Span, machine: ModelledMachine) -> int:
        """Return the cycles in which the lanes convert a row to floats."""
        words = self.words(span)
        if machine.word_parts == 1:
            return words
        return max(words, ceil_div(span.beats, machine.ports))


@dataclass
class Store:
    """Drains, which advance in order of time as far as a caller asks about a bank.

    Rows of the north drain go first if both drains wait. A bank is free when its last word is read.
    Words in the pipeline, and words being transposed, are still to be written at this time.
    """

    machine: ModelledMachine
    units: tuple[int, int]  # units of sums that a tile takes, east and north
    writer: int = 0  # when the writer accepts the next request
    last_beat: int = 0
    beats: int = 0
    words: int = 0  # cycles in which sums leave the accumulators
    answers: int = 0  # cycles in which bursts waited for responses of earlier bursts
    others: int = 0  # beats read at the first port that belong to no product
    responses: deque[int] = field(default_factory=deque)  # of the last bursts, oldest first

    def __post_init__(self) -> None:
        vectors = (self.machine.drain_vectors(north=north) for north in (False, True))
        self.drains = tuple(DrainState(side_by_side) for side_by_side in vectors)
        self.lanes = Lanes()

    def tile(self, direction: int, cycle: int, spans: tuple[Span, ...]) -> None:
        """Add a tile whose sums are complete at ``cycle``."""
        drain = self.drains[direction]
        drain.tiles.append((cycle, spans))
        if spans[0].columns:
            drain.transposing.extend((cycle + 2, span) for span in spans)
            drain.transposing.append(None)
            self._transpose(drain)

    def bank(self, direction: int) -> int:
        """Take a bank for a new tile; return the cycle in which a bank is free."""
        drain = self.drains[direction]
        drain.opened += 1
        needed = drain.opened - self.machine.sum_units // self.units[direction]
        while len(drain.freed) < needed:
            self._advance()
        return drain.freed[needed - 1] if needed > 0 else 0

    def adds(self, direction: int, start: int, end: int) -> None:
        """Record that sums are added from ``start`` until ``end`` in the memory of the tile opened
        last. Nothing is recorded for a tile of a whole memory, since the tile begins after the
        drained tile has left."""
        if self.units[direction] == 1:
            drain = self.drains[direction]
            drain.adding[(drain.opened - 1) % SUM_MEMORIES].append((start, end))

    def drained(self, direction: int, number: int) -> int:
        """Return when the bank of tile ``number`` (from 0 on) becomes free."""
        freed = self.drains[direction].freed
        while len(freed) <= number:
            self._advance()
        return freed[number]

    def finish(self) -> int:
        """Drain the remaining tiles; return the cycle in which the last write is acknowledged."""
        while any(drain.spans or drain.tiles for drain in self.drains):
            self._advance()
        return self.last_beat + self.machine.memory.response_cycles

    def moment(self, now: int, accepted: int) -> Moment:
        """Return the state relevant to the next rows, if no tile ends and nothing is added before
        ``now``, and no tile opens before ``accepted``."""
        self.advance_to(now)
        oldest = now - LONG_DONE
        drains = [drain.moment(now, oldest, accepted) for drain in self.drains]
        writer = Moment(
            (len(self.responses),),
            since(now, oldest, (self.writer, self.last_beat, *self.responses)),
        )
        return combined([writer, self.lanes.moment(now, oldest), *drains])

    def places(self, now: int) -> tuple[int, ...]:
        """Return by direction how many rows of a span have left, and how many spans and tiles have
        not, if nothing arrives before ``now``."""
        self.advance_to(now)
        return tuple(
            [
                each
                for drain in self.drains
                for each in (drain.row, len(drain.spans), len(drain.tiles))
            ]
        )

    def later(self, cycles: int) -> None:
        """Shift all times by ``cycles`` cycles."""
        self.writer += cycles
        self.last_beat += cycles
        self.responses = deque(time + cycles for time in self.responses)
        self.lanes.later(cycles)
        for drain in self.drains:
            drain.later(cycles)

    def advance_to(self, cycle: int) -> None:
        """Write all rows with a begin before ``cycle``."""
        while (waiting := self._waiting()) and min(waiting)[0] < cycle:
            self._write(waiting, cycle)

    def _advance(self) -> None:
        """Write the next row of the drain that begins first."""
        self._write(self._waiting())

    def _waiting(self) -> list[tuple[int, int]]:
        """Return when each drain with rows can begin the next row."""
        waiting: list[tuple[int, int]] = []
        for direction, drain in enumerate(self.drains):
            if not drain.spans and drain.tiles:
                cycle, spans = drain.tiles.popleft()
                drain.spans.extend(spans)
                drain.sums = cycle + 2
                drain.row = 0
                if spans[0].columns:
                    drain.read_next()
            if drain.spans and not drain.spans[0].columns:
                self._wait(drain)
            if drain.spans:  # north first if both wait when the writer is free
                waiting.append((self._starts(direction), -direction))
        return waiting

    def _write(self, waiting: list[tuple[int, int]], until: int | None = None) -> None:
        """Write a row of the drain that begins first, and the rows like it. No row is passed over
        from ``until`` on, when another event may come."""
        start, direction = min(waiting)
        self._row(-direction, start)
        if len(waiting) == 1:
            self._skip(self.drains[-direction], until)

    def _skip(self, drain: DrainState, until: int | None = None) -> None:
        """Pass over the rows that take as long as the rows before. If a period of rows has left the
        state of the period before, only later, all further rows of the span do. The last rows,
        which free memory, are not passed over. Nor are rows from ``until`` on, or from the next
        addition in their memory on, when another event may come. Rows begin alike in bursts after a
        period.

        Nothing else may come in between: the other drain has had no work from the beginning on.
        """
        if not drain.row:
            drain.before.clear()
            return
        span, end = drain.spans[0], self._free(drain)
        period = lcm(BURST_BEATS // gcd(BURST_BEATS, span.pitch), self.machine.ports)
        if drain.row > SETTLES or drain.row + period >= span.rows or span.columns:
            return
        (other,) = (each for each in self.drains if each is not drain)
        if other.opened or drain.data > end or drain.sums > end:
            return
        left = self._remaining(drain, end)
        drain.before.append((left, end, self.answers))
        if len(drain.before) <= period:
            return
        then, before, answers = drain.before.popleft()
        count = (span.rows - 1 - drain.row) // period
        bounds = [until] if until is not None else []
        bounds += [drain.pauses[0][0]] if drain.pauses else []
        if bounds:
            count = min(count, (min(bounds) - end) // (end - before))
        if then == left and count > 0:
            self.answers += count * (self.answers - answers)
            self._repeat(drain, count * period, count * (end - before))
            drain.before.clear()

    def _free(self, drain: DrainState) -> int:
        """Return when the next row can leave."""
        return self.writer

    def _remaining(self, drain: DrainState, end: int) -> tuple[object, ...]:
        """Return the state after a row, relative to the row's last cycle ``end``."""
        return *drain.queue.remaining(end), *(response - end for response in self.responses)

    def _repeat(self, drain: DrainState, rows: int, cycles: int) -> None:
        """Add ``rows`` rows, which take ``cycles`` cycles in all."""
        span, queue = drain.spans[0], drain.queue
        self.writer += cycles
        self.last_beat += cycles
        self.beats += rows * span.beats
        self.words += rows * drain.lane_cycles(span, self.machine)
        self.responses = deque(response + cycles for response in self.responses)
        drain.ready += cycles
        drain.row += rows
        queue.repeat(rows * drain.words(span), cycles)

    def _wait(self, drain: DrainState) -> None:
        """Delay the next row while sums are added in its memory."""
        adding = drain.pauses
        read = self.lanes.begins(drain.queue, drain.sums)
        while adding and adding[0][0] <= read:
            _, end = adding.popleft()
            if read < end:
                drain.sums = read = end

    def _starts(self, direction: int) -> int:
        """Return when the next row of a drain can start."""
        return max(self._request_cycle(self.drains[direction]), self.writer)

    def _request_cycle(self, drain: DrainState) -> int:
        """Return when the next row is requested. The first row of a tile is requested with its
        first word."""
        if drain.row or drain.spans[0].columns:
            return drain.ready
        return max(drain.ready, self.lanes.begins(drain.queue, drain.sums) + REQUEST_CYCLES)

    def _row(self, direction: int, start: int) -> None:
        drain = self.drains[direction]
        span = drain.spans[0]
        words = drain.words(span)
        cycles = max(span.beats, words)
        first = max(start + self.machine.memory.write_gap_cycles, drain.data)
        last = 0  # when the last word is there
        if not span.columns:
            lane_cycles = drain.lane_cycles(span, self.machine)
            read, last = self.lanes.rows(drain.queue, words, drain.sums, lane_cycles, drain.pauses)
            first, last = max(first, read + LATENCY), last + LATENCY + ceil_div(cycles, words)
        bursts = span.bursts(drain.row)
        end = self.written(
            first, bursts, cycles / span.beats, self.responses, RESPONSE_TO_BEAT, last
        )
        self.last_beat = end
        self.writer = end
        self.beats += span.beats
        self.words += drain.lane_cycles(span, self.machine)
        drain.ready = end
        if not span.columns:
            self._leave(drain, words, first, end - first)
        drain.row += 1
        if drain.row == span.rows:
            drain.data = max(drain.data, end + 1)  # earlier requests already wait for the data
            drain.row = 0
            drain.spans.popleft()
            if span.columns:
                drain.pieces.append(end - 1)
                self._transpose(drain)
                if drain.spans:
                    drain.read_next()

    @staticmethod
    def _leave(drain: DrainState, words: int, first: int, cycles: int) -> None:
        """Let the words of the next row leave. A tile's sums are free when the last word is
        read."""
        drain.queue.left(words, first, cycles)
        if drain.row == drain.spans[0].rows - 1 and len(drain.spans) == 1:
            drain.freed.append(drain.queue.free)

    def _transpose(self, drain: DrainState) -> None:
        """Read the columns of the next spans while the memory that transposes has places for
        pieces."""
        while drain.transposing and (drain.pieces or drain.transposing[0] is None):
            following = drain.transposing.popleft()
            if following is None:
                drain.freed.append(drain.columns)
                drain.columns += 1  # a tile waits one cycle
                continue
            complete, span = following
            start = max(drain.columns, complete, drain.pieces.popleft())
            self.lanes.column(start, span.columns)
            drain.columns = start + span.columns
            drain.valid.append(drain.columns + COLUMN_LATENCY + TRANSPOSE_CYCLES - 1)

    def written(
        self,
        first: int,
        bursts: list[int],
        cycles: float,
        responses: deque[int],
        response_to_beat: int,
        last: int,
    ) -> int:
        """Return the cycle of the last beat of bursts, at ``cycles`` cycles per beat. The first
        beat is ready at ``first``, the last beat not before ``last``. ``responses``: responses of
        earlier bursts, oldest first. A burst that waited for a response continues
        ``response_to_beat`` cycles after the response."""
        end = first
        for beats in bursts:
            if len(responses) == OPEN_WRITES:
                answer = responses.popleft() + response_to_beat
                self.answers += max(0, answer - end)
                end = max(end, answer)
            end += round(beats * cycles)
            responses.append(end + self.machine.memory.response_cycles)
        end = max(end, last)
        responses[-1] = end + self.machine.memory.response_cycles
        return end
