"""Describe a running machine as a host sees it: memory, registers, an interrupt."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from diastole_sim.host.product import Product
from diastole_sim.perf.modelled_machine import Memory

AddressRange = tuple[int, int]
"""First address of a range, and the address behind the last."""


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Traffic at the memory since the last clear: bursts, beats, and byte addresses.

    All written bytes lie between ``first_written`` and ``end_written``. ``strays`` counts the beats
    written outside the allowed ranges. ``first_stray`` is the address of the first stray beat.
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
    """A machine with its memory, in simulation or on a board.

    Every method that runs the clock may raise HardwareHang and ProtocolError of
    :mod:`diastole_sim.host.errors`.
    """

    @property
    def product(self) -> Product:
        """Product directory of the machine."""
        ...

    @property
    def memory_base(self) -> int:
        """First address of the memory."""
        ...

    @property
    def memory_bytes(self) -> int:
        """Size of the memory."""
        ...

    @property
    def memory_model(self) -> Memory:
        """Timing of the memory, from which a host chooses loops."""
        ...

    @property
    def patience(self) -> int:
        """Factor by which the machine may be slower than usual before a host calls it hung."""
        ...

    @property
    def cycle(self) -> int:
        """Cycles since the start of the machine."""
        ...

    @property
    def cycles_per_second(self) -> float:
        """Cycles per second of :meth:`run` so far."""
        ...

    def bytes_at(self, address: int, count: int) -> NDArray[np.uint8]:
        """Return a view of ``count`` bytes of the memory. IndexError if any byte is outside the
        memory."""
        ...

    def allow_writes(self, *ranges: AddressRange) -> None:
        """Count writes outside ``ranges`` as strays from now on. Without a range, allow all
        writes."""
        ...

    def traffic(self, *, clear: bool = False) -> Traffic:
        """Return the traffic at the memory since the last ``clear``."""
        ...

    def read(self, address: int) -> int:
        """Read a register."""
        ...

    def write(self, address: int, value: int) -> None:
        """Write a register."""
        ...

    def run(self, limit: int | None = None) -> int:
        """Run until the interrupt and return the cycles. HardwareHang after ``limit`` cycles."""
        ...

    def idle(self, cycles: int) -> None:
        """Let ``cycles`` cycles pass."""
        ...

    def close(self) -> None:
        """End the machine; no part of it may be used afterwards."""
        ...
