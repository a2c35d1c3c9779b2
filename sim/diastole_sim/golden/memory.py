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
class LazyBytes:
    """Object ``source``, whose ``length`` bytes belong at ``address`` of a memory. The memory calls
    ``pack`` for the bytes at the first read. ``packed``: True if the bytes are in memory."""

    source: object
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
        self._lazy: dict[int, LazyBytes] = {}

    def read(self, address: int, length: int) -> Bytes:
        """Return a read-only view of bytes. The view may change when memory changes."""
        return self.rows(address, 1, 0, length)[0]

    def rows(self, address: int, count: int, pitch: int, length: int) -> Bytes:
        """Return a view of ``count`` runs of ``length`` bytes, ``pitch`` apart: (count, length)."""
        self._check(address, count, pitch, length)
        end = address + (count - 1) * pitch + length
        for lazy in self._overlaps(address, end):
            self._pack(lazy)
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
        for lazy in self._overlaps(address, end):
            covered = (
                address <= lazy.address and lazy.end <= end and (length >= pitch or count == 1)
            )
            if not covered:
                self._pack(lazy)
            del self._lazy[lazy.address]
        as_strided(self._bytes[address:], data.shape, (pitch, 1))[:] = data

    def write_lazily(
        self, address: int, length: int, source: object, pack: Callable[[], Bytes]
    ) -> None:
        """Write as :meth:`write` does, but call ``pack`` for the bytes only when they are read.
        ``length``: number of bytes. ``source``: object that :meth:`source_at` returns for the
        address."""
        self._check(address, 1, length, length)
        for lazy in self._overlaps(address, address + length):
            if not (address <= lazy.address and lazy.end <= address + length):
                self._pack(lazy)
            del self._lazy[lazy.address]
        self._lazy[address] = LazyBytes(source=source, address=address, length=length, pack=pack)

    def source_at(self, address: int) -> object | None:
        """Return the object that :meth:`write_lazily` stored at an address, as long as none of its
        bytes has been written since."""
        lazy = self._lazy.get(address)
        return lazy and lazy.source

    def _check(self, address: int, count: int, pitch: int, length: int) -> None:
        if address < 0 or address + (count - 1) * pitch + length > self.size:
            raise OutsideError(
                f"{count} x {length} bytes at {address:#x} are beyond the memory of "
                f"{self.size} bytes"
            )

    def _overlaps(self, address: int, end: int) -> list[LazyBytes]:
        return [lazy for lazy in self._lazy.values() if lazy.address < end and address < lazy.end]

    def _pack(self, lazy: LazyBytes) -> None:
        if not lazy.packed:
            self._bytes[lazy.address : lazy.end] = lazy.pack()
            lazy.packed = True
