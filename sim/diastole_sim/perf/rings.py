"""Model the free space of the load unit in time: places in scratchpads, slots of maxima, chunks
ahead."""

from dataclasses import dataclass, field

from diastole_sim.perf.chunk_walk import Chunk
from diastole_sim.perf.execute import Execute
from diastole_sim.perf.modelled_machine import ModelledMachine
from diastole_sim.perf.moments import Moment, combined, since
from diastole_sim.perf.result_store import EAST, NORTH, Store
from diastole_sim.spec.sizes.queues import CHUNKS_AHEAD

TILES_IN_FLIGHT = 8
"""Most output tiles between the first request for a tile and the read of the tile's last sum."""
REQUEST_DELAY = 6
"""Measured cycles from a chunk's last pass being taken to the next request for a chunk."""
WEST_HALVES = 2
"""Number of halves of the west banks in the fused pass."""


@dataclass
class RingPlaces:
    """Places of a ring, ``most`` of them, taken and given back in order."""

    limit: int
    allocated: int = 0
    freed: list[int] = field(default_factory=list)

    def take(self) -> int:
        """Take the next place; return the first cycle in which the place is free."""
        self.allocated += 1
        needed = self.allocated - self.limit
        return self.freed[needed - 1] if needed > 0 else 0

    def moment(self, now: int, oldest: int) -> Moment:
        """Return how many places are taken, and when the free places became free."""
        free = self.freed[max(0, self.allocated - self.limit) :]
        times = since(now, oldest, (time for time in free if time > oldest))
        return Moment((self.allocated - len(self.freed), len(times)), times)

    def later(self, cycles: int) -> None:
        """Shift all times by ``cycles`` cycles."""
        self.freed = [time + cycles for time in self.freed]


@dataclass
class FreeSpace:
    """Decide when a chunk may be requested. ``slabs``: blocks of a bank that a slab of the
    streaming operand and a slab of the stationary operand take. ``streams``: planes of the
    streaming operand, which stay while the planes of the stationary operand pass."""

    machine: ModelledMachine
    store: Store
    slabs: tuple[int, int]
    fused: bool
    streams: int = 1
    tiles: int = 0
    north_tiles: list[int] = field(default_factory=list)  # banks opened by the end of every tile
    requested: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        stream, stationary = self.slabs
        max_places = (
            self.machine.max_places
        )  # of the streaming operand; the fused pass holds all of dY
        self.rings = (
            RingPlaces(min(max_places * self.streams, self.machine.stream_blocks // stream)),
            RingPlaces(self.machine.stationary_blocks // stationary),
        )
        self.west = RingPlaces(min(max_places, WEST_HALVES))

    def take(self, chunk: Chunk) -> int:
        """Return the first cycle with free space for the data of a chunk."""
        free = [0]
        for ring, loads in zip(self.rings, chunk.loads, strict=True):
            if loads:
                free.append(ring.take())
        if chunk.first and self.fused:
            free.append(self.west.take())
        if chunk.first:
            free.append(self._tile(chunk))
        if len(self.requested) >= CHUNKS_AHEAD:
            free.append(self.requested[-CHUNKS_AHEAD] + REQUEST_DELAY)
        return max(free)

    def _tile(self, chunk: Chunk) -> int:
        """Return when a slot of maxima is free for another tile, in every direction of the chunk: a
        cycle after a drain has released the slot."""
        oldest = self.tiles - TILES_IN_FLIGHT
        self.tiles += 1
        if oldest < 0:
            return 0
        free = 0
        if chunk.uses[EAST]:
            free = self.store.drained(EAST, oldest)
        if chunk.uses[NORTH]:
            # In the fused pass every chunk has a bank, and the bank of a tile's last chunk counts.
            number = self.north_tiles[oldest] - 1 if self.fused else oldest
            free = max(free, self.store.drained(NORTH, number))
        return free + 1

    def moment(self, now: int, oldest: int) -> Moment:
        """Return the state relevant to the next chunks. Nothing is taken before ``oldest``."""
        places = [ring.moment(now, oldest) for ring in (*self.rings, self.west)]
        requested = ([oldest] * CHUNKS_AHEAD + self.requested)[-CHUNKS_AHEAD:]
        return combined(
            [*places, Moment((), since(now, oldest, requested)), self._tiles(now, oldest)]
        )

    def _tiles(self, now: int, oldest: int) -> Moment:
        """Return when the last tiles were drained, and how many tiles are not yet drained."""
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
        """Shift all times by ``cycles`` cycles. Chunks and tiles that were passed over are not
        recorded, since only differences between counts matter."""
        for ring in (*self.rings, self.west):
            ring.later(cycles)
        self.requested = [time + cycles for time in self.requested]

    def note_chunk(self, chunk: Chunk, execute: Execute, freed: int) -> None:
        """Record that the chunk's last pass has been walked. The places of the chunk are free from
        ``freed`` on."""
        self.requested.append(execute.accepted)
        for ring, frees in zip(self.rings, chunk.frees, strict=True):
            if frees:
                ring.freed.append(freed)
        if chunk.last:
            if self.fused:
                self.west.freed.append(freed)
            self.north_tiles.append(self.store.drains[NORTH].opened)
