"""The room of the load unit in time: places of scratchpads, slots of maxima, chunks ahead."""

from dataclasses import dataclass, field

from diastole_sim.perf.chunk_walk import Chunk
from diastole_sim.perf.execute import Execute
from diastole_sim.perf.modelled_machine import ModelledMachine
from diastole_sim.perf.moments import Moment, since, together
from diastole_sim.perf.result_store import EAST, NORTH, Store
from diastole_sim.spec.sizes.queues import CHUNKS_AHEAD

TILES_IN_FLIGHT = 8
"""Output tiles between the first request for one and the last of its sums that is read."""
ASKED_AFTER = 6
"""Cycles after a chunk's last pass is taken, as they were measured, to the next request for one."""
WEST_HALVES = 2
"""Of the banks in the west, in the fused pass."""


@dataclass
class Places:
    """Those of a ring, ``most`` of them, taken and given back in their order."""

    most: int
    taken: int = 0
    freed: list[int] = field(default_factory=list)

    def take(self) -> int:
        """The cycle from which the next place is free."""
        self.taken += 1
        needed = self.taken - self.most
        return self.freed[needed - 1] if needed > 0 else 0

    def moment(self, now: int, oldest: int) -> Moment:
        """Return how many places are taken, and when the free ones became so."""
        free = self.freed[max(0, self.taken - self.most) :]
        times = since(now, oldest, (time for time in free if time > oldest))
        return Moment((self.taken - len(self.freed), len(times)), times)

    def later(self, cycles: int) -> None:
        """Shift all times by so many cycles."""
        self.freed = [time + cycles for time in self.freed]


@dataclass
class Room:
    """When a chunk may be asked for. ``slabs``: blocks of a bank of what streams and is held;
    ``streams``: planes of what streams, which stay while those of what is held come by."""

    machine: ModelledMachine
    store: Store
    slabs: tuple[int, int]
    fused: bool
    streams: int = 1
    tiles: int = 0
    north_tiles: list[int] = field(default_factory=list)  # banks that were opened by its end
    taken: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        stream, held = self.slabs
        most = self.machine.most_places  # of what streams: the fused pass holds all of dY
        self.rings = (
            Places(min(most * self.streams, self.machine.stream_blocks // stream)),
            Places(self.machine.held_blocks // held),
        )
        self.west = Places(min(most, WEST_HALVES))

    def take(self, chunk: Chunk) -> int:
        """The cycle from which there is room for what the chunk loads."""
        free = [0]
        for ring, loads in zip(self.rings, chunk.loads, strict=True):
            if loads:
                free.append(ring.take())
        if chunk.first and self.fused:
            free.append(self.west.take())
        if chunk.first:
            free.append(self._tile(chunk))
        if len(self.taken) >= CHUNKS_AHEAD:
            free.append(self.taken[-CHUNKS_AHEAD] + ASKED_AFTER)
        return max(free)

    def _tile(self, chunk: Chunk) -> int:
        """When there is a slot of maxima for another tile, in every direction that it uses: a cycle
        after a drain has let go of it."""
        oldest = self.tiles - TILES_IN_FLIGHT
        self.tiles += 1
        if oldest < 0:
            return 0
        free = 0
        if chunk.uses[EAST]:
            free = self.store.drained(EAST, oldest)
        if chunk.uses[NORTH]:
            # In the fused pass each chunk has a bank, and that of a tile's last one counts.
            number = self.north_tiles[oldest] - 1 if self.fused else oldest
            free = max(free, self.store.drained(NORTH, number))
        return free + 1

    def moment(self, now: int, oldest: int) -> Moment:
        """Return what the next chunks wait for; nothing is taken before ``oldest``."""
        places = [ring.moment(now, oldest) for ring in (*self.rings, self.west)]
        taken = ([oldest] * CHUNKS_AHEAD + self.taken)[-CHUNKS_AHEAD:]
        return together([*places, Moment((), since(now, oldest, taken)), self._tiles(now, oldest)])

    def _tiles(self, now: int, oldest: int) -> Moment:
        """Return when the last tiles were drained, and how many are not."""
        counts: list[int] = []
        times: list[int] = []
        for direction, drain in enumerate(self.store.drains):
            if not drain.opened:
                continue
            numbers = list(range(self.tiles - TILES_IN_FLIGHT, self.tiles))
            if direction == NORTH and self.fused:
                numbers = [tile - 1 for tile in self.north_tiles[-TILES_IN_FLIGHT:]]
                numbers = [-1] * (TILES_IN_FLIGHT - len(numbers)) + numbers
            drained = [
                drain.freed[n] if n >= 0 else oldest for n in numbers if n < len(drain.freed)
            ]
            times += drained
            counts += [number - len(drain.freed) for number in numbers[len(drained) :]]
            counts.append(len(drained))
        return Moment(tuple(counts), since(now, oldest, times))

    def later(self, cycles: int) -> None:
        """Shift all times by so many cycles. Chunks and tiles that are passed over were never
        there: only how many there are beyond others counts."""
        for ring in (*self.rings, self.west):
            ring.later(cycles)
        self.taken = [time + cycles for time in self.taken]

    def ran(self, chunk: Chunk, execute: Execute, freed: int) -> None:
        """The chunk's last pass has been walked: its places are free from ``freed`` on."""
        self.taken.append(execute.taken)
        for ring, frees in zip(self.rings, chunk.frees, strict=True):
            if frees:
                ring.freed.append(freed)
        if chunk.last:
            if self.fused:
                self.west.freed.append(freed)
            self.north_tiles.append(self.store.drains[NORTH].opened)
