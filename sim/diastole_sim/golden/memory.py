"""Model the memory of the golden machine: bytes, and images that are packed when they are first
read."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from diastole_sim.spec.require import require_int

Bytes = NDArray[np.uint8]


class OutsideError(Exception):
    """Report an access outside the memory."""


@dataclass(kw_only=True, eq=False)
class HeldBytes:
    """Object whose bytes lie at ``address``. ``pack``: function that returns its ``length`` bytes.
    ``packed``: True if the bytes are already in memory."""

    thing: object
    address: int
    length: int
    pack: Callable[[], Bytes]
    packed: bool = False

    @property
    def end(self) -> int:
        return self.address + self.length


class GoldenMemory:
    """Memory of ``size`` bytes from address 0 on, zeros at first. OutsideError for any other
    address."""

    def __init__(self, size: int):
        require_int("size", size, 0, 2**40)
        self.size = size
        self._bytes = np.zeros(size, dtype=np.uint8)
        self._held: dict[int, HeldBytes] = {}

    def read(self, address: int, length: int) -> Bytes:
        """Return a read-only view of bytes. The view may change when memory changes."""
        return self.rows(address, 1, 0, length)[0]

    def rows(self, address: int, count: int, pitch: int, length: int) -> Bytes:
        """Return a view of ``count`` runs of ``length`` bytes, ``pitch`` apart: (count, length)."""
        self._check(address, count, pitch, length)
        end = address + (count - 1) * pitch + length
        for held in self._met(address, end):
            self._pack(held)
        return as_strided(self._bytes[address:], (count, length), (pitch, 1), writeable=False)

    def write(self, address: int, data: Bytes) -> None:
        """Write bytes to an address."""
        self.write_rows(address, len(data), data[None])

    def write_rows(self, address: int, pitch: int, data: Bytes) -> None:
        """Write runs of bytes, (count, length), ``pitch`` apart; the bytes between the runs
        stay."""
        count, length = data.shape
        self._check(address, count, pitch, length)
        end = address + (count - 1) * pitch + length
        for held in self._met(address, end):
            covered = (
                address <= held.address and held.end <= end and (length >= pitch or count == 1)
            )
            if not covered:
                self._pack(held)
            del self._held[held.address]
        as_strided(self._bytes[address:], data.shape, (pitch, 1))[:] = data

    def hold(self, address: int, length: int, thing: object, pack: Callable[[], Bytes]) -> None:
        """Write as :meth:`write` does, but call ``pack`` for the bytes only when they are read.
        ``length``: number of bytes. ``thing``: object that :meth:`held` returns for the address."""
        self._check(address, 1, length, length)
        for held in self._met(address, address + length):
            if not (address <= held.address and held.end <= address + length):
                self._pack(held)
            del self._held[held.address]
        self._held[address] = HeldBytes(thing=thing, address=address, length=length, pack=pack)

    def held(self, address: int) -> object | None:
        """Return the object that :meth:`hold` stored at an address, as long as none of its bytes
        has been written since."""
        found = self._held.get(address)
        return found and found.thing

    def _check(self, address: int, count: int, pitch: int, length: int) -> None:
        if address < 0 or address + (count - 1) * pitch + length > self.size:
            raise OutsideError(f"{count} x {length} bytes at {address:#x}, memory has {self.size}")

    def _met(self, address: int, end: int) -> list[HeldBytes]:
        return [held for held in self._held.values() if held.address < end and address < held.end]

    def _pack(self, held: HeldBytes) -> None:
        if not held.packed:
            self._bytes[held.address : held.end] = held.pack()
            held.packed = True
