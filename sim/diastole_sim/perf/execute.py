"""The execute unit in time: passes back to back, as long as blocks and banks are there."""

from dataclasses import dataclass, field

from diastole_sim.perf.chunk_walk import Chunk
from diastole_sim.perf.modelled_machine import ModelledMachine
from diastole_sim.perf.moments import Moment
from diastole_sim.perf.result_store import Store

SHORTEST_PASS = 4  # cycles
BEFORE_SUMS = 2  # from a slot to the first sum that is read to be added to
PASSES_AHEAD = 2  # in the queue in front of the array


@dataclass
class Execute:
    """Passes one after the other. ``idle``: cycles in which nothing streamed, by what was awaited.

    A pass takes as long as its slots, the loading of the next blocks (R * B words) or 4 cycles,
    whatever is longest.
    """

    machine: ModelledMachine
    store: Store
    taken: int = 0  # when the pass at hand left the walk
    overwriting: int = 0  # slices that come yet whose sums are written over what was there
    swaps: list[int] = field(default_factory=lambda: [-SHORTEST_PASS])
    starts: list[int] = field(default_factory=lambda: [0] * PASSES_AHEAD)
    end: int | None = None  # last slot so far
    idle: dict[str, int] = field(default_factory=lambda: {"load": 0, "accumulator": 0, "short": 0})

    def chunk(self, chunk: Chunk, loaded: int) -> int:
        """Run a loaded chunk; the cycle from which its places may be loaded again."""
        count, number = chunk.slices * chunk.groups, 0
        before: tuple[int, ...] = ()
        overwrites = chunk.groups * self._overwriting(chunk)  # passes that add to nothing
        added = None  # when the first of the others begins, and cycles to the next
        while number < count:
            last_swap = self.swaps[-1]
            self._pass(chunk, loaded, first=number == 0, last=number == count - 1)
            if added is None and number >= overwrites:
                pitch = self.swaps[-1] - last_swap
                added = self.swaps[-1] - (number - overwrites) * pitch, pitch
            number += 1
            assert self.end is not None
            swap = self.swaps[-1]
            left = (self.end - swap, self.taken - swap, *(start - swap for start in self.starts))
            if left == before and number < count - 1:  # so do all but the last, which closes tiles
                self._repeat(count - 1 - number, swap - last_swap, chunk)
                number = count - 1
            before = left
        assert self.end is not None, "a chunk without passes"
        if added is not None and sum(chunk.uses) == 1:
            self._added(chunk, *added)
        return self.end + 2 + max(self.machine.rows, self.machine.cols)

    def _overwriting(self, chunk: Chunk) -> int:
        """How many slices of a chunk are among the first of their contraction."""
        if chunk.first:
            self.overwriting = self.machine.overwriting_slices(north=chunk.uses[1])
        count = min(self.overwriting, chunk.slices)
        self.overwriting -= count
        return count

    def moment(self, now: int) -> Moment:
        """Return what the next pass depends on, besides its blocks and banks."""
        times = self.taken, self.swaps[-1], *self.starts
        return Moment((self.overwriting,), tuple(time - now for time in times))

    def later(self, cycles: int) -> None:
        """Shift all times by so many cycles."""
        assert self.end is not None
        self.taken += cycles
        self.swaps = [self.swaps[-1] + cycles]
        self.starts = [start + cycles for start in self.starts]
        self.end += cycles

    def _pass(self, chunk: Chunk, loaded: int, *, first: bool, last: bool) -> None:
        """One pass; the ``first`` of a chunk waits for its blocks, and opens tiles."""
        ready = max(self.taken + 1, self.starts[-PASSES_AHEAD] + 1)
        have = max(ready, loaded + 1)
        free = have
        if first:
            for direction in (0, 1):
                if chunk.opens[direction]:
                    free = max(free, self.store.bank(direction) + 1)
        self.taken = free
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
        """Passes of a chunk added to sums: the ``first`` one from a cycle on, and others each so
        many cycles later. Where their slots follow closely, sums are added all the time."""
        assert self.end is not None
        direction, inside = chunk.uses.index(True), chunk.slots + self._skew
        if pitch <= inside - BEFORE_SUMS:
            self.store.adds(direction, first + BEFORE_SUMS, self.end + self._skew)
            return
        for begin in range(first, self.swaps[-1] + 1, pitch):
            self.store.adds(direction, begin + BEFORE_SUMS, begin + inside)

    def _repeat(self, count: int, cycles: int, chunk: Chunk) -> None:
        """Add ``count`` passes, each ``cycles`` cycles after the pass before. Each pass leaves the
        state of the pass before, only later, and nothing that they need comes late."""
        assert self.end is not None
        later = count * cycles
        self.taken += later
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
