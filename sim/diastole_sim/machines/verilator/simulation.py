"""Describes how a product is simulated: its memory, its delays, and the waves of it."""

from dataclasses import dataclass
from pathlib import Path

from diastole_sim.perf.modelled_machine import LATENCY, OUTSTANDING, Memory
from diastole_sim.spec.require import require_int

WAVES = ("vcd", "fst")
"""What waves may be recorded as, by the name of their file."""
MOST_DEPTH = 99
"""Levels of modules in modules that waves may have."""
MOST_LATENCY = 10_000
STALLED = 20
"""How many times slower a machine may be whose handshakes are delayed."""


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """The surroundings of a product in simulation. ValueError if a number is out of range.

    ``memory_bytes``, ``memory_base``: size and first address of the memory; only the pages in use
    take up real memory. ``read_latency``, ``write_latency``: cycles from an address to its first
    beat, and from the last beat to its response. ``outstanding``: bursts that the memory accepts
    ahead in each direction. ``write_pause``, cycles: data to be written is accepted in every other
    stretch of so many; 0: always. ``stalls``: the seed of random delays of every handshake, and of
    what starts without an initial value; None for neither. ``watchdog_cycles``: cycles without any
    handshake after which the machine counts as hung. ``trace``: a file for waves, FST if it is
    called ``.fst``, VCD else; None for no waves. ``trace_depth``: levels of the product's modules
    in the waves; 0: all.
    """

    memory_bytes: int = 1 << 30
    memory_base: int = 0x40_0000_0000
    read_latency: int = LATENCY
    write_latency: int = LATENCY
    outstanding: int = OUTSTANDING
    write_pause: int = 0
    stalls: int | None = None
    watchdog_cycles: int = 200_000
    trace: Path | str | None = None
    trace_depth: int = 0

    def __post_init__(self) -> None:
        require_int("memory_bytes", self.memory_bytes, 1, 2**64 - 1)
        require_int("memory_base", self.memory_base, 0, 2**64 - 1)
        require_int("read_latency", self.read_latency, 1, MOST_LATENCY)
        require_int("write_latency", self.write_latency, 1, MOST_LATENCY)
        require_int("outstanding", self.outstanding, 1, 64)
        require_int("write_pause", self.write_pause, 0, 2**32 - 1)
        if self.stalls is not None:
            require_int("stalls", self.stalls, 0, 2**64 - 1)
        require_int("watchdog_cycles", self.watchdog_cycles, 1, 2**64 - 1)
        require_int("trace_depth", self.trace_depth, 0, MOST_DEPTH)

    @property
    def waves(self) -> str | None:
        """What the waves are recorded as, one of :data:`WAVES`; None without waves."""
        if self.trace is None:
            return None
        return "fst" if Path(self.trace).suffix.lower() == ".fst" else "vcd"

    @property
    def memory_model(self) -> Memory:
        """The memory's timing, by which a host chooses loops."""
        return Memory.axi(self.read_latency, self.outstanding, write_latency=self.write_latency)

    @property
    def patience(self) -> int:
        """How many times slower than usual the machine may be before it counts as hung."""
        return 1 if self.stalls is None else STALLED
