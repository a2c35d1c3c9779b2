"""Describe the patches of a tensor that the converter takes if a product's tiles hold no whole
rows.

A *patch* is the part of a result in one tile of a product.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.require import require_int

MAX_TILE_BLOCKS = 2**16


@dataclass(frozen=True, kw_only=True)
class PatchLimits:
    """Limits of the patches of a tensor, which a machine's converter takes one after another.

    ``tiles``: for every class, rows and columns of blocks of a *tile*. The converter takes in a
    whole tile before it quantises any part of the tile. ``kept_rows``: most rows of blocks whose
    maxima wait for the neighbouring patches of the row. ValueError if a number is out of range.
    """

    tiles: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
    kept_rows: int

    def __post_init__(self) -> None:
        require_int("kept_rows", self.kept_rows, 1, MAX_TILE_BLOCKS)
        for name, sides in zip(CLASS_NAMES, self.tiles, strict=True):
            for side in sides:
                require_int(f"tile blocks of class {name}", side, 1, MAX_TILE_BLOCKS)

    def accepts(
        self,
        tensor_class: int,
        blocks: tuple[int, int],
        patch: tuple[int, int],
        *,
        by_columns: bool,
    ) -> bool:
        """Return whether the converter takes a tensor in patches, column by column of patches or
        row by row.

        ``blocks`` are rows and columns of the tensor in blocks, ``patch`` rows and columns of a
        patch in blocks. The last patches may be smaller. A patch consists of whole tiles. Where
        tiles are higher than a block, a patch is exactly one tile wide, else any number of tiles.
        The height of a patch is whole tiles, or all rows of the tensor. The converter keeps the
        maxima of rows that are begun and not complete: of a patch's rows, or with ``by_columns`` of
        the tensor's rows.
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
        """Return the limits as plain values for a manifest."""
        return {"tiles": [list(sides) for sides in self.tiles], "kept_rows": self.kept_rows}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "PatchLimits":
        """Return the limits written by :meth:`to_dict`."""
        x, w, dy = ((rows, cols) for rows, cols in values["tiles"])
        return cls(tiles=(x, w, dy), kept_rows=values["kept_rows"])
