"""The room of the load unit in time: places of scratchpads, slots of maxima, chunks ahead."""

from dataclasses import dataclass, field

from diastole_sim.perf.execute import Execute
from diastole_sim.perf.machine import ModelledMachine
from diastole_sim.perf.store import EAST, NORTH, Store
from diastole_sim.perf.walk import Chunk

TILES_IN_FLIGHT = 4
"""Output tiles between the first request for one and the last of its sums that is read."""
CHUNKS_AHEAD = 15
"""Chunks that are asked for and whose first pass has not begun."""
WEST_HALVES = 2
"""Of the banks in the west, in the fused pass."""


@dataclass
class RingPlaces:
    """So many ``places``, taken and given back in their order."""

    places: int
    taken: int = 0
    freed: list[int] = field(default_factory=list)

    def take(self) -> int:
        """The cycle from which the next place is free."""
        self.taken += 1
        needed = self.taken - self.places
        return self.freed[needed - 1] if needed > 0 else 0


@dataclass
class Room:
    """When a chunk may be asked for. ``slabs``: blocks of a bank of what streams and is held."""

    machine: ModelledMachine
    store: Store
    slabs: tuple[int, int]
    fused: bool
    tiles: int = 0
    north_tiles: list[int] = field(default_factory=list)  # banks that were opened by its end
    begun: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        blocks = self.machine.stream_blocks, self.machine.held_blocks
        most = self.machine.most_places
        self.rings = [
            RingPlaces(min(most, whole // slab))
            for whole, slab in zip(blocks, self.slabs, strict=True)
        ]
        self.west = RingPlaces(min(most, WEST_HALVES))

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
        if len(self.begun) >= CHUNKS_AHEAD:
            free.append(self.begun[-CHUNKS_AHEAD])
        return max(free)

    def _tile(self, chunk: Chunk) -> int:
        """When there is a slot of maxima for another tile, in every direction that it uses."""
        oldest = self.tiles - TILES_IN_FLIGHT
        self.tiles += 1
        free = 0
        if oldest >= 0:
            if chunk.uses[EAST]:
                free = self.store.drained(EAST, oldest)
            if chunk.uses[
                NORTH
            ]:  # in the fused pass each chunk has a bank, and the last one counts
                number = self.north_tiles[oldest] - 1 if self.fused else oldest
                free = max(free, self.store.drained(NORTH, number))
        return free

    def ran(self, chunk: Chunk, execute: Execute, freed: int) -> None:
        """The chunk's last pass has been walked: its places are free from ``freed`` on."""
        self.begun.append(execute.begun)
        for ring, frees in zip(self.rings, chunk.frees, strict=True):
            if frees:
                ring.freed.append(freed)
        if chunk.last:
            self.west.freed.append(freed)
            self.north_tiles.append(self.store.drains[NORTH].opened)
