"""Model the load unit in time: requests ahead, then groups of blocks parsed, cut, transposed and
written."""

from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from diastole_sim.perf.chunk_walk import Chunk, LoadedRegion, Run
from diastole_sim.perf.modelled_machine import ModelledMachine
from diastole_sim.perf.moments import Moment, combined, since
from diastole_sim.spec.integers import ceil_div
from diastole_sim.spec.sizes.queues import REGIONS_AHEAD

OPEN_REGIONS = REGIONS_AHEAD + 1
"""Regions that are requested and whose last beat has not been taken: with the region at work."""
BEAT_DELAY = 1
"""Cycles from a burst's last beat in memory until the unit takes the beat."""
TIME_MARGIN = 64
"""Margin in cycles. Data that arrive earlier than needed by this margin are never late, however
long the address of a row takes."""
MIN_MEMO_RUNS = 6
"""Smallest number of runs of a region for which a look-up of the resulting state is quicker."""
MAX_MEMO_REGIONS = 1 << 14
"""Most regions that are remembered."""


@dataclass
class Load:
    """Load chunks in sequence. Every time is a cycle, counted from the product's start.

    The data of a chunk pass three overlapping stages. The first stage is the bus. The second stage,
    the front, separates exponents from mantissas. The third stage is a buffer in which a block
    fills while the block before is output, some vectors per cycle. A block moves to the output when
    it is complete and described, and the block before has left.
    """

    machine: ModelledMachine
    request: int  # when the next request may be sent
    port: int = 0
    bus: int = 0  # when the bus may deliver its next beat
    front: int = 0  # when the front may parse the next beat
    looked_up: int = 0  # when the last block of the run before was looked up
    moved: int = 0  # when the last block of the run before moved to the output
    free: int = 0  # when the next block may move to the output
    written: int = -1  # cycle of the last vector written
    beats: int = 0
    maxima: int = 0  # beats of maxima, included in ``beats``
    filled: int = 0  # cycles in which blocks were written
    stalled: int = 0  # requests whose data come late, or nearly so
    addresses: int = 0  # addresses that took a multiplication
    spare: int = 0  # cycles in which a request waited for free space
    accepted: deque[int] = field(default_factory=deque)  # when the last regions' beats were taken
    burst_ends: deque[int] = field(default_factory=deque)  # when open bursts end, oldest first

    def __post_init__(self) -> None:
        sizes = [layout.block * layout.row_bits for layout in self.machine.group_layouts]
        self.bits = tuple((size, max(sizes)) for size in sizes)
        self.vector_cycles = ceil_div(self.machine.block, self.machine.filled)

    def chunk(self, chunk: Chunk, free: int) -> int:
        """Load a chunk, with space from cycle ``free`` on. Return the first cycle with the whole
        chunk loaded."""
        self.spare += max(0, free + 2 - self.request)
        self.request = max(self.request, free + 2) + 1
        for whole in chunk.regions:
            region = whole.of_port(self.port, self.machine.ports)
            if not region.beats:
                continue
            self.beats += region.beats
            full = len(self.accepted) == OPEN_REGIONS
            described = self.accepted.popleft() + 1 if full else 0  # earliest cycle if regions wait
            if region.maxima_beats:
                self.request = max(self.request + 1, described)  # the address takes a cycle
                self._maxima(region)
            else:  # the address is a multiplication
                address = self.request + 2 + region.first_row.bit_length()
                self.request = max(address, described + 1)
                self.addresses += 1
                self.spare += self.request - address
                self._blocks(region)
            self.accepted.append(self.front)
        if any(chunk.loads) or any(region.rows for region in chunk.regions):  # W in a fused pass
            return self.written
        return self.front if chunk.first else 0

    def moment(self, now: int, oldest: int) -> Moment:
        """Return the state relevant to the next chunk, without the times of free space."""
        units = self.bus, self.front, self.looked_up, self.moved, self.free, self.written
        times = since(now, oldest, (*units, *self.accepted, *self.burst_ends))
        return Moment((len(self.accepted), len(self.burst_ends)), (self.request - now, *times))

    def later(self, cycles: int) -> None:
        """Shift all times by ``cycles`` cycles."""
        self.request += cycles
        self.bus += cycles
        self.front += cycles
        self.looked_up += cycles
        self.moved += cycles
        self.free += cycles
        self.written += cycles
        self.accepted = deque(time + cycles for time in self.accepted)
        self.burst_ends = deque(time + cycles for time in self.burst_ends)

    def _maxima(self, region: LoadedRegion) -> None:
        start = self._arrive(self.request, self.front)
        self.bus = start + region.maxima_beats
        self.maxima += region.maxima_beats
        self.front = self.bus
        self._answered(self.bus)
        self.request += 1

    def _blocks(self, region: LoadedRegion) -> None:
        """Load blocks row by row. The resulting state is looked up if equal blocks came to the same
        state before."""
        if region.rows * len(region.runs) < MIN_MEMO_RUNS:
            self._rows(region)
            return
        ask = self.request
        times = self.bus, self.front, self.looked_up, self.moved, self.free, *self.burst_ends
        before = (region.rows, region.runs, *[time - ask if time > ask else 0 for time in times])
        memo = self.machine.load_memo
        saved = memo.get(before)
        if saved is None:
            filled, late = self.filled, self.stalled
            self._rows(region)
            times = self.bus, self.front, self.looked_up, self.moved, self.free, *self.burst_ends
            counts = self.filled - filled, self.stalled - late
            if len(memo) >= MAX_MEMO_REGIONS:
                memo.clear()
            memo[before] = self.request - ask, *counts, *[time - ask for time in times]
            return
        later, filled, late, *since = saved
        self.request += later
        self.filled += filled
        self.stalled += late
        self.bus, self.front, self.looked_up, self.moved, self.free = (ask + t for t in since[:5])
        self.written = self.free
        self.burst_ends = deque([ask + time for time in since[5:]])

    def _rows(self, region: LoadedRegion) -> None:
        for _ in range(region.rows):
            self.request += 1
            for run in region.runs:
                self._run(run)
            self.request -= 1  # the last request of a row takes no extra cycle
        self.request += 1

    def _arrive(self, requested: int, beats: int) -> int:
        """Return the cycle in which the first beat of a request is taken. The memory accepts a
        request only below the limit of open bursts."""
        memory = self.machine.memory
        if len(self.burst_ends) == memory.outstanding:
            requested = max(requested, self.burst_ends.popleft() - BEAT_DELAY)
        comes, beats = requested + memory.read_cycles, max(self.bus, beats)
        self.stalled += comes + TIME_MARGIN > beats
        return max(comes, beats)

    def _answered(self, cycle: int) -> None:
        if self.machine.memory.outstanding is not None:
            self.burst_ends.append(cycle)

    def _run(self, run: Run) -> None:
        exponents = self._arrive(self.request, self.front)
        self.request += 2 * len(run.requests)  # the length of the next request takes a cycle
        accepted = max(exponents + run.exponents - 1, self.looked_up)
        if len(run.requests) == 1:
            came = max(self.bus, exponents + run.exponents, accepted + 1)
        else:
            self._answered(exponents + run.exponents)
            came = self._arrive(self.request - 2, accepted + 1)
        passed = pass_blocks(
            self.bits[run.cls],
            self.machine.data_width,
            self.vector_cycles,
            (run.blocks, run.dropped),
            (
                max(accepted + 1, self.moved, came - 1) - came,
                max(self.moved - came, 0),
                max(self.free - came, 0),
            ),
        )
        self.looked_up, self.moved = came + passed.looked_up, came + passed.moved
        self.free = self.written = came + passed.free
        self.bus = self.front = came + passed.accepted
        self.filled += run.blocks * self.vector_cycles + run.dropped
        self._answered(self.bus)


