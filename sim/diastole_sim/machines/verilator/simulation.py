"""Describe the simulation of a product: memory, delays, and waves."""

from dataclasses import dataclass
from pathlib import Path

from diastole_sim.perf.modelled_machine import LATENCY, OUTSTANDING, Memory
from diastole_sim.spec.require import require_int

WAVES = ("vcd", "fst")
"""Formats of recorded waves, by the suffix of the file."""
MAX_DEPTH = 99
"""Most levels of modules within modules in the waves."""
MAX_LATENCY = 10_000
STALLED = 20
"""Factor by which a machine with delayed handshakes may be slower."""


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """Surroundings of a product in simulation. ValueError if a number is out of range.

    - ``memory_bytes``, ``memory_base``: size and first address of the memory. Only the pages in use
      take up real memory.
    - ``read_latency``, ``write_latency``: cycles from an address to the first beat, and from the
      last beat to the response.
    - ``outstanding``: bursts that the memory accepts ahead in each direction.
    - ``write_pause``: length in cycles of alternating stretches in which the memory accepts, and
      does not accept, data of writes; 0: the memory always accepts data.
    - ``stalls``: seed of random delays of every handshake, and of registers without an initial
      value; None for neither.
    - ``watchdog_cycles``: cycles without any handshake after which the machine counts as hung.
    - ``trace``: file for waves, FST if the file's suffix is ``.fst``, else VCD; None for no waves.
    - ``trace_depth``: levels of the product's modules in the waves; 0: all.
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
        require_int("read_latency", self.read_latency, 1, MAX_LATENCY)
        require_int("write_latency", self.write_latency, 1, MAX_LATENCY)
        require_int("outstanding", self.outstanding, 1, 64)
        require_int("write_pause", self.write_pause, 0, 2**32 - 1)
        if self.stalls is not None:
            require_int("stalls", self.stalls, 0, 2**64 - 1)
        require_int("watchdog_cycles", self.watchdog_cycles, 1, 2**64 - 1)
        require_int("trace_depth", self.trace_depth, 0, MAX_DEPTH)

    @property
    def waves(self) -> str | None:
        """Format of the recorded waves, a member of :data:`WAVES`; None without waves."""
        if self.trace is None:
            return None
        return "fst" if Path(self.trace).suffix.lower() == ".fst" else "vcd"

    @property
    def memory_model(self) -> Memory:
        """Timing of the memory, from which a host chooses loops."""
        return Memory.axi(self.read_latency, self.outstanding, write_latency=self.write_latency)

    @property
    def patience(self) -> int:
        """Factor by which the machine may be slower than usual before it counts as hung."""
        return 1 if self.stalls is None else STALLED
