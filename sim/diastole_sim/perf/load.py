"""The load unit in time: requests ahead, then groups of blocks parsed, cut, turned and written."""

from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from diastole_sim.perf.chunk_walk import Chunk, LoadedRegion, Run
from diastole_sim.perf.modelled_machine import ModelledMachine
from diastole_sim.perf.moments import Moment, since, together
from diastole_sim.spec.integers import ceil_div
from diastole_sim.spec.sizes.queues import REGIONS_AHEAD

OPEN_REGIONS = REGIONS_AHEAD + 1
"""Regions that are requested and whose last beat has not been taken: with the region at work."""
BEHIND = 1
"""Cycles from a burst's last beat in memory to its being taken."""
IN_TIME = 64
"""Cycles by which data that come so much earlier than they are wanted do not come late, whatever
the address of a row takes."""
WORTH_KNOWING = 6
"""Runs of a region, from which on it is quicker to remember what they leave behind."""
MOST_KNOWN = 1 << 14
"""Regions that are remembered."""


@dataclass
class Load:
    """Chunks one after the other; every time is a cycle, counted from the product's start.

    The data of a chunk passes three stages that overlap: the bus, a front that tells exponents from
    mantissas, and a buffer in which a block fills while the one before leaves, some vectors per
    cycle. A block moves on, to where it leaves, when it is whole, described and the one before has
    left.
    """

    machine: ModelledMachine
    ask: int  # when the next request may go out
    port: int = 0
    bus: int = 0  # when the bus may give its next beat
    front: int = 0  # when the front may look at the next beat
    looked_up: int = 0  # when the last block of the run before was
    moved: int = 0  # when that one moved on
    free: int = 0  # when the next block may move on
    written: int = -1  # cycle of the last vector written
    beats: int = 0
    maxima: int = 0  # of these
    filled: int = 0  # cycles in which blocks were written
    late: int = 0  # requests whose data come late, or nearly so
    addresses: int = 0  # that were products
    spare: int = 0  # cycles in which there was no room for what could be asked for
    taken: deque[int] = field(default_factory=deque)  # when the last regions' beats all were
    answered: deque[int] = field(default_factory=deque)  # when the open bursts were, oldest first

    def __post_init__(self) -> None:
        sizes = [layout.block * layout.row_bits for layout in self.machine.group_layouts]
        self.bits = tuple((size, max(sizes)) for size in sizes)
        self.vector_cycles = ceil_div(self.machine.block, self.machine.filled)

    def chunk(self, chunk: Chunk, free: int) -> int:
        """Load a chunk, for which there is room from ``free`` on; the cycle from which on it is
        all there."""
        self.spare += max(0, free + 2 - self.ask)
        self.ask = max(self.ask, free + 2) + 1
        for whole in chunk.regions:
            region = whole.of_port(self.port, self.machine.ports)
            if not region.beats:
                continue
            self.beats += region.beats
            full = len(self.taken) == OPEN_REGIONS
            described = self.taken.popleft() + 1 if full else 0  # at the earliest
            if region.maxima_beats:
                self.ask = max(self.ask + 1, described)  # their address takes a cycle
                self._maxima(region)
            else:  # the address is a product
                address = self.ask + 2 + region.first_row.bit_length()
                self.ask = max(address, described + 1)
                self.addresses += 1
                self.spare += self.ask - address
                self._blocks(region)
            self.taken.append(self.front)
        if any(chunk.loads) or any(region.rows for region in chunk.regions):  # W in a fused pass
            return self.written
        return self.front if chunk.first else 0

    def moment(self, now: int, oldest: int) -> Moment:
        """Return what the next chunk depends on, besides when there is room."""
        units = self.bus, self.front, self.looked_up, self.moved, self.free, self.written
        times = since(now, oldest, (*units, *self.taken, *self.answered))
        return Moment((len(self.taken), len(self.answered)), (self.ask - now, *times))

    def later(self, cycles: int) -> None:
        """Shift all times by so many cycles."""
        self.ask += cycles
        self.bus += cycles
        self.front += cycles
        self.looked_up += cycles
        self.moved += cycles
        self.free += cycles
        self.written += cycles
        self.taken = deque(time + cycles for time in self.taken)
        self.answered = deque(time + cycles for time in self.answered)

    def _maxima(self, region: LoadedRegion) -> None:
        start = self._arrive(self.ask, self.front)
        self.bus = start + region.maxima_beats
        self.maxima += region.maxima_beats
        self.front = self.bus
        self._answered(self.bus)
        self.ask += 1

    def _blocks(self, region: LoadedRegion) -> None:
        """Blocks row by row; what they leave behind is known where some like them came to the same
        state."""
        if region.rows * len(region.runs) < WORTH_KNOWING:
            self._rows(region)
            return
        ask = self.ask
        times = self.bus, self.front, self.looked_up, self.moved, self.free, *self.answered
        before = (region.rows, region.runs, *[time - ask if time > ask else 0 for time in times])
        known = self.machine.known_loads
        found = known.get(before)
        if found is None:
            filled, late = self.filled, self.late
            self._rows(region)
            times = self.bus, self.front, self.looked_up, self.moved, self.free, *self.answered
            counts = self.filled - filled, self.late - late
            if len(known) >= MOST_KNOWN:
                known.clear()
            known[before] = self.ask - ask, *counts, *[time - ask for time in times]
            return
        later, filled, late, *since = found
        self.ask += later
        self.filled += filled
        self.late += late
        self.bus, self.front, self.looked_up, self.moved, self.free = (ask + t for t in since[:5])
        self.written = self.free
        self.answered = deque([ask + time for time in since[5:]])

    def _rows(self, region: LoadedRegion) -> None:
        for _ in range(region.rows):
            self.ask += 1
            for run in region.runs:
                self._run(run)
            self.ask -= 1  # nothing follows the last request of a row a cycle later
        self.ask += 1

    def _arrive(self, asked: int, wanted: int) -> int:
        """The cycle in which the first beat of a request is taken; the memory takes a request when
        it has not too many open."""
        memory = self.machine.memory
        if len(self.answered) == memory.outstanding:
            asked = max(asked, self.answered.popleft() - BEHIND)
        comes, wanted = asked + memory.read_cycles, max(self.bus, wanted)
        self.late += comes + IN_TIME > wanted
        return max(comes, wanted)

    def _answered(self, cycle: int) -> None:
        if self.machine.memory.outstanding is not None:
            self.answered.append(cycle)

    def _run(self, run: Run) -> None:
        exponents = self._arrive(self.ask, self.front)
        self.ask += 2 * len(run.requests)  # how much the next one asks for takes a cycle
        accepted = max(exponents + run.exponents - 1, self.looked_up)
        if len(run.requests) == 1:
            came = max(self.bus, exponents + run.exponents, accepted + 1)
        else:
            self._answered(exponents + run.exponents)
            came = self._arrive(self.ask - 2, accepted + 1)
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
        self.bus = self.front = came + passed.taken
        self.filled += run.blocks * self.vector_cycles + run.dropped
        self._answered(self.bus)


