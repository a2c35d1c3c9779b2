"""Describes a machine that runs, as a host sees it: memory, registers, an interrupt."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from diastole_sim.host.product import Product
from diastole_sim.perf.modelled_machine import Memory

AddressRange = tuple[int, int]
"""First address and the one past the last."""


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What the memory saw since it was last asked; bursts, beats, and byte addresses.

    ``first_written`` and ``end_written`` enclose every byte written; ``strays`` counts the beats
    written outside the allowed ranges, ``first_stray`` is the address of the first.
    """

    read_bursts: int = 0
    read_beats: int = 0
    write_bursts: int = 0
    write_beats: int = 0
    first_written: int = 0
    end_written: int = 0
    strays: int = 0
    first_stray: int = 0


class RunningMachine(Protocol):
    """A machine with its memory, wherever it runs.

    HardwareHang and ProtocolError of :mod:`diastole_sim.host.errors` come from everything that runs
    the clock.
    """

    @property
    def product(self) -> Product:
        """The product directory of the machine."""
        ...

    @property
    def memory_base(self) -> int:
        """The first address of the memory."""
        ...

    @property
    def memory_bytes(self) -> int:
        """The size of the memory."""
        ...

    @property
    def memory_model(self) -> Memory:
        """The memory's timing, by which a host chooses loops."""
        ...

    @property
    def patience(self) -> int:
        """How many times slower than usual the machine may be before a host calls it hung."""
        ...

    @property
    def cycle(self) -> int:
        """Cycles since the machine was started."""
        ...

    @property
    def cycles_per_second(self) -> float:
        """Cycles per second of :meth:`run` so far."""
        ...

    def bytes_at(self, address: int, count: int) -> NDArray[np.uint8]:
        """Return a view of ``count`` bytes of the memory; IndexError if they are not all there."""
        ...

    def allow_writes(self, *ranges: AddressRange) -> None:
        """Count writes elsewhere as strays from now on; without a range, allow all."""
        ...

    def traffic(self, *, clear: bool = False) -> Traffic:
        """Return what the memory saw since the last ``clear``."""
        ...

    def read(self, address: int) -> int:
        """Read a register."""
        ...

    def write(self, address: int, value: int) -> None:
        """Write a register."""
        ...

    def run(self, limit: int | None = None) -> int:
        """Run until the interrupt and return the cycles; HardwareHang after ``limit`` cycles."""
        ...

    def idle(self, cycles: int) -> None:
        """Let so many cycles pass."""
        ...

    def close(self) -> None:
        """End the machine; nothing of it may be used afterwards."""
        ...
