"""List the blocks of a chain's tensor in the order in which the program runs over them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from diastole_sim.spec.stream_table import Walk

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class Order:
    """Order of the blocks of side ``block`` of a tensor of ``rows`` x ``cols`` elements, every
    block once. A *line* is a row, or column, of blocks, or a part of a row or column.

    ``i``, ``j``: row and column of blocks of every block, in order. ``first``, ``last``: True for
    the first and for the last block of a line. ``by_columns``: True if the lines are columns of
    blocks.
    """

    rows: int
    cols: int
    block: int
    i: Integers
    j: Integers
    first: Mask
    last: Mask
    by_columns: bool = False

    @staticmethod
    @lru_cache(maxsize=256)
    def of_walk(walk: Walk) -> "Order":
        """Return the order of a walk by rows or by columns."""
        lines = [[(i, j) for j in range(walk.block_cols)] for i in range(walk.block_rows)]
        if walk.by_columns:
            lines = [list(line) for line in zip(*lines, strict=True)]
        return Order.of_lines(walk, lines)

    @staticmethod
    def of_lines(walk: Walk, lines: Iterable[Sequence[tuple[int, int]]]) -> "Order":
        """Return any order, for example the order of a product's tiles. ``lines``: lines of blocks
        (i, j). ValueError unless every block of the walk's tensor is in exactly one line."""
        blocks: list[tuple[int, int]] = []
        first: list[bool] = []
        last: list[bool] = []
        for line in lines:
            blocks += line
            first += [place == 0 for place in range(len(line))]
            last += [place == len(line) - 1 for place in range(len(line))]
        everyone = {(i, j) for i in range(walk.block_rows) for j in range(walk.block_cols)}
        if len(blocks) != len(everyone) or set(blocks) != everyone:
            raise ValueError("lines must contain every block of the tensor exactly once")
        i, j = np.array(blocks, dtype=np.int64).T
        return Order(
            rows=walk.rows,
            cols=walk.cols,
            block=walk.block,
            i=i,
            j=j,
            first=np.array(first),
            last=np.array(last),
            by_columns=walk.by_columns,
        )

    def __len__(self) -> int:
        return len(self.i)

    @property
    def padded(self) -> tuple[int, int]:
        """Numbers of rows and columns in whole blocks."""
        return (int(self.i.max()) + 1) * self.block, (int(self.j.max()) + 1) * self.block

    @cached_property
    def row_numbers(self) -> Integers:
        """Row numbers of every block's row slots: (blocks, B)."""
        return self.i[:, None] * self.block + np.arange(self.block)

    @cached_property
    def column_numbers(self) -> Integers:
        """Column numbers of every block's lanes: (blocks, B)."""
        return self.j[:, None] * self.block + np.arange(self.block)

    @cached_property
    def inside(self) -> Mask:
        """Mask of the elements of the blocks that are in the tensor: (blocks, B, B)."""
        rows, columns = self.row_numbers < self.rows, self.column_numbers < self.cols
        return rows[:, :, None] & columns[:, None, :]

    @cached_property
    def lines_are_whole(self) -> bool:
        """True if every line is a whole row, or column, of blocks."""
        side = self.i if self.by_columns else self.j
        starts_at_0 = np.all(side[self.first] == 0)
        return bool(starts_at_0 and np.all(side[self.last] == side.max()))

    def split(self, tensor: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the blocks (blocks, B, B) of an array that broadcasts to the tensor, +0 outside
        the tensor."""
        high, wide = self.padded
        whole = np.zeros((high, wide), dtype=tensor.dtype)
        whole[: self.rows, : self.cols] = tensor
        tiles = whole.reshape(high // self.block, self.block, wide // self.block, self.block)
        return tiles.swapaxes(1, 2)[self.i, self.j]

    def join(self, blocks: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the tensor (rows, cols) from blocks (blocks, B, B)."""
        high, wide = self.padded
        tiles = np.empty(
            (high // self.block, wide // self.block, self.block, self.block), dtype=blocks.dtype
        )
        tiles[self.i, self.j] = blocks
        whole = tiles.swapaxes(1, 2).reshape(high, wide)
        return np.ascontiguousarray(whole[: self.rows, : self.cols])
