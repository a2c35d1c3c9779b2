"""The planned store in time: rows of both directions through one pipe, dX's first; and rings."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from diastole_sim.perf.machine import ceil_div
from diastole_sim.perf.planned.machine import PlannedMachine

PIPELINE = 9
"""Cycles from a tile's last sum to its first beat."""
EAST, NORTH = 0, 1


@dataclass
class Tile:
    """Rows that wait: of ``cycles`` each, from ``ready`` on. ``done``: when they are written."""

    ready: float
    rows: int
    cycles: float
    done: float | None = None


@dataclass
class MergedStore:
    """Advanced as far as somebody asks about a tile. ``beats``: of all tiles so far."""

    machine: PlannedMachine
    time: float = 0.0
    beats: int = 0
    queues: tuple[deque[Tile], deque[Tile]] = field(default_factory=lambda: (deque(), deque()))

    def tile(self, direction: int, ready: float, *, rows: int, cols: int, vectors: int) -> Tile:
        """Sums of ``rows`` rows of ``cols`` floats are complete at ``ready``; ``vectors`` of B."""
        machine = self.machine
        beats = ceil_div(4 * cols, machine.beat_bytes)
        self.beats += rows * beats
        cycles = max(ceil_div(beats, machine.ports), vectors / machine.drain_vectors)
        tile = Tile(ready + PIPELINE, rows, cycles)
        self.queues[direction].append(tile)
        return tile

    def until(self, tile: Tile) -> float:
        """When it is written."""
        while tile.done is None:
            self._advance()
        return tile.done

    def finish(self) -> float:
        """When the last row is."""
        while any(self.queues):
            self._advance()
        return self.time

    def _advance(self) -> None:
        """A row to the east, or all rows of a tile: to the north, or where nobody else waits."""
        waiting = [(max(q[0].ready, self.time), -d) for d, q in enumerate(self.queues) if q]
        at, direction = min(waiting)
        queue = self.queues[-direction]
        tile = queue[0]
        alone = len(waiting) == 1 or -direction == NORTH
        rows = tile.rows if alone else 1
        self.time = tile.ready = at + rows * tile.cycles
        tile.rows -= rows
        if not tile.rows:
            tile.done = self.time
            queue.popleft()


@dataclass
class Place:
    """What was given out of a ring; ``free``: when it came back, or what tells."""

    blocks: int
    free: float | Tile | None = None


@dataclass
class Ring:
    """``size`` blocks of a memory, given out and given back in order, ``unit`` at a time."""

    size: int
    unit: int = 1
    written: Callable[[Tile], float] | None = None  # of tiles whose sums are in this ring
    used: int = 0
    places: deque[Place] = field(default_factory=deque)

    def take(self, blocks: int) -> tuple[float, Place]:
        """When there is room, and the place. ValueError if there never is."""
        blocks = ceil_div(blocks, self.unit) * self.unit
        if blocks > self.size:
            raise ValueError(f"a nest needs {blocks} blocks of a ring of {self.size}")
        since = 0.0
        while self.used + blocks > self.size:
            oldest = self.places.popleft()
            self.used -= oldest.blocks
            since = max(since, self._freed(oldest))
        place = Place(blocks)
        self.used += blocks
        self.places.append(place)
        return since, place

    def _freed(self, place: Place) -> float:
        if isinstance(place.free, Tile):
            assert self.written is not None
            return self.written(place.free)
        if place.free is None:
            raise ValueError("a nest keeps more than a ring has room for")
        return place.free
