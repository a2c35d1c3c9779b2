"""The execute unit in time: passes back to back, as long as blocks and banks are there."""

from dataclasses import dataclass, field

from diastole_sim.perf.machine import ModelledMachine
from diastole_sim.perf.store import Store
from diastole_sim.perf.walk import Chunk

SHORTEST_PASS = 4  # cycles
PASSES_AHEAD = 2  # in the queue in front of the array
PIPELINE = 2  # cycles in a cell after its operands


@dataclass
class Execute:
    """Passes one after the other. ``idle``: cycles in which nothing streamed, by what was awaited.

    A pass takes as long as its slots, the loading of the next blocks (R * B words) or 4 cycles,
    whatever is longest.
    """

    machine: ModelledMachine
    store: Store
    taken: int = 0  # when the pass at hand left the walk
    begun: int = 0  # when the first one of the chunk at hand did
    swaps: list[int] = field(default_factory=lambda: [-SHORTEST_PASS])
    starts: list[int] = field(default_factory=lambda: [0] * PASSES_AHEAD)
    end: int | None = None  # last slot so far
    idle: dict[str, int] = field(default_factory=lambda: {"load": 0, "accumulator": 0, "short": 0})

    def chunk(self, chunk: Chunk, loaded: int) -> int:
        """Run a loaded chunk; the cycle from which its places may be loaded again."""
        count = chunk.slices * chunk.groups
        busy = chunk.slots * sum(chunk.uses)
        for number in range(count):
            last_of_chunk = number == count - 1
            last_group = number % chunk.groups == chunk.groups - 1
            ready = max(self.taken + 1, self.starts[-PASSES_AHEAD] + 1)
            have = max(ready, loaded + 1)
            free = have
            if number == 0:
                for direction in (0, 1):
                    if chunk.opens[direction]:
                        free = max(free, self.store.bank(direction) + 1)
            self.taken = free
            if number == 0:
                self.begun = free
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
            self.end = swap + busy
            if chunk.closes[0] and last_of_chunk:
                self._close(0, swap + chunk.slots, chunk)
            if chunk.closes[1] and last_of_chunk and last_group:
                self._close(1, self.end, chunk)
        assert self.end is not None, "a chunk without passes"
        return self.end + 2 + max(self.machine.rows, self.machine.cols)

    def _waited(self, cycles: int, ready: int, have: int, free: int) -> None:
        bank, load = min(cycles, free - have), min(cycles, have - ready)
        self.idle["accumulator"] += bank
        self.idle["load"] += min(load, cycles - bank)
        self.idle["short"] += cycles - bank - min(load, cycles - bank)

    def _close(self, direction: int, last_slot: int, chunk: Chunk) -> None:
        machine = self.machine
        skew = machine.rows + machine.cols + PIPELINE
        self.store.tile(direction, last_slot + skew + 3, chunk.spans[direction])
