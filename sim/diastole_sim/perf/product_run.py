"""Take a product command through the units of a machine, chunk by chunk."""

from collections import Counter
from dataclasses import dataclass

from diastole_sim.perf.chunk_walk import Chunk
from diastole_sim.perf.distributed_store import DistributedStore
from diastole_sim.perf.execute import Execute
from diastole_sim.perf.load import Loaders
from diastole_sim.perf.modelled_machine import ModelledMachine
from diastole_sim.perf.moments import Moment, combined
from diastole_sim.perf.result_store import Store
from diastole_sim.perf.rings import FreeSpace
from diastole_sim.spec.integers import ceil_div
from diastole_sim.spec.sizes.uses import DY, W, X

HEADERS, FUSED_HEADERS = 2, 3
"""Numbers of scales in front of images, read in sequence, without and with the fused pass."""
OPERAND_CAUSES = ("start", "reading", "loading", "latency")
"""Reasons why a chunk is not loaded when the array could begin with it."""


@dataclass(frozen=True, kw_only=True)
class ModelledProduct:
    """Product with its sizes M, N, K and its use of the memories. ``slabs``: blocks of a bank that
    a slab of the streaming operand and a slab of the stationary operand take. ``units``: units of
    sums of a tile, east and north. ``streams``: planes of the streaming operand."""

    op: str
    sizes: tuple[int, int, int]
    slabs: tuple[int, int]
    units: tuple[int, int]
    streams: int
    fused: bool = False


class ProductRun:
    """Model the cycles of a product, with the state of all units. ``waits``: cycles of the array
    without data, by the activity that delayed the data."""

    def __init__(
        self, machine: ModelledMachine, command: ModelledProduct, store: Store | None = None
    ):
        self.machine = machine
        # Addresses of maxima are multiplications with as many cycles as the larger factor has bits.
        tallest = max(_rows_read(machine, command.op, command.sizes))
        setup = ceil_div(tallest, machine.block).bit_length() + 2
        self.headers = machine.has_headers * (FUSED_HEADERS if command.fused else HEADERS)
        setup = max(setup, 3 + self.headers * (machine.memory.read_cycles + 1))
        self.load = Loaders(machine, request=setup + 1)  # then the first chunk, if there is space
        if store is None:
            store = (Store if machine.ports == 1 else DistributedStore)(machine, command.units)
        self.store = store
        self.execute = Execute(machine, store)
        self.space = FreeSpace(machine, store, command.slabs, command.fused, command.streams)
        self.slots = 0
        self.waits = Counter[str]()
        self.more = Counter[str]()  # counts of rounds that were passed over

    def chunk(self, chunk: Chunk) -> None:
        """Model the cycles in which a chunk is loaded and multiplied."""
        started, waited = self.execute.end is not None, self.execute.idle["load"]
        loaded = self.load.chunk(chunk, self.space.take(chunk))
        self.space.note_chunk(chunk, self.execute, self.execute.chunk(chunk, loaded))
        self.load.share(self.store.others)
        self.slots += chunk.slots * sum(chunk.uses) * chunk.slices * chunk.groups
        cycles = self.execute.idle["load"] - waited
        if not started:
            self.waits["start"] += cycles
        elif cycles:
            cause, share = self.load.last.cause
            self.waits[cause] += round(cycles * share)
            self.waits["latency"] += cycles - round(cycles * share)

    # Comparison of states.

    @property
    def now(self) -> int:
        """Cycle in which the last vector enters the array."""
        assert self.execute.end is not None
        return self.execute.end

    @property
    def summary(self) -> Moment:
        """Return a part of :meth:`moment` that takes less time."""
        now = self.now
        ahead = tuple([time - now for port in self.load.ports for time in (port.request, port.bus)])
        return combined([self.execute.moment(now), Moment(self.store.places(now), ahead)])

    def moment(self) -> Moment:
        """Return the state relevant to the times of the next chunks."""
        now, requests = self.now, self.load.requests
        units = (
            self.load.moment(now),
            self.execute.moment(now),
            self.space.moment(now, requests - 2),
        )
        return combined([*units, self.store.moment(now, self.execute.accepted)])

    def pass_over(self, count: int, cycles: int, counted: Counter[str]) -> None:
        """Pass over ``count`` rounds of ``cycles`` cycles, with the counts ``counted`` per
        round."""
        for unit in (self.load, self.execute, self.space, self.store):
            unit.later(count * cycles)
        self.more.update({name: count * each for name, each in counted.items()})

    @property
    def counted(self) -> Counter[str]:
        """All counts so far."""
        counts = Counter(self.more)
        counts["slots"] += self.slots
        counts["read_beats"] += self.load.beats
        counts["write_beats"] += self.store.beats
        counts["words"] += self.store.words
        counts["answers"] += self.store.answers
        for name, cycles in self.execute.idle.items():
            counts[f"idle {name}"] += cycles
        for name, cycles in self.waits.items():
            counts[f"wait {name}"] += cycles
        for port in self.load.ports:
            counts[f"filled {port.port}"] += port.filled
            counts[f"addresses {port.port}"] += port.addresses
            counts[f"spare {port.port}"] += port.spare
            counts["late"] += port.stalled
            counts["maxima"] += port.maxima
        return counts

    def in_time(self, counted: Counter[str], bits: int) -> bool:
        """Return whether data came in time, and would if every address took ``bits`` cycles
        more."""
        needed = (
            (f"spare {n}", bits * counted[f"addresses {n}"]) for n in range(self.machine.ports)
        )
        return not counted["late"] and all(counted[name] >= least for name, least in needed)

    def read_maxima(self, beats: int) -> None:
        """Count ``beats`` beats of maxima for every port, in place of the maxima of the chunks that
        were walked."""
        self.more["read_beats"] += beats * self.machine.ports - self.counted["maxima"]

    def cause_waits(self, tail: int) -> dict[str, int]:
        """Return the cycles without a vector by the activity that was busy. ``tail``: cycles after
        the last vector."""
        counted = self.counted
        waits = {cause: counted[f"wait {cause}"] for cause in OPERAND_CAUSES}
        banks = counted["idle accumulator"]
        beats = counted["write_beats"] / self.machine.ports
        busy = max(beats, counted["words"], 1)
        # Bursts spent a part of the time in which tiles left on waiting for answers.
        part = round(banks * busy / (busy + counted["answers"]))
        waits["latency"] += banks - part
        waits["swap"] = counted["idle short"]
        waits["writing"] = part if beats >= busy else 0
        waits["draining"] = part - waits["writing"]
        waits["end"] = tail
        return waits

    def finish(self) -> int:
        """Write the remaining results; return the cycle in which all results are written."""
        return self.store.finish()


def _rows_read(machine: ModelledMachine, op: str, sizes: tuple[int, int, int]) -> tuple[int, ...]:
    """Return the rows of the three images as an operation reads them. Of two copies the operation
    reads the copy whose rows run along the contraction."""
    m, n, k = sizes
    of_x = k if machine.grouped(X) and op in ("dw", "backward") else m
    of_w = n if machine.grouped(W) and op == "forward" else k
    of_dy = n if machine.grouped(DY) and op == "dw" else m
    return of_x, of_w, of_dy
