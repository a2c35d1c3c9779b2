"""The planned loader in time: two queues of requests on the bus; what streams goes first, and what
is held fills the gaps."""

from collections import deque
from dataclasses import dataclass, field

from diastole_sim.perf.axes import Stretch
from diastole_sim.perf.machine import ceil_div
from diastole_sim.perf.planned.machine import PlannedMachine
from diastole_sim.spec.image import GROUP_BLOCKS

LAG = 4
"""Cycles from a beat to its vectors in a bank."""


@dataclass(frozen=True)
class Cost:
    """Of a rectangle of blocks: ``beats``, requests (``pieces``), and ``blocks`` with those that
    only fill whole beats."""

    beats: int
    pieces: int
    blocks: int


def cost(machine: PlannedMachine, cls: int, rows: int, cols: Stretch) -> Cost:
    """A piece of a group is read with all blocks of the beats that it reaches into."""
    beats = pieces = blocks = 0
    col, end = cols[0], sum(cols)
    unit = machine.aligned_blocks(cls)
    while col < end:
        offset = col % GROUP_BLOCKS
        count = min(GROUP_BLOCKS - offset, end - col)
        first = offset // unit * unit
        last = min(GROUP_BLOCKS, ceil_div(offset + count, unit) * unit)
        stored = ceil_div((last - first) * machine.block_bits(cls), machine.data_width)
        beats += machine.exponent_beats(cls) + stored
        pieces += 1
        blocks += last - first
        col += count
    return Cost(rows * beats, rows * pieces, rows * blocks)


@dataclass
class LoadQueues:
    """Times are cycles from the start of the command. ``beats``: read so far."""

    machine: PlannedMachine
    ask: float  # when the next request for what streams may go out
    ask_held: float
    bus: float = 0.0  # when it is free behind all that was asked for
    beats: int = 0
    gaps: deque[list[float]] = field(default_factory=deque)

    def maxima(self, cls: int, blocks: int) -> None:
        machine = self.machine
        beats = blocks * machine.entries(cls) // machine.beat_bytes + 1
        self.ask += 1
        self.beats += beats
        start = max(self.ask + machine.memory.read_cycles, self.bus)
        self.bus = start + ceil_div(beats, machine.ports)

    def streamed(
        self, cls: int, rows: Stretch, cols: Stretch, *, free: float, turned: bool = False
    ) -> tuple[float, float]:
        """When its first vectors are in every bank, and when all are; turned ones fill bank by
        bank. ``free``: there is room from then on."""
        latency, ports = self.machine.memory.read_cycles, self.machine.ports
        asked, lasts = self._of(cls, rows, cols)
        self.ask = max(self.ask, free) + 3 + rows[0].bit_length()
        start = max(self.ask + latency, self.bus)
        if start > self.bus:
            self.gaps.append([self.bus, start])
        self.ask += 2 * ceil_div(asked.pieces, ports)
        self.bus = max(start + lasts, self.ask + latency - 2)
        before = (rows[1] - 1 if turned else 1) / rows[1]
        return start + lasts * before + LAG, self.bus + LAG

    def held(self, cls: int, rows: Stretch, cols: Stretch, *, free: float) -> tuple[float, float]:
        """Likewise, in the gaps that what streams has left, else behind it."""
        asked, left = self._of(cls, rows, cols)
        self.ask_held = max(self.ask_held, free) + 3 + rows[1].bit_length()
        at = self.ask_held + self.machine.memory.read_cycles
        self.ask_held += 2 * ceil_div(asked.pieces, self.machine.ports)
        while self.gaps and self.gaps[0][1] <= at:
            self.gaps.popleft()
        first, end = None, at
        while left > 0 and self.gaps:
            gap = self.gaps[0]
            start = max(gap[0], at)
            first = start if first is None else first
            used = min(left, gap[1] - start)
            left -= used
            end = start + used
            if end == gap[1]:
                self.gaps.popleft()
            else:
                gap[0] = end
        if left > 0:
            start = max(self.bus, at)
            first = start if first is None else first
            if start > self.bus:
                self.gaps.append([self.bus, start])
            end = self.bus = start + left
        first = at if first is None else first
        return first + (end - first) / rows[1] + LAG, end + LAG

    def _of(self, cls: int, rows: Stretch, cols: Stretch) -> tuple[Cost, float]:
        """What a rectangle costs, and the cycles that the bus or the writers take for it."""
        machine = self.machine
        found = cost(machine, cls, rows[1], cols)
        self.beats += found.beats
        vectors = found.blocks * machine.block / machine.vectors_per_cycle(cls)
        return found, max(found.beats, vectors) / machine.ports