class RunTimes(NamedTuple):
    """Times of a run: when the last block was looked up, moved to the output and has left, and when
    all beats were taken. Times count cycles from the cycle in which the first mantissas could be
    taken."""

    looked_up: int
    moved: int
    free: int
    accepted: int


@lru_cache(1 << 14)  # most runs meet the state of an earlier run
def pass_blocks(
    bits: tuple[int, int],
    beat: int,
    vector_cycles: int,
    counts: tuple[int, int],
    before: tuple[int, int, int],
) -> RunTimes:
    """Pass the blocks of a run through the buffer. A block waits for its beats, for its look-up,
    and for the block before to leave.

    - ``bits``: bits of a block, and of the largest block of any class, which may remain when a beat
      is taken.
    - ``beat``: bits of a beat.
    - ``vector_cycles``: cycles in which a block is output.
    - ``counts``: numbers of requested and of dropped blocks.
    - ``before``: when the last block of the run before was looked up, moved to the output and will
      have left; times as in :class:`RunTimes`, at least -1, 0 and 0.
    """
    size, largest = bits
    requested, dropped = counts
    looked_up, moved, free = before
    accepted, last_beat = 0, moved - 1  # beats taken, and cycle of the last
    moves: list[int] = []

    def moved_for(before: int) -> int:
        """Return when the buffer has space for a beat after ``before`` beats."""
        index = (before * beat - largest) // size
        return moves[index] if 0 <= index < len(moves) else -1

    for number in range(requested + dropped):
        if number:
            looked_up = max(looked_up + 1, moves[-1])
        needed = ceil_div((number + 1) * size, beat)
        if needed > accepted:  # a beat waits until enough blocks before have moved on
            first = max(last_beat + 1, moved_for(accepted))
            last_beat = max(first + needed - accepted - 1, moved_for(needed - 1))
            accepted = needed
        moves.append(max(last_beat + 1, looked_up + 1, free))
        free = moves[-1] + (vector_cycles if number < requested else 1)
    return RunTimes(looked_up, moves[-1], free, last_beat + 1)


