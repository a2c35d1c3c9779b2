"""Model the execute unit in time: passes run back to back while blocks and banks are ready."""

from dataclasses import dataclass, field

from diastole_sim.perf.chunk_walk import Chunk
from diastole_sim.perf.modelled_machine import ModelledMachine
from diastole_sim.perf.moments import Moment
from diastole_sim.perf.result_store import Store

SHORTEST_PASS = 4  # cycles
BEFORE_SUMS = 2  # cycles from a slot to the first read of a sum that is added to
PASSES_AHEAD = 2  # passes in the queue in front of the array


@dataclass
class Execute:
    """Run passes in sequence. ``idle``: cycles without a streaming vector, by cause.

    A pass takes the longest of three times: its slots, the loading of the next blocks (R * B
    words), and 4 cycles.
    """

    machine: ModelledMachine
    store: Store
    accepted: int = 0  # when the current pass left the walk
    overwriting: int = 0  # slices to come whose sums overwrite the old sums
    swaps: list[int] = field(default_factory=lambda: [-SHORTEST_PASS])
    starts: list[int] = field(default_factory=lambda: [0] * PASSES_AHEAD)
    end: int | None = None  # last slot so far
    idle: dict[str, int] = field(default_factory=lambda: {"load": 0, "accumulator": 0, "short": 0})

    def chunk(self, chunk: Chunk, loaded: int) -> int:
        """Run a loaded chunk. Return the first cycle in which the chunk's places may be loaded
        again."""
        count, number = chunk.slices * chunk.groups, 0
        before: tuple[int, ...] = ()
        overwrites = chunk.groups * self._overwriting(chunk)  # passes that overwrite
        added = None  # first cycle of the adding passes, and their distance
        while number < count:
            last_swap = self.swaps[-1]
            self._pass(chunk, loaded, first=number == 0, last=number == count - 1)
            if added is None and number >= overwrites:
                pitch = self.swaps[-1] - last_swap
                added = self.swaps[-1] - (number - overwrites) * pitch, pitch
            number += 1
            assert self.end is not None
            swap = self.swaps[-1]
            left = (self.end - swap, self.accepted - swap, *(start - swap for start in self.starts))
            if left == before and number < count - 1:  # all but the last pass repeat
                self._repeat(count - 1 - number, swap - last_swap, chunk)
                number = count - 1
            before = left
        assert self.end is not None, "a chunk without passes"
        if added is not None and sum(chunk.uses) == 1:
            self._added(chunk, *added)
        return self.end + 2 + max(self.machine.rows, self.machine.cols)

    def _overwriting(self, chunk: Chunk) -> int:
        """Return how many slices of a chunk are among the first slices of their contraction."""
        if chunk.first:
            self.overwriting = self.machine.overwriting_slices(north=chunk.uses[1])
        count = min(self.overwriting, chunk.slices)
        self.overwriting -= count
        return count

    def moment(self, now: int) -> Moment:
        """Return the state relevant to the next pass, without its blocks and banks."""
        times = self.accepted, self.swaps[-1], *self.starts
        return Moment((self.overwriting,), tuple(time - now for time in times))

    def later(self, cycles: int) -> None:
        """Shift all times by ``cycles`` cycles."""
        assert self.end is not None
        self.accepted += cycles
        self.swaps = [self.swaps[-1] + cycles]
        self.starts = [start + cycles for start in self.starts]
        self.end += cycles

    def _pass(self, chunk: Chunk, loaded: int, *, first: bool, last: bool) -> None:
        """Run one pass. The ``first`` pass of a chunk waits for its blocks, and opens tiles. The
        ``last`` pass closes tiles."""
        ready = max(self.accepted + 1, self.starts[-PASSES_AHEAD] + 1)
        have = max(ready, loaded + 1)
        free = have
        if first:
            for direction in (0, 1):
                if chunk.opens[direction]:
                    free = max(free, self.store.bank(direction) + 1)
        self.accepted = free
        start = max(free + 1, self.swaps[-1])
        swap = start + self.machine.rows * self.machine.block
        swap = max(swap, self.swaps[-1] + SHORTEST_PASS)
        if self.end is None:
            self.idle["load"] += swap
        else:
            self._waited(max(swap - self.end, 0), ready, have, free)
            swap = max(swap, self.end)
        self.starts = [*self.starts[1:], start]
        self.swaps = [swap]
        self.end = swap + chunk.slots * sum(chunk.uses)
        if last and chunk.closes[0]:
            self._close(0, swap + chunk.slots, chunk)
        if last and chunk.closes[1]:
            self._close(1, self.end, chunk)

    def _added(self, chunk: Chunk, first: int, pitch: int) -> None:
        """Record that passes of a chunk add to sums: the first pass in cycle ``first``, and further
        passes ``pitch`` cycles apart. If the slots of passes follow closely, sums are added all the
        time."""
        assert self.end is not None
        direction, inside = chunk.uses.index(True), chunk.slots + self._skew
        if pitch <= inside - BEFORE_SUMS:
            self.store.adds(direction, first + BEFORE_SUMS, self.end + self._skew)
            return
        for begin in range(first, self.swaps[-1] + 1, pitch):
            self.store.adds(direction, begin + BEFORE_SUMS, begin + inside)

    def _repeat(self, count: int, cycles: int, chunk: Chunk) -> None:
        """Add ``count`` passes, ``cycles`` cycles apart. Every pass leaves the state of the pass
        before, only later, and nothing that the passes need comes late."""
        assert self.end is not None
        later = count * cycles
        self.accepted += later
        self.starts = [start + later for start in self.starts]
        self.swaps = [swap + later for swap in self.swaps]
        self.end += later
        self.idle["short"] += count * (cycles - chunk.slots * sum(chunk.uses))

    def _waited(self, cycles: int, ready: int, have: int, free: int) -> None:
        bank, load = min(cycles, free - have), min(cycles, have - ready)
        self.idle["accumulator"] += bank
        self.idle["load"] += min(load, cycles - bank)
        self.idle["short"] += cycles - bank - min(load, cycles - bank)

    def _close(self, direction: int, last_slot: int, chunk: Chunk) -> None:
        self.store.tile(direction, last_slot + self._skew + 3, chunk.spans[direction])

    @property
    def _skew(self) -> int:
        """Cycles from a slot to the sums behind the last port."""
        return self.machine.rows + self.machine.cols + self.machine.cell_cycles
