"""Where tensors go in the machine's memory."""

from diastole_sim.spec.image import round_up

ALIGNMENT = 4096
"""Bytes. Bursts end at multiples, so that the same work takes the same time wherever it lies."""
GAP = 64  # left free after every piece, so that neighbours never touch


class Heap:
    """Hands out pieces of an address range, first fit; gives back what is freed.

    ``base`` is a multiple of 4096, as are all addresses handed out. MemoryError when it is full.
    """

    def __init__(self, base: int, size: int):
        self.base = base
        self._free = [(base, base + size)]  # by address; no two touch
        self._taken: dict[int, int] = {}

    @property
    def taken_bytes(self) -> int:
        """Bytes handed out, gaps included."""
        return sum(end - start for start, end in self._taken.items())

    def allocate(self, size: int) -> int:
        """The address of ``size`` bytes."""
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
        """Take back what :meth:`allocate` gave; KeyError if it did not."""
        self._free = _joined(sorted([*self._free, (address, self._taken.pop(address))]))


def _joined(pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in pieces:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
