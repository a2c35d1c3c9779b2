"""What the model knows of a machine and of the memory behind it."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from diastole_sim.spec.require import require_int
from diastole_sim.spec.sizes.array_sizes import TILES_OF_SUMS, ArraySizes

LATENCY = 20
"""Cycles of a memory of which nothing else is said."""
OUTSTANDING = 32
"""Bursts that it has open in each direction: as many as a machine asks for."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """The bus and the memory as the machine's units see them, in cycles; one beat per cycle.

    ``outstanding``: bursts of reads that the memory has open at once, None for any number.
    ``read_cycles``: from a read request to its first beat. ``write_gap_cycles``: lost between a
    write request and its first beat. ``response_cycles``: from a request's last beat to the moment
    at which the machine knows that it is written.
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
        """An AXI memory that answers ``latency`` cycles after an address, and ``write_latency`` (as
        many, if it is left out) after a last write beat.

        Added to it are the registers of the bus engines and of the queues before them.
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
    """Sizes of a machine, and what the model knows of it beside them.

    ``memory``: what its buses lead to. ``cell_cycles`` from the cycle after a slot to the sums of
    the first cell. The last three are for questions of the kind "what if": ``sum_units``, halves of
    memories of sums behind each port, and bounds on the chunks of what streams that are on chip at
    once, ``most_places``, and on the vectors that are filled per cycle, ``most_filled``. ValueError
    as :class:`ArraySizes`, and if one of them is out of range.
    """

    memory: Memory = field(default_factory=Memory.axi)
    cell_cycles: int = 2
    sum_units: int = TILES_OF_SUMS
    most_places: int = 1 << 16
    most_filled: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        require_int("cell_cycles", self.cell_cycles, 2, 16)
        require_int("sum_units", self.sum_units, 2, TILES_OF_SUMS)
        require_int("most_places", self.most_places, 1, 1 << 16)
        require_int("most_filled", self.most_filled, 1, 64)

    @cached_property
    def known_runs(self) -> dict[tuple[int, tuple[int, int]], tuple[Any, ...]]:
        """What a row of blocks is asked for as, by class and columns, as far as it was looked at:
        :func:`diastole_sim.perf.chunk_walk.blocks`."""
        return {}

    @cached_property
    def known_loads(self) -> dict[tuple[Any, ...], tuple[int, ...]]:
        """What rows of blocks leave behind, by what they came to, as far as it was looked at:
        :class:`diastole_sim.perf.load.Load`."""
        return {}

    @cached_property
    def filled(self) -> int:
        """Vectors that are filled per cycle."""
        return min(self.fill_vectors, self.most_filled)