class ChunkLoad(NamedTuple):
    """Work of a port for a chunk: cycles, beats, and cycles in which blocks were written."""

    cycles: int
    beats: int
    filled: int

    @property
    def cause(self) -> tuple[str, float]:
        """Activity that took the time, reading or loading (writing of blocks), and its share of the
        cycles. In the remaining cycles a request waited for free space or for the memory."""
        busy = max(self.beats, self.filled)
        name = "reading" if self.beats >= self.filled else "loading"
        return name, min(1.0, busy / self.cycles) if self.cycles > 0 else 1.0


@dataclass
class Loaders:
    """Loaders of all ports. All loaders begin a chunk together, and the chunk is complete when the
    last loader has loaded its part."""

    machine: ModelledMachine
    request: int
    others: int = 0
    ports: list[Load] = field(init=False)
    last: ChunkLoad = field(init=False)  # of the port that finished the chunk last

    def __post_init__(self) -> None:
        self.ports = [Load(self.machine, self.request, port) for port in range(self.machine.ports)]

    @property
    def beats(self) -> int:
        return sum(port.beats for port in self.ports)

    def moment(self, now: int) -> Moment:
        """Return the state relevant to the next chunks, without the times of free space."""
        oldest = self.requests
        return combined(port.moment(now, oldest) for port in self.ports)

    @property
    def requests(self) -> int:
        """Earliest cycle of the next request."""
        return max(port.request for port in self.ports)

    def later(self, cycles: int) -> None:
        """Shift all times by ``cycles`` cycles."""
        for port in self.ports:
            port.later(cycles)

    def share(self, others: int) -> None:
        """Account for ``others``: number of beats of other units on the first port's bus so far."""
        self.ports[0].bus += others - self.others
        self.others = others

    def chunk(self, chunk: Chunk, free: int) -> int:
        """Load a chunk on all ports as :meth:`Load.chunk` does on one."""
        ask = self.requests
        for port in self.ports:
            port.request = ask
        before = [(port.written, port.beats, port.filled) for port in self.ports]
        loaded = [port.chunk(chunk, free) for port in self.ports]
        port, (written, beats, filled) = max(
            zip(self.ports, before, strict=True), key=lambda each: each[0].written
        )
        self.last = ChunkLoad(port.written - written, port.beats - beats, port.filled - filled)
        return max(loaded)
