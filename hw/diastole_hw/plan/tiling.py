"""How a product is cut: lengths of tiles and chunks, and what stays on chip."""

from dataclasses import dataclass, fields

from diastole_sim.spec.check import require_int
from diastole_sim.spec.nest import MOST_BLOCKS


@dataclass(frozen=True, kw_only=True)
class Tiling:
    """Lengths that a policy chooses and :class:`diastole_hw.plan.plan.Plan` checks.

    Lengths are in blocks, but ``groups`` and those of slices. Powers of two, so that addresses are
    shifts: ``t_blocks``, ``groups``, ``fused_t_blocks``, ``tiles_in_flight``.

    t_blocks
        Blocks of a T tile: what streams in one pass.
    groups
        Slices of lanes in an output tile; each half of a stream bank holds as many slices of a T
        tile, and each bank of accumulators their sums.
    chunk_east, chunk_north
        Blocks of a contraction that are loaded at a time, where sums leave to the east (slices of
        ``cols``) and to the north (of ``rows``): whole slices and whole groups of the image.
    fused_t_blocks
        Blocks of a k tile of the fused backward pass.
    fused_slices_m, fused_slices_n
        Slices of dY that the fused pass keeps on chip, along both its dimensions.
    tiles_in_flight
        Output tiles whose maxima are kept at once: from the first of a tile's blocks that is asked
        for to the last of its sums that is drained.

    ValueError if one is no integer of its range. ``str`` gives them on one line.
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
            require_int(field.name, getattr(self, field.name), 1, MOST_BLOCKS)
        for name in ("t_blocks", "groups", "fused_t_blocks", "tiles_in_flight"):
            value = getattr(self, name)
            if value & (value - 1):
                raise ValueError(f"{name} must be a power of two, not {value}")

    def __str__(self) -> str:
        return ", ".join(f"{field.name} {getattr(self, field.name)}" for field in fields(self))
