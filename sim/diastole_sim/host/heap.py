"""Places of tensors in the machine's memory."""

from diastole_sim.spec.image import round_up

ALIGNMENT = 4096
"""Alignment in bytes. Bursts end at multiples of the alignment, so the time of a command does not
depend on the address."""
GAP = 64  # bytes left free behind every piece, so that neighbours never touch


class Heap:
    """Allocate pieces of an address range, first fit, and free them.

    ``base`` is a multiple of 4096, and so is every allocated address. MemoryError if no free piece
    is long enough.
    """

    def __init__(self, base: int, size: int):
        self.base = base
        self._free = [(base, base + size)]  # sorted by address; no two pieces touch
        self._allocated: dict[int, int] = {}

    @property
    def allocated_bytes(self) -> int:
        """Allocated bytes, gaps included."""
        return sum(end - start for start, end in self._allocated.items())

    def allocate(self, size: int) -> int:
        """Return the address of ``size`` free bytes."""
        length = round_up(size + GAP, ALIGNMENT)
        for place, (start, end) in enumerate(self._free):
            if end - start >= length:
                self._free[place : place + 1] = (
                    [(start + length, end)] if end > start + length else []
                )
                self._allocated[start] = start + length
                return start
        raise MemoryError(f"the memory of the machine has no room for {size} bytes")

    def free(self, address: int) -> None:
        """Free a piece of :meth:`allocate`. KeyError if the address is not allocated."""
        self._free = _merged(sorted([*self._free, (address, self._allocated.pop(address))]))


def _merged(pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in pieces:
        if merged and merged[-1][1] == start:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged
