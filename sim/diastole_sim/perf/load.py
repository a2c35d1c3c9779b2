"""The load unit in time: requests ahead, then groups of blocks parsed, cut, turned and written."""

from dataclasses import dataclass
from functools import lru_cache

from diastole_sim.perf.machine import ModelledMachine, ceil_div
from diastole_sim.perf.walk import Chunk, LoadedRegion, Run

BLOCKS_AHEAD = 4  # blocks whose descriptions may wait for their vectors


@dataclass
class Load:
    """Chunks one after the other; every time is a cycle, counted from the product's start.

    The data of a chunk passes three stages that overlap: the bus, a front that tells exponents from
    mantissas, and a writer of one vector per cycle. Between two runs of blocks the writer waits:
    for the next exponents, and where blocks are turned for the last one to leave the turning array.
    """

    machine: ModelledMachine
    ask: int  # when the next request may go out
    bus: int = 0  # when the bus may give its next beat
    front: int = 0  # when the front may look at the next beat
    cutter: int = 0  # when the gearbox takes the next run
    turner: int = 0  # when the turning array takes the next vector
    written: int = -1  # cycle of the last vector written
    described: int = 0  # when the descriptions of all blocks so far are made
    beats: int = 0
    turn_stalls: int = 0

    def chunk(self, chunk: Chunk, free: int) -> int:
        """Load a chunk into the half that is free at ``free``; the cycle of its last vector."""
        self.ask = max(self.ask, free) + 1
        for region in chunk.regions:
            self.beats += region.beats
            if region.maxima_beats:
                self._maxima(region)
            else:
                self._blocks(region)
        self.ask += 1
        return self.written

    def _maxima(self, region: LoadedRegion) -> None:
        start = self._arrive(self.ask, self.front + 1)
        self.bus = start + region.maxima_beats
        self.front = self.bus
        self.ask += 1

    def _blocks(self, region: LoadedRegion) -> None:
        self.ask += 2 + region.first_row.bit_length() + 1  # its address is a product
        self.front += 1
        for _ in range(region.rows):
            self.ask += 1
            for run in region.runs:
                self._run(run, region.turned)

    def _arrive(self, asked: int, wanted: int) -> int:
        """The cycle in which the first beat of a request is taken."""
        return max(asked + self.machine.memory.read_cycles, self.bus, wanted)

    def _run(self, run: Run, turned: bool) -> None:
        machine = self.machine
        exponents = self._arrive(self.ask, self.front)
        self.ask += len(run.requests)
        self.bus = exponents + run.exponents
        accepted = max(self.bus, self.cutter, self.described)
        first_beat = self._arrive(self.ask - 1, accepted + 1)

        vectors, width = run.blocks * machine.block, machine.vector_bits(run.cls)
        data_width, per_cycle = machine.data_width, machine.fill_vectors
        description = accepted + 3
        first = max(first_beat + ceil_div(width, data_width), description, self.written + 1)
        if turned:
            first = max(first_beat + ceil_div(width, data_width), self.turner)
            self.turn_stalls += first - (first_beat + ceil_div(width, data_width))
        last = max(
            first + ceil_div(vectors, per_cycle) - 1,
            first_beat + ceil_div(vectors * width, data_width),
            description + 2 * (run.blocks - 1) + (-1 if turned else machine.block - 1),
        )
        if turned:
            if width > data_width:
                room = max(map(machine.vector_bits, range(3)))
                cycles, waits = turn_wide(machine.block, vectors, width, data_width, room)
                last = max(last, first - ceil_div(width, data_width) + cycles)
                self.turn_stalls += waits
            self.written = last + machine.block
            self.turner = self.written + 1
        else:
            self.written = last
        self.cutter = last + 1

        # The last beat is taken when the vectors before it leave room.
        room = (run.mantissas - 1) * data_width - max(map(machine.vector_bits, range(3)))
        before = vectors - ceil_div(max(room, 0), width)
        last_beat = max(first_beat + run.mantissas - 1, last - ceil_div(before, per_cycle))
        self.bus = last_beat + 1
        self.front = last_beat + 1
        waiting = (BLOCKS_AHEAD - turned) * machine.block // per_cycle
        self.described = max(accepted + 2 * run.blocks + 1, last - waiting + 2)


@lru_cache(maxsize=1024)
def turn_wide(side: int, vectors: int, width: int, beat: int, room: int) -> tuple[int, int]:
    """Vectors that take more than a beat each, on their way through the turning array.

    A block leaves alone, ``side`` cycles, where its successor's first vector is not there in time.
    Returns the cycles from the first beat to the last vector's entry, and those in which a vector
    waited. ``room``: bits that the gearbox may hold when it takes a beat. Counted cycle by cycle.
    """
    held, left, beats = 0, vectors, ceil_div(vectors * width, beat)
    step, full, entering = 0, False, False
    cycle, waits = 0, 0
    while True:
        valid = held >= width
        inserts = valid if step == 0 and full else entering or not full
        if step == 0:
            entering = inserts
        if inserts and valid:
            held -= width
            left -= 1
        waits += valid and not inserts
        if left == 0:
            return cycle, waits
        if not inserts or valid:
            step += 1
            if step == side:
                step, full = 0, inserts
        if beats and held <= room:
            held += beat
            beats -= 1
        cycle += 1
