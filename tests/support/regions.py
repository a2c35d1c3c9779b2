"""What a chunk of each use is made of, from the equations of the products."""

from diastole_hw.plan.modes import Mode
from diastole_hw.schedule.tokens import Region
from diastole_sim.spec.sizes.uses import DY, W, X

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
        Region.STATIONARY: (5, W, BLOCKS), Region.SOUTH: (6, X, BLOCKS),
    },
    Mode.DX: {
        Region.MAXIMA_WEST: (0, DY, ROW_MAX), Region.MAXIMA_NORTH: (1, W, ROW_MAX),
        Region.STATIONARY: (5, W, BLOCKS), Region.WEST: (6, DY, BLOCKS),
    },
    Mode.DW: {
        Region.MAXIMA_SOUTH: (0, X, COL_MAX), Region.MAXIMA_EAST: (1, DY, COL_MAX),
        Region.STATIONARY: (5, DY, BLOCKS), Region.SOUTH: (6, X, BLOCKS),
    },
    Mode.FUSED: {
        Region.MAXIMA_SOUTH: (0, X, COL_MAX), Region.MAXIMA_EAST: (1, DY, COL_MAX),
        Region.MAXIMA_WEST: (2, W, ROW_MAX), Region.MAXIMA_NORTH: (3, DY, ROW_MAX),
        Region.WEST: (4, W, BLOCKS), Region.STATIONARY: (5, DY, BLOCKS),
        Region.SOUTH: (6, X, BLOCKS),
    },
}  # fmt: skip
# Without a west side, the vectors of dX enter from the south as well.
EDGE_DX = {
    Region.MAXIMA_SOUTH: (0, DY, ROW_MAX), Region.MAXIMA_EAST: (1, W, ROW_MAX),
    Region.STATIONARY: (5, W, BLOCKS), Region.SOUTH: (6, DY, BLOCKS),
}  # fmt: skip


# All three in vector groups: the rows of every image are what is streamed, or the lanes.
GROUPED_OPERANDS = {
    Mode.FORWARD: {X: "tc", W: "lc"},
    Mode.DX: {DY: "tc", W: "lc"},
    Mode.DW: {X: "tc", DY: "lc"},
}


def _north(stream, held):
    return {
        Region.MAXIMA_WEST: (0, stream, ROW_MAX), Region.MAXIMA_NORTH: (1, held, ROW_MAX),
        Region.STATIONARY: (5, held, BLOCKS), Region.WEST: (6, stream, BLOCKS),
    }  # fmt: skip


GROUPED_REGIONS = {
    Mode.FORWARD: _north(X, W), Mode.DX: _north(DY, W), Mode.DW: _north(X, DY),
}  # fmt: skip
# X alone in vector groups: its image for dW has rows along t, which need not be turned.
X_GROUPED_OPERANDS = OPERANDS | {
    Mode.DW: {X: "tc", DY: "cl"},
    Mode.FUSED: {X: "tc", DY: "cl", W: "tl"},
}
X_GROUPED_REGIONS = {
    mode: {
        kind: (step, cls, ROW_MAX if cls == X and part == COL_MAX else part)
        for kind, (step, cls, part) in regions.items()
    }
    for mode, regions in REGIONS.items()
}


def operands_of(plan) -> dict:
    """By mode and class, the dimensions along the rows and the columns of the image."""
    return {3: GROUPED_OPERANDS, 1: X_GROUPED_OPERANDS, 0: OPERANDS}[_grouped(plan)]


def regions_of(mode: Mode, plan) -> dict:
    if mode == Mode.DX and not plan.in_place:
        return EDGE_DX
    return {3: GROUPED_REGIONS, 1: X_GROUPED_REGIONS, 0: REGIONS}[_grouped(plan)][mode]


def _grouped(plan) -> int:
    """How many classes are in vector groups: none, X, or all."""
    grouped = [plan.grouped(cls) for cls in (X, W, DY)]
    assert grouped in ([False] * 3, [True, False, False], [True] * 3)
    return sum(grouped)
