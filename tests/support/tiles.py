"""Numerics and bus widths for the units of the converter, and the tiles of a tensor by plain loops,
not by our own description of their sizes."""

from dataclasses import dataclass
from math import lcm

from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from support.numerics import make_numerics

TWO_SCALES = "four-over-six"
# What differs between machines: one copy or two, a scale of the tensor's, exponents that are folded
# to their largest element, words that are shorter or longer than a block's row, than a group's.
MACHINES = {
    "squares": ({"block": 4, "groupings": ("4x4", "16x16", "8x8")}, 64),
    "large squares": ({"block": 2, "groupings": ("32x32", "2x2", "16x16")}, 32),
    "elements": ({"block": 1}, 64),  # a word covers two blocks
    "words of many blocks": ({"block": 2, "formats": ("bfp2", "bfp4", "bfp8")}, 512),
    "beats of two words": ({"block": 1, "formats": ("bfp2", "bfp4", "bfp8")}, 512),
    "words shorter than blocks": ({"block": 8, "roundings": "nearest"}, 64),
    "vectors": ({"block": 4, "groupings": ("1x16", "1x4", "16x16"), "special": "poison"}, 64),
    "long vectors": (
        {"block": 2, "groupings": ("1x64", "1x2", "1x16"), "roundings": "nearest"},
        64,
    ),
    "vectors of elements": ({"block": 1, "groupings": ("1x2", "1x4", "1x1")}, 512),
    "tensor scales": (
        {"block": 4, "formats": ("fp8_e4m3", "fp8_e5m2", "e3m4"), "window": 0},
        64,
    ),
    "two levels": ({"block": 4, "formats": "nvfp4"}, 64),
    "two scales": ({"block": 4, "formats": "nvfp4", "scales": TWO_SCALES}, 64),
    "squares of two scales": (
        {"block": 2, "formats": "nvfp4", "groupings": ("2x2", "16x16", "8x8")}
        | {"scales": (TWO_SCALES, TWO_SCALES, "nearest"), "special": "poison"},
        128,
    ),
    "scales of their own": (
        {"block": 4, "formats": "mxfp8_e4m3", "groupings": ("4x4", "8x8", "16x16"), "window": 16}
        | {"scales": "floor"},
        64,
    ),
    "folding tensors": (
        {"block": 4, "formats": ("fp8_e4m3", "e3m4", "fp8_e5m2"), "window": 16}
        | {"special": "poison"},
        64,
    ),
    "folding what overflows": (
        {
            "block": 4,
            "formats": ("fp8_e4m3", "mxfp8_e4m3", "fp8_e5m2"),
            "groupings": ("tensor", "1x32", "tensor"),
            "scales": ("rceil", "floor", "rceil"),
        }
        | {"overflows": "specification", "special": "poison"},
        128,
    ),
    "folding elements": (
        {"block": 1, "formats": "fp8_e5m2", "groupings": ("tensor", "1x4", "2x2")}
        | {"scales": ("rceil", "floor", "floor"), "overflows": "specification"},
        128,
    ),
}


def machine(name: str) -> tuple[Numerics, int]:
    """The numerics of one of ``MACHINES``, and the width of its bus."""
    keys, data_width = MACHINES[name]
    return make_numerics(**{"fraction": 0, "headroom": 4} | keys), data_width


def joined(values, bits: int) -> int:
    """Values of so many bits, the first in the lowest."""
    return sum(value << n * bits for n, value in enumerate(values))


def finds(numerics: Numerics, cls: int) -> bool:
    """Whether a class's tiles are passed twice, first to find which scale its groups get."""
    return class_of(numerics, cls).scale == TWO_SCALES


def draws_early(numerics: Numerics, cls: int) -> bool:
    """Whether what a class is folded by hangs on draws."""
    return numerics.folds(CLASS_NAMES[cls]) and class_of(numerics, cls).rounding != "nearest"


def class_of(numerics: Numerics, cls: int):
    return numerics.tensor_class(CLASS_NAMES[cls])


def tile_shape(numerics: Numerics, cls: int) -> tuple[int, int]:
    """Whole groups of 8 blocks of every copy, and whole groups that share an exponent."""
    chosen, block = class_of(numerics, cls), numerics.block
    if chosen.grouping.kind == "tensor":
        return block, 8 * block
    side = chosen.grouping.size
    rows = 8 * block if chosen.grouping.kind == "vector" else block
    return lcm(rows, side), lcm(8 * block, side)


def piece_cols(numerics: Numerics, data_width: int, cls: int) -> int:
    """Columns that are read before those beside them: of one row of squares that are known with
    their last row at least 16, four beats and a block; else the whole tile."""
    height, width = tile_shape(numerics, cls)
    if height > numerics.block or finds(numerics, cls):
        return width
    return min(width, max(16, 4 * data_width // 32, numerics.block))


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Where a tile begins in its tensor, what of it lies inside, and whether it is at an edge."""

    row: int
    col: int
    rows: int
    cols: int
    tensor_rows: int
    tensor_cols: int

    @property
    def index(self) -> int:
        return self.row * self.tensor_cols + self.col

    def fields(self, address: int = 0) -> dict[str, int]:
        """As it is described in hardware."""
        return {
            "address": address,
            "index": self.index % 2**34,
            "rows": self.rows,
            "cols": self.cols,
            "first_row": self.row == 0,
            "first_col": self.col == 0,
            "last_row": self.row + self.rows == self.tensor_rows,
            "last_col": self.col + self.cols == self.tensor_cols,
        }


def tiles_of(numerics: Numerics, cls: int, rows: int, cols: int) -> list[Tile]:
    """Row of tiles by row of tiles."""
    height, width = tile_shape(numerics, cls)
    return [
        Tile(
            row=row,
            col=col,
            rows=min(height, rows - row),
            cols=min(width, cols - col),
            tensor_rows=rows,
            tensor_cols=cols,
        )
        for row in range(0, rows, height)
        for col in range(0, cols, width)
    ]


def tile_items(numerics, data_width, cls, shape, source):
    """What every tile of a tensor is described by, and the bytes from row to row of floats."""
    beat = data_width // 8
    pitch = -(-4 * shape[1] // beat) * beat
    tiles = tiles_of(numerics, cls, *shape)
    return [tile.fields(source + tile.row * pitch + 4 * tile.col) for tile in tiles], pitch
