"""What the decoupled units of the controller tell each other; one place for every layout.

Positions and lengths are in blocks unless a name says ``count`` or ``size`` (elements).
"""

from amaranth.hdl import signed, unsigned
from amaranth.lib import data, enum

from diastole.plan import ADDRESS_BITS, MAX_ELEMENT_BITS, Plan
from diastole.uses import Mode

POSITION = unsigned(MAX_ELEMENT_BITS)


class Region(enum.Enum, shape=3):
    """Where a run of beats goes: a scratchpad, or one of the four maxima memories."""

    SOUTH = 0
    WEST = 1
    HELD = 2
    MAXIMA_SOUTH = 4
    MAXIMA_EAST = 5
    MAXIMA_WEST = 6
    MAXIMA_NORTH = 7


TENSOR = data.StructLayout(
    {
        "base": unsigned(ADDRESS_BITS),
        "pitch": unsigned(32),  # bytes from one row of blocks to the next
        "row_max": unsigned(ADDRESS_BITS),
        "col_max": unsigned(ADDRESS_BITS),
    }
)

RESULT = data.StructLayout(
    {
        "base": unsigned(ADDRESS_BITS),
        "pitch": unsigned(MAX_ELEMENT_BITS + 3),  # bytes from one row to the next
        "rows": unsigned(MAX_ELEMENT_BITS),
        "cols": unsigned(MAX_ELEMENT_BITS),
    }
)

# One product, as the units see it while it runs; constant from its start to its end.
PRODUCT = data.StructLayout(
    {
        "mode": Mode,
        "north": 1,  # sums leave to the north only; 0 in the fused pass, which has both
        "t_size": POSITION,  # elements along the streamed dimension
        "t_blocks": POSITION,
        "l_blocks": POSITION,  # blocks along the lanes
        "c_blocks": POSITION,  # blocks along the contraction
        "tensors": data.ArrayLayout(TENSOR, 3),  # by class: x, w, dy; the image that is read
        "exponents": data.ArrayLayout(signed(10), 3),  # of tensors whose groups have scales, else 0
        "to_east": RESULT,
        "to_north": RESULT,
    }
)


def chunk_layout(plan: Plan) -> data.StructLayout:
    """A chunk of a contraction, for one output tile."""
    lanes = max(plan.groups * max(plan.rows, plan.cols), plan.fused_blocks_n)
    chunk = max(plan.chunk(plan.rows), plan.chunk(plan.cols))
    return data.StructLayout(
        {
            "t0": POSITION,
            "t_blocks": range(plan.tile_blocks + 1),
            "t_count": range(plan.tile_words + 1),
            "l0": POSITION,
            "l_blocks": range(lanes + 1),
            "c0": POSITION,
            "c_blocks": range(chunk + 1),
            "index": range(plan.fused_slices_m + 1),  # of the chunk in its tile; fused pass only
            "first": 1,  # of its tile
            "last": 1,
            "first_tile": 1,
            "tile": 2,  # number of the output tile, modulo 4
        }
    )
