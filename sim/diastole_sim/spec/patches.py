"""In which patches a product's tiles may give the converter a tensor that they do not hold whole
rows of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.require import require_int

MOST_TILE_BLOCKS = 2**16


@dataclass(frozen=True, kw_only=True)
class PatchLimits:
    """What patches of tensors a machine's converter takes one after the other.

    ``tiles``: by class, rows and columns of blocks of what it takes in before anything of it is
    quantised, a *tile*; ``kept_rows``: most rows of blocks whose maxima wait for the patches beside
    theirs. ValueError if one is out of range.
    """

    tiles: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
    kept_rows: int

    def __post_init__(self) -> None:
        require_int("kept_rows", self.kept_rows, 1, MOST_TILE_BLOCKS)
        for name, sides in zip(CLASS_NAMES, self.tiles, strict=True):
            for side in sides:
                require_int(f"tile blocks of class {name}", side, 1, MOST_TILE_BLOCKS)

    def takes(
        self,
        tensor_class: int,
        blocks: tuple[int, int],
        patch: tuple[int, int],
        *,
        by_columns: bool,
    ) -> bool:
        """Whether a tensor of (rows, columns) of ``blocks`` may come in patches of so many, column
        by column of patches or row by row; the last ones have what is left.

        A patch is whole tiles, of its columns one where tiles are higher than a block, else any
        number; of its rows all is as good. Of the rows that are begun before they are complete, a
        patch's, or with ``by_columns`` the tensor's, the maxima are kept.
        """
        if tensor_class >= len(self.tiles):
            return False
        tile_rows, tile_cols = self.tiles[tensor_class]
        high, wide = patch
        across = wide == tile_cols if tile_rows > 1 else wide % tile_cols == 0
        down = high % tile_rows == 0 or high >= blocks[0]
        begun = blocks[0] if by_columns else min(high, blocks[0])
        return across and down and begun <= self.kept_rows

    def to_dict(self) -> dict[str, Any]:
        """For a manifest."""
        return {"tiles": [list(sides) for sides in self.tiles], "kept_rows": self.kept_rows}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "PatchLimits":
        """The inverse of :meth:`to_dict`."""
        x, w, dy = ((rows, cols) for rows, cols in given["tiles"])
        return cls(tiles=(x, w, dy), kept_rows=given["kept_rows"])
