"""What a chunk of each use is made of, from the equations of the products."""

from diastole.control.descriptors import Mode, Region
from diastole.control.region import DY, W, X

# Dimensions along rows and columns; t streamed, l lanes, c contraction.
OPERANDS = {
    Mode.FORWARD: {X: "tc", W: "cl"},  # Y[t,l] = sum over c of X[t,c] W[c,l]
    Mode.DX: {DY: "tc", W: "lc"},  # dX[t,l] = sum over c of dY[t,c] W[l,c]
    Mode.DW: {X: "ct", DY: "cl"},  # dW[t,l] = sum over c of X[c,t] dY[c,l]
    Mode.FUSED: {X: "ct", DY: "cl", W: "tl"},  # dW, and dX[c,t] = sum over l of dY[c,l] W[t,l]
}

# Parts of an image. Maxima are those along the dimensions of a result.
BLOCKS, ROW_MAX, COL_MAX = range(3)

# Where it goes, with an array that turns in place: number of the step, tensor, part.
REGIONS = {
    Mode.FORWARD: {
        Region.MAXIMA_SOUTH: (0, X, ROW_MAX), Region.MAXIMA_EAST: (1, W, COL_MAX),
        Region.HELD: (5, W, BLOCKS), Region.SOUTH: (6, X, BLOCKS),
    },
    Mode.DX: {
        Region.MAXIMA_WEST: (0, DY, ROW_MAX), Region.MAXIMA_NORTH: (1, W, ROW_MAX),
        Region.HELD: (5, W, BLOCKS), Region.WEST: (6, DY, BLOCKS),
    },
    Mode.DW: {
        Region.MAXIMA_SOUTH: (0, X, COL_MAX), Region.MAXIMA_EAST: (1, DY, COL_MAX),
        Region.HELD: (5, DY, BLOCKS), Region.SOUTH: (6, X, BLOCKS),
    },
    Mode.FUSED: {
        Region.MAXIMA_SOUTH: (0, X, COL_MAX), Region.MAXIMA_EAST: (1, DY, COL_MAX),
        Region.MAXIMA_WEST: (2, W, ROW_MAX), Region.MAXIMA_NORTH: (3, DY, ROW_MAX),
        Region.WEST: (4, W, BLOCKS), Region.HELD: (5, DY, BLOCKS), Region.SOUTH: (6, X, BLOCKS),
    },
}  # fmt: skip
# Without a west side, the vectors of dX enter from the south as well.
EDGE_DX = {
    Region.MAXIMA_SOUTH: (0, DY, ROW_MAX), Region.MAXIMA_EAST: (1, W, ROW_MAX),
    Region.HELD: (5, W, BLOCKS), Region.SOUTH: (6, DY, BLOCKS),
}  # fmt: skip


def regions_of(mode: Mode, in_place: bool = True) -> dict:
    return EDGE_DX if mode == Mode.DX and not in_place else REGIONS[mode]
