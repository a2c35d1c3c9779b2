"""The lengths of tiles that a machine gets: one policy, from its array and its bus."""

from math import ceil, lcm

from diastole_hw.plan.tiling import Tiling
from diastole_sim.spec.image import GROUP_BLOCKS, GroupLayout
from diastole_sim.spec.numerics import Numerics

FEWEST_VECTORS, MOST_VECTORS = 64, 128
"""Of a T tile: loading the next blocks hides in as many slots, and sums take room."""
FEWEST_FUSED_VECTORS = 16
"""Of a k tile of the fused pass."""


def pow2ceil(value: int) -> int:
    """The smallest power of two that is at least ``value`` (value >= 1)."""
    return 1 << (value - 1).bit_length()


def vectors_drained(side: int, *, block: int, data_width: int, ports: int) -> int:
    """Of B floats, that leave the array in a cycle where it has ``side`` ports: as many as the
    buses take together; a power of two."""
    most = max(1, min(side, ports * data_width // (32 * block)))
    return 1 << (most.bit_length() - 1)


def default_tiling(
    *, rows: int, cols: int, numerics: Numerics, data_width: int, ports: int = 1
) -> Tiling:
    """What every machine has that is not told otherwise; parameters as those of
    :class:`diastole_hw.plan.plan.Plan`."""
    block = numerics.block
    image_of_x = GroupLayout.of(numerics.tensor_class("x"), block=block, data_width=data_width)
    vectors = max(FEWEST_VECTORS, min(MOST_VECTORS, pow2ceil(16 * rows * block)))
    t_blocks = max(GROUP_BLOCKS, pow2ceil(rows), vectors // block)
    groups = _lane_groups(rows, cols, block, data_width, ports)
    # Short, since dX's sums live only for one slice of m; but X is read in pieces of it.
    shortest = max(ceil(rows / 2), FEWEST_FUSED_VECTORS // block, image_of_x.granule)
    fused_t_blocks = pow2ceil(shortest)
    # As many slices of N as dW's sums of a k tile have room for in the east accumulators.
    fused_slices_n = groups * t_blocks // fused_t_blocks
    return Tiling(
        t_blocks=t_blocks,
        groups=groups,
        chunk_east=lcm(cols, GROUP_BLOCKS),
        chunk_north=lcm(rows, GROUP_BLOCKS),
        fused_t_blocks=fused_t_blocks,
        fused_slices_m=ceil(fused_slices_n * rows / cols),
        fused_slices_n=fused_slices_n,
    )


def _lane_groups(rows: int, cols: int, block: int, data_width: int, ports: int) -> int:
    """The fewest, from 4 on, with which lane tiles begin whole groups, and whole beats and words of
    floats."""

    def begins_whole(lanes: int, side: int) -> bool:
        word = vectors_drained(side, block=block, data_width=data_width, ports=ports)
        units = GROUP_BLOCKS, word
        return lanes * block * 32 % data_width == 0 and not any(lanes % unit for unit in units)

    groups = 4
    while not all(begins_whole(groups * side, side) for side in (rows, cols)):
        groups *= 2
    return groups
