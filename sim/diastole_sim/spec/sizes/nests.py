"""Accepted lengths of the loops of products on a machine."""

from dataclasses import dataclass
from math import lcm

from diastole_sim.spec.nest import NestLimits
from diastole_sim.spec.sizes.tiling import Tiling
from diastole_sim.spec.sizes.uses import Use


@dataclass(frozen=True, kw_only=True)
class NestRules:
    """Facts that decide the accepted lengths.

    ``rows``, ``cols``: cells. ``block``: B. ``beat_bytes``: bytes of a beat. ``granules``: granules
    of the images, by class. ``tiling``: cut of products into tiles. ``stream_blocks``,
    ``stationary_blocks``: blocks in a bank of the streaming and of the stationary operand.
    ``drained``: vectors that leave in a cycle, by the number of cells along the lanes.
    """

    rows: int
    cols: int
    block: int
    beat_bytes: int
    granules: tuple[int, ...]
    tiling: Tiling
    stream_blocks: int
    stationary_blocks: int
    drained: dict[int, int]

    def limits(self, use: Use) -> NestLimits:
        """Return the accepted lengths. The memories must hold the tiles, and tiles must begin at
        places allowed by the images and by a row of the result."""
        tiling = self.tiling
        sides = (self.rows, self.cols)
        c_side, l_side = sides if use.north else sides[::-1]
        streaming, stationary = self.granules[use.stream], self.granules[use.stationary]
        t_unit = streaming if use.stream_transposed else 1
        l_unit = 1 if use.stationary_by_lanes else stationary
        c_units = [c_side]
        c_units += [] if use.stream_transposed else [streaming]
        c_units += [stationary] if use.stationary_by_lanes else []
        lane_bytes = l_side * self.block * 4
        groups = [
            count
            for count in range(1, tiling.groups + 1)
            if count * l_side % l_unit == 0
            and count * l_side % self.drained[l_side] == 0
            and count * lane_bytes % self.beat_bytes == 0
        ]
        powers = (1 << log for log in range(tiling.t_blocks.bit_length()))
        unit = lcm(*c_units)
        chunk = tiling.chunk_north if use.north else tiling.chunk_east
        return NestLimits(
            t_blocks=tuple(blocks for blocks in powers if blocks % t_unit == 0),
            groups=tuple(groups),
            chunk=tuple(range(unit, chunk + 1, unit)),
            chunk_side=c_side,
            lane_side=l_side,
            stream_blocks=self.stream_blocks,
            stationary_blocks=self.stationary_blocks,
            pass_blocks=self.rows,
        )
