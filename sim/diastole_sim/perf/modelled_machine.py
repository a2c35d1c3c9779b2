"""Describe a machine and its memory for the model."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from diastole_sim.spec.require import require_int
from diastole_sim.spec.sizes.array_sizes import TILES_OF_SUMS, ArraySizes
from diastole_sim.spec.sizes.queues import OPEN_READS

LATENCY = 20
"""Default latency of a memory in cycles."""
OUTSTANDING = OPEN_READS
"""Default number of open bursts of a memory in either direction: as many as a machine requests."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bus and memory as seen by the machine's units, in cycles; one beat per cycle.

    - ``outstanding``: read bursts that the memory has open at once, None for any number.
    - ``read_cycles``: cycles from a read request to its first beat.
    - ``write_gap_cycles``: cycles lost between a write request and its first beat.
    - ``response_cycles``: cycles from a request's last beat until the machine knows that the data
      are written.
    """

    read_cycles: int = 1
    write_gap_cycles: int = 0
    response_cycles: int = 0
    outstanding: int | None = None

    @classmethod
    def axi(
        cls,
        latency: int = LATENCY,
        outstanding: int = OUTSTANDING,
        *,
        write_latency: int | None = None,
    ) -> "Memory":
        """Return an AXI memory that answers ``latency`` cycles after an address, and
        ``write_latency`` cycles (by default ``latency``) after a last write beat.

        The registers of the bus engines and of the queues before the engines are added.
        """
        written = latency if write_latency is None else write_latency
        require_int("latency", latency, 1, 10_000)
        require_int("write_latency", written, 1, 10_000)
        require_int("outstanding", outstanding, 1, 1 << 10)
        return cls(
            read_cycles=latency + 5,
            write_gap_cycles=0,
            response_cycles=written + 3,
            outstanding=outstanding,
        )


@dataclass(frozen=True, kw_only=True)
class ModelledMachine(ArraySizes):
    """Sizes of a machine, and further parameters of the model.

    - ``memory``: memory behind the buses.
    - ``cell_cycles``: cycles from the cycle after a slot to the sums of the first cell.
    - ``sum_units``: halves of memories of sums behind every port.
    - ``max_places``: largest number of chunks of the streaming operand on chip at once.
    - ``max_filled``: largest number of vectors filled per cycle.

    The last three members answer questions of the kind "what if". ValueError as in
    :class:`ArraySizes`, and if a member is out of range.
    """

    memory: Memory = field(default_factory=Memory.axi)
    cell_cycles: int = 2
    sum_units: int = TILES_OF_SUMS
    max_places: int = 1 << 16
    max_filled: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        require_int("cell_cycles", self.cell_cycles, 2, 16)
        require_int("sum_units", self.sum_units, 2, TILES_OF_SUMS)
        require_int("max_places", self.max_places, 1, 1 << 16)
        require_int("max_filled", self.max_filled, 1, 64)

    @cached_property
    def run_memo(self) -> dict[tuple[int, tuple[int, int]], tuple[Any, ...]]:
        """Cache of the runs of a row of blocks, by class and columns, filled by
        :func:`diastole_sim.perf.chunk_walk.blocks`."""
        return {}

    @cached_property
    def load_memo(self) -> dict[tuple[Any, ...], tuple[int, ...]]:
        """Cache of :class:`diastole_sim.perf.load.Load`, which then computes equal rows of blocks
        once. The key has the sizes of the rows and the times of the load port before the rows. The
        value has the cycles and counts of the rows, and the times of the load port after the rows.
        All times are relative to the first request."""
        return {}

    @cached_property
    def filled(self) -> int:
        """Vectors that are filled per cycle."""
        return min(self.fill_vectors, self.max_filled)
