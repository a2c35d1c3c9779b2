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
        self._taken: dict[int, int] = {}

    @property
    def taken_bytes(self) -> int:
        """Allocated bytes, gaps included."""
        return sum(end - start for start, end in self._taken.items())

    def allocate(self, size: int) -> int:
        """Return the address of ``size`` free bytes."""
        length = round_up(size + GAP, ALIGNMENT)
        for place, (start, end) in enumerate(self._free):
            if end - start >= length:
                self._free[place : place + 1] = (
                    [(start + length, end)] if end > start + length else []
                )
                self._taken[start] = start + length
                return start
        raise MemoryError(f"no room for {size} bytes in the machine's memory")

    def free(self, address: int) -> None:
        """Free a piece of :meth:`allocate`. KeyError if the address is not allocated."""
        self._free = _joined(sorted([*self._free, (address, self._taken.pop(address))]))


def _joined(pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in pieces:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
