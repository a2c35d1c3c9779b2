"""Cut of a product: lengths of tiles and chunks, and the parts that stay on chip."""

from dataclasses import dataclass, fields
from math import lcm

from diastole_sim.spec.image import DATA_WIDTHS, GROUP_BLOCKS, GroupLayout
from diastole_sim.spec.integers import ceil_div, pow2ceil, pow2floor
from diastole_sim.spec.nest import MAX_BLOCKS
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.require import require_choice, require_int

FEWEST_VECTORS, MAX_VECTORS = 64, 128
"""Vectors of a T tile, at least and at most. The load of the next blocks hides behind as many
slots, and sums take memory."""
FEWEST_FUSED_VECTORS = 16
"""Fewest vectors of a k tile of the fused pass."""
MAX_PORTS = 2
"""Most ports to memory."""
FEWEST_TILES_IN_FLIGHT = 4
"""Fewest tiles in flight: two are loaded while two are drained."""


@dataclass(frozen=True, kw_only=True)
class Tiling:
    """Lengths chosen by a policy. :class:`diastole_sim.spec.sizes.array_sizes.ArraySizes` checks
    them.

    Lengths are in blocks, except ``groups`` and the lengths in slices. ``t_blocks``, ``groups``,
    ``fused_t_blocks`` and ``tiles_in_flight`` are powers of two, so addresses are shifts.

    t_blocks
        Blocks of a T tile: the part of the streaming operand in one pass.
    groups
        Slices of lanes in an output tile. Each half of a stream bank holds as many slices of a T
        tile, and each bank of accumulators holds the sums of the slices.
    chunk_east, chunk_north
        Blocks of a contraction in one load, if sums leave to the east (slices of ``cols``) and to
        the north (of ``rows``): whole slices and whole groups of the image.
    fused_t_blocks
        Blocks of a k tile of the fused backward pass.
    fused_slices_m, fused_slices_n
        Slices of dY that the fused pass keeps on chip, along M and along N.
    tiles_in_flight
        Output tiles whose maxima are kept at once, from the first request for a block of the tile
        to the drain of the tile's last sum.

    ValueError if a value is no integer in range. ``str`` gives all values on one line.
    """

    t_blocks: int
    groups: int
    chunk_east: int
    chunk_north: int
    fused_t_blocks: int
    fused_slices_m: int
    fused_slices_n: int
    tiles_in_flight: int = 8

    def __post_init__(self) -> None:
        for field in fields(self):
            require_int(field.name, getattr(self, field.name), 1, MAX_BLOCKS)
        for name in ("t_blocks", "groups", "fused_t_blocks", "tiles_in_flight"):
            value = getattr(self, name)
            if value & (value - 1):
                raise ValueError(f"{name} must be a power of two, not {value}")

    def __str__(self) -> str:
        return ", ".join(f"{field.name} {getattr(self, field.name)}" for field in fields(self))


def require_array(rows: int, cols: int, data_width: int, ports: int) -> None:
    """Raise ValueError for an array or a bus without a machine."""
    require_int("rows", rows, 1, 64)
    require_int("cols", cols, 1, 64)
    require_choice("data_width", data_width, DATA_WIDTHS)
    require_int("ports", ports, 1, MAX_PORTS)
    if ports > 1 and (rows % 2 or cols % 2):
        raise ValueError("two ports need even numbers of rows and of columns of cells")


def tiling_problem(
    tiling: Tiling, *, rows: int, cols: int, block: int, data_width: int, ports: int
) -> str | None:
    """Return the reason why a machine cannot run the products of a tiling; None if the machine
    can."""
    if tiling.t_blocks % GROUP_BLOCKS:
        return f"t_blocks must be whole groups of {GROUP_BLOCKS} blocks, not {tiling.t_blocks}"
    if tiling.tiles_in_flight < FEWEST_TILES_IN_FLIGHT:
        return (
            f"tiles_in_flight must be at least {FEWEST_TILES_IN_FLIGHT}: two are loaded "
            f"while two are drained, not {tiling.tiles_in_flight}"
        )
    for side, chunk, name in (
        (cols, tiling.chunk_east, "chunk_east"),
        (rows, tiling.chunk_north, "chunk_north"),
    ):
        lanes = tiling.groups * side
        if lanes % GROUP_BLOCKS or lanes * block * 32 % data_width:
            return (
                f"groups must make lane tiles of {side} cells whole groups of {GROUP_BLOCKS} "
                f"blocks and whole beats of floats, not {tiling.groups}"
            )
        drained = vectors_drained(side, block=block, data_width=data_width, ports=ports)
        if lanes % drained:
            return (
                f"groups must make lane tiles of {side} cells whole words of {drained} "
                f"vectors, not {tiling.groups}"
            )
        if chunk % side or chunk % GROUP_BLOCKS:
            return f"{name} must be a multiple of {side} and of {GROUP_BLOCKS} blocks, not {chunk}"
        if chunk // side > tiling.groups:
            return f"{name} must be at most {tiling.groups} slices of {side}, not {chunk}"
    return None


def vectors_drained(side: int, *, block: int, data_width: int, ports: int) -> int:
    """Return the number of vectors of B floats that leave the array in a cycle at ``side`` ports:
    as many as all buses take together, a power of two."""
    limit = max(1, min(side, ports * data_width // (32 * block)))
    return pow2floor(limit)


def default_tiling(
    *, rows: int, cols: int, numerics: Numerics, data_width: int, ports: int = 1
) -> Tiling:
    """Return the tiling of every machine without a tiling of its own. Parameters as in
    :class:`diastole_sim.spec.sizes.array_sizes.ArraySizes`."""
    block = numerics.block
    image_of_x = GroupLayout.of(numerics.tensor_class("x"), block=block, data_width=data_width)
    vectors = max(FEWEST_VECTORS, min(MAX_VECTORS, pow2ceil(16 * rows * block)))
    t_blocks = max(GROUP_BLOCKS, pow2ceil(rows), vectors // block)
    groups = _lane_groups(rows, cols, block, data_width, ports)
    # Short tiles, since dX's sums live only for one slice of m. But X is read in pieces of a tile.
    shortest = max(ceil_div(rows, 2), FEWEST_FUSED_VECTORS // block, image_of_x.granule)
    fused_t_blocks = pow2ceil(shortest)
    # As many slices of N as the east accumulators hold sums of dW for a k tile.
    fused_slices_n = groups * t_blocks // fused_t_blocks
    return Tiling(
        t_blocks=t_blocks,
        groups=groups,
        chunk_east=lcm(cols, GROUP_BLOCKS),
        chunk_north=lcm(rows, GROUP_BLOCKS),
        fused_t_blocks=fused_t_blocks,
        fused_slices_m=ceil_div(fused_slices_n * rows, cols),
        fused_slices_n=fused_slices_n,
    )


def _lane_groups(rows: int, cols: int, block: int, data_width: int, ports: int) -> int:
    """Return the smallest number of groups, from 4 on, with which lane tiles begin whole groups of
    blocks, whole beats of floats and whole words of floats."""

    def begins_whole(lanes: int, side: int) -> bool:
        word = vectors_drained(side, block=block, data_width=data_width, ports=ports)
        units = GROUP_BLOCKS, word
        return lanes * block * 32 % data_width == 0 and not any(lanes % unit for unit in units)

    groups = 4
    while not all(begins_whole(groups * side, side) for side in (rows, cols)):
        groups *= 2
    return groups