class RunTimes(NamedTuple):
    """When the last block of a run was looked up, moved on and has left, and all beats were taken:
    cycles from the one in which its first mantissas could be taken."""

    looked_up: int
    moved: int
    free: int
    taken: int


@lru_cache(1 << 14)  # runs are alike: most of them meet the same state as some before
def pass_blocks(
    bits: tuple[int, int],
    beat: int,
    vector_cycles: int,
    counts: tuple[int, int],
    before: tuple[int, int, int],
) -> RunTimes:
    """The blocks of a run through the buffer: each waits for its beats, for being looked up, and
    for the one before to leave.

    ``bits`` of a block, and of the largest of any class, of which one may be left over when a beat
    is taken; ``beat``: bits of a beat; ``vector_cycles`` of a block that leaves; ``counts``: blocks
    that are wanted, and dropped; ``before``: when the last block of the run before was looked up,
    moved on and will have left, times as in :class:`RunTimes`, at least -1, 0 and 0.
    """
    size, most = bits
    wanted, dropped = counts
    looked_up, moved, free = before
    taken, last_beat = 0, moved - 1  # of the beats so far
    moves: list[int] = []

    def moved_for(before: int) -> int:
        """When there is room for a beat after so many."""
        index = (before * beat - most) // size
        return moves[index] if 0 <= index < len(moves) else -1

    for number in range(wanted + dropped):
        if number:
            looked_up = max(looked_up + 1, moves[-1])
        needed = ceil_div((number + 1) * size, beat)
        if needed > taken:  # each waits until enough blocks before it have moved on
            first = max(last_beat + 1, moved_for(taken))
            last_beat = max(first + needed - taken - 1, moved_for(needed - 1))
            taken = needed
        moves.append(max(last_beat + 1, looked_up + 1, free))
        free = moves[-1] + (vector_cycles if number < wanted else 1)
    return RunTimes(looked_up, moves[-1], free, last_beat + 1)


class ChunkLoad(NamedTuple):
    """What a port did for a chunk: in how many cycles, its beats, and the cycles in which blocks
    were written."""

    cycles: int
    beats: int
    filled: int

    @property
    def cause(self) -> tuple[str, float]:
        """What took the time, the bus or the writing of blocks, and its share of the cycles; in the
        others a request waited for room, or for the memory."""
        busy = max(self.beats, self.filled)
        name = "reading" if self.beats >= self.filled else "loading"
        return name, min(1.0, busy / self.cycles) if self.cycles > 0 else 1.0


@dataclass
class Loaders:
    """A loader for each port: all begin a chunk in the same cycle, and it is there when the last of
    them has loaded its part."""

    machine: ModelledMachine
    ask: int
    others: int = 0
    ports: list[Load] = field(init=False)
    last: ChunkLoad = field(init=False)  # of the port that was the last one with a chunk

    def __post_init__(self) -> None:
        self.ports = [Load(self.machine, self.ask, port) for port in range(self.machine.ports)]

    @property
    def beats(self) -> int:
        return sum(port.beats for port in self.ports)

    def moment(self, now: int) -> Moment:
        """Return what the next chunks depend on, besides when there is room."""
        oldest = self.asks
        return together(port.moment(now, oldest) for port in self.ports)

    @property
    def asks(self) -> int:
        """The earliest cycle of the next request."""
        return max(port.ask for port in self.ports)

    def later(self, cycles: int) -> None:
        """Shift all times by so many cycles."""
        for port in self.ports:
            port.later(cycles)

    def share(self, others: int) -> None:
        """So many beats of the first port's bus have been others' so far."""
        self.ports[0].bus += others - self.others
        self.others = others

    def chunk(self, chunk: Chunk, free: int) -> int:
        """As of :class:`Load`."""
        ask = self.asks
        for port in self.ports:
            port.ask = ask
        before = [(port.written, port.beats, port.filled) for port in self.ports]
        loaded = [port.chunk(chunk, free) for port in self.ports]
        port, (written, beats, filled) = max(
            zip(self.ports, before, strict=True), key=lambda each: each[0].written
        )
        self.last = ChunkLoad(port.written - written, port.beats - beats, port.filled - filled)
        return max(loaded)
