"""Model the store unit of several ports in time: rows go to the ports alternately, and wait in
queues."""

from collections import deque
from dataclasses import dataclass, field

from diastole_sim.perf.lanes import LATENCY, Departures
from diastole_sim.perf.moments import Moment, combined, since
from diastole_sim.perf.result_store import LONG_DONE, DrainState, Store
from diastole_sim.spec.integers import ceil_div
from diastole_sim.spec.sizes.queues import SHORT_QUEUE


@dataclass
class _Writer:
    """Writer of a port."""

    free: int = 0  # when the writer accepts the next request
    responses: deque[int] = field(default_factory=deque)  # of the last bursts, oldest first


@dataclass
class _Queue:
    """Queue for the words of a direction in front of a port."""

    free: int
    requests: int = 0  # when the next row may be requested
    dealt: int = 0  # words that have arrived
    leaving: Departures = field(default_factory=Departures)

    def moment(self, now: int, oldest: int) -> Moment:
        """Return the state relevant to the next words."""
        request = Moment((), since(now, oldest, [self.requests]))
        return combined([request, self.leaving.moment(now, oldest, self.dealt)])

    def later(self, cycles: int) -> None:
        """Shift all times by ``cycles`` cycles."""
        self.requests += cycles
        self.leaving.later(0, cycles)

    def open_for(self, number: int) -> int:
        """Return when the queue has space for word ``number``."""
        needed = number - self.free
        return self.leaving.left(needed) + 1 if needed >= 0 else 0


@dataclass
class _Distributor:
    """Dealer of a direction: passes words to the queues."""

    queues: list[_Queue]
    free: int = 0  # when the next word can be dealt


@dataclass
class DistributedStore(Store):
    """Drains that deal rows to the ports alternately, a word per cycle. A row is requested when the
    first word of the row is in the queue of the port."""

    def __post_init__(self) -> None:
        super().__post_init__()
        machine, ports = self.machine, range(self.machine.ports)
        self.writers = [_Writer() for _ in ports]
        self.dealers = tuple(
            _Distributor([_Queue(machine.queued_words(vectors)) for _ in ports])
            for vectors in (machine.drain_vectors(north=north) for north in (False, True))
        )

    def _free(self, drain: DrainState) -> int:
        return self._dealer(drain).free

    def _dealer(self, drain: DrainState) -> _Distributor:
        return self.dealers[drain is not self.drains[0]]

    def _remaining(self, drain: DrainState, end: int) -> tuple[object, ...]:
        remaining: list[object] = [*drain.queue.remaining(end)]
        for queue in self._dealer(drain).queues:
            remaining += [queue.requests - end, *queue.leaving.remaining(queue.dealt, end)]
        for writer in self.writers:
            remaining += [writer.free - end, *(response - end for response in writer.responses)]
        return tuple(remaining)

    def _repeat(self, drain: DrainState, rows: int, cycles: int) -> None:
        super()._repeat(drain, rows, cycles)
        dealer, words = self._dealer(drain), drain.words(drain.spans[0])
        dealer.free += cycles
        for queue in dealer.queues:
            of_port = words * rows // self.machine.ports
            queue.requests += cycles
            queue.dealt += of_port
            queue.leaving.later(of_port, cycles)
        for writer in self.writers:
            writer.free += cycles
            writer.responses = deque(time + cycles for time in writer.responses)

    def moment(self, now: int, accepted: int) -> Moment:
        """Return the state of :class:`Store`, and of the queues and writers of the ports."""
        moments = [super().moment(now, accepted)]
        oldest = now - LONG_DONE
        for writer in self.writers:
            times = since(now, oldest, (writer.free, *writer.responses))
            moments.append(Moment((len(times),), times))
        for dealer in self.dealers:
            moments.append(Moment((), since(now, oldest, [dealer.free])))
            moments += [queue.moment(now, oldest) for queue in dealer.queues]
        return combined(moments)

    def later(self, cycles: int) -> None:
        """Shift all times by ``cycles`` cycles."""
        super().later(cycles)
        for writer in self.writers:
            writer.free += cycles
            writer.responses = deque(time + cycles for time in writer.responses)
        for dealer in self.dealers:
            dealer.free += cycles
            for queue in dealer.queues:
                queue.later(cycles)

    def _comes(self, direction: int, port: int) -> int:
        """Return when the first word of the next row enters the queue."""
        dealer, queue = self.dealers[direction], self.dealers[direction].queues[port]
        drain = self.drains[direction]
        there = drain.data
        if not drain.spans[0].columns:
            there = self.lanes.begins(drain.queue, drain.sums) + LATENCY
        return max(dealer.free, there, queue.open_for(queue.dealt))

    def _starts(self, direction: int) -> int:
        drain = self.drains[direction]
        port = drain.row % self.machine.ports
        queue = self.dealers[direction].queues[port]
        request = max(self._comes(direction, port) + 1, self._request_cycle(drain), queue.requests)
        return max(request, self.writers[port].free)

    def _row(self, direction: int, start: int) -> None:
        drain, dealer = self.drains[direction], self.dealers[direction]
        port = drain.row % self.machine.ports
        queue, writer = dealer.queues[port], self.writers[port]
        span = drain.spans[0]
        words, came = drain.words(span), self._comes(direction, port)
        last = 0  # when the last word of the row is dealt
        if not span.columns:
            lane_cycles = drain.lane_cycles(span, self.machine)
            read, last = self.lanes.rows(drain.queue, words, drain.sums, lane_cycles, drain.pauses)
            came, last = max(came, read + LATENCY), last + LATENCY
        shown = came + 1 + (queue.free > SHORT_QUEUE)
        first = max(start + 1 + self.machine.memory.write_gap_cycles, shown)
        cycles = max(span.beats, words)
        there = last + 1 + (queue.free > SHORT_QUEUE) + ceil_div(cycles, words)  # the last word
        bursts = span.bursts(drain.row)
        end = self.written(first, bursts, cycles / span.beats, writer.responses, 0, there)
        writer.free = queue.requests = end - 1
        self.last_beat = max(self.last_beat, end)
        self.beats += span.beats
        self.words += drain.lane_cycles(span, self.machine)
        queue.leaving.add(queue.dealt, words, first, cycles)
        queue.dealt += words
        dealer.free = max(came + words, queue.open_for(queue.dealt - 1) + 1, last + 1)
        if not span.columns:
            self._leave(drain, words, came, dealer.free - came)
        drain.row += 1
        if drain.row == span.rows:
            for each in dealer.queues:
                each.requests += 1
            drain.row = 0
            drain.spans.popleft()
            if span.columns:
                drain.pieces.append(dealer.free - 1)
                self._transpose(drain)
                if drain.spans:
                    drain.read_next()
