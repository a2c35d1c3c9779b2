"""Model the random numbers of a chain in time: hashes, rows, and blocks in the buffer."""

from diastole_sim.perf.modelled_vector import VisitedBlock
from diastole_sim.spec.sizes.draws import DRAWS_PER_HASH, chain_draw_lanes

HASHED = 14
"""Cycles from the request of a word to its draws."""


class DrawnTimes:
    """Times of the random numbers of a chain's blocks. The index of a block's first element is
    computed while the rows of the block before are drawn.

    ``block``: B. ``columns``: columns of the tensor. ``ready``: cycle in which the next block may
    begin. ``done``: cycle in which the last row of the last block is written.
    """

    def __init__(self, block: int, columns: int, now: int):
        self.block, self.columns = block, columns
        self.lanes = chain_draw_lanes(block)
        self.ready, self.done = now, now
        self._words = now - 1  # cycle of the last request of a word

    def begin(self, block: VisitedBlock, begin: int) -> None:
        """Begin a block in a cycle from ``ready`` on."""
        moves = max(begin + 2 + block.i.bit_length(), self._words)
        self.ready = moves + 1
        cycles = self._cycles(block)
        self._words = moves + cycles
        self.done = max(self.done + cycles, self._words + HASHED + 1)

    def _cycles(self, block: VisitedBlock) -> int:
        """Return the cycles in which the words of a block are requested. A row takes a cycle for
        every word, or the cycles of its hashes."""
        aligned = max(DRAWS_PER_HASH, self.lanes)
        hash_cycles = max(1, DRAWS_PER_HASH // self.lanes)
        words = self.block // self.lanes
        total = 0
        for row in range(self.block):
            first = (block.i * self.block + row) * self.columns + block.j * self.block
            groups = -(-(first % aligned + self.block) // aligned)
            total += max(words, groups * hash_cycles)
        return total
