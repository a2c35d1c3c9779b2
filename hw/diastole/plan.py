"""The memory plan: every size and address stride that follows from one configuration.

Words used here. A *slice* is what the array holds at once along one dimension: ``cols`` blocks
along a, ``rows`` blocks along b. A *T tile* is the run of vectors that a pass streams. A *chunk* is
the part of a contraction that is loaded at a time. All tile lengths are in blocks unless said.
"""

from dataclasses import dataclass
from functools import cached_property
from math import ceil, lcm

from diastole_sim.formats import BlockFormat
from diastole_sim.program.command import ADDRESS_BITS
from diastole_sim.program.image import GROUP_BLOCKS as GROUP
from diastole_sim.program.image import MAX_SIZE

__all__ = ["ADDRESS_BITS", "GROUP", "MAX_ELEMENT_BITS", "Plan", "pow2ceil"]

MAX_ELEMENT_BITS = MAX_SIZE.bit_length()


def pow2ceil(value: int) -> int:
    """The smallest power of two that is at least ``value`` (value >= 1)."""
    return 1 << (value - 1).bit_length()


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Sizes of tiles, banks and words; the only place where they are chosen.

    ``rows``, ``cols`` in cells; ``block`` B; ``x``, ``w``, ``dy`` the formats of the three classes;
    ``fraction`` F and ``headroom`` G in bits; ``data_width`` D of the memory bus in bits.
    """

    rows: int
    cols: int
    block: int
    in_place: bool
    x: BlockFormat
    w: BlockFormat
    dy: BlockFormat
    fraction: int
    headroom: int
    data_width: int

    @classmethod
    def from_config(cls, config) -> "Plan":
        n = config.numerics
        return cls(
            rows=config.array.rows,
            cols=config.array.cols,
            block=n.block,
            in_place=config.array.transpose == "in_place",
            x=n.x.format,
            w=n.w.format,
            dy=n.dy.format,
            fraction=n.fraction,
            headroom=n.headroom,
            data_width=config.bus.data_width,
        )

    # Widths in bits.

    @property
    def formats(self) -> tuple[BlockFormat, BlockFormat, BlockFormat]:
        """By class number: x, w, dy."""
        return (self.x, self.w, self.dy)

    @property
    def mantissas(self) -> tuple[int, int, int]:
        return tuple(f.mantissa_bits for f in self.formats)

    @property
    def south_bits(self) -> int:
        """Magnitude bits of a vector from the south: X, and dY where W turns at the edge."""
        x, _, dy = self.mantissas
        return x if self.in_place else max(x, dy)

    @property
    def west_bits(self) -> int:
        _, w, dy = self.mantissas
        return max(w, dy)

    @property
    def held_bits(self) -> int:
        _, w, dy = self.mantissas
        return max(w, dy)

    @cached_property
    def sum_bits(self) -> int:
        """SW of the widest of the three products (design, section 4)."""
        x, w, dy = self.mantissas
        return max(x + w, w + dy, x + dy) + 1 + (self.block - 1).bit_length()

    @property
    def deficit_bits(self) -> int:
        return (self.sum_bits + self.fraction).bit_length()

    @property
    def accumulator_bits(self) -> int:
        """W = SW + F + G."""
        return self.sum_bits + self.fraction + self.headroom

    @property
    def log_block(self) -> int:
        return (self.block - 1).bit_length()

    @property
    def beat_bytes(self) -> int:
        return self.data_width // 8

    # The memory image, in beats.

    @property
    def exponent_beats(self) -> int:
        return ceil(GROUP / self.beat_bytes)

    def vector_bits(self, cls: int) -> int:
        return self.block * (self.mantissas[cls] + 1)

    def mantissa_beats(self, cls: int, blocks: int) -> int:
        """Beats that hold the first ``blocks`` blocks of a group's mantissa field."""
        return ceil(blocks * self.block * self.vector_bits(cls) / self.data_width)

    def group_beats(self, cls: int) -> int:
        return self.exponent_beats + self.mantissa_beats(cls, GROUP)

    def granule(self, cls: int) -> int:
        """Blocks after which a block of a group starts on a beat: 1, 2, 4 or 8."""
        for blocks in (1, 2, 4):
            if blocks * self.block * self.vector_bits(cls) % self.data_width == 0:
                return blocks
        return GROUP

    # Tiles of a product.

    @cached_property
    def tile_blocks(self) -> int:
        """Blocks of a T tile; a power of two, so that addresses are shifts.

        128 vectors, or 64 where R B is so small that loading the next blocks hides in less.
        """
        vectors = max(64, min(128, pow2ceil(16 * self.rows * self.block)))
        return max(GROUP, pow2ceil(self.rows), vectors // self.block)

    @cached_property
    def groups(self) -> int:
        """Slices of lanes in an output tile and, at most, in a chunk; a power of two."""
        groups = 4
        while any(
            (groups * side) % GROUP or groups * side * self.block * 4 % self.beat_bytes
            for side in (self.rows, self.cols)
        ):
            groups *= 2
        return groups

    def chunk(self, side: int) -> int:
        """Blocks of a contraction chunk that is cut into slices of ``side``: whole groups."""
        return lcm(side, GROUP)

    @property
    def tile_words(self) -> int:
        """Vectors of a T tile."""
        return self.tile_blocks * self.block

    @property
    def half_words(self) -> int:
        """Words in each half of a stream bank and in each accumulator bank."""
        return self.groups * self.tile_words

    @property
    def held_stride(self) -> int:
        """Words of the held memory from one a-slice to the next, in a product."""
        return self.groups * self.rows * self.block

    @property
    def held_half_words(self) -> int:
        return self.groups * self.held_stride

    # The fused backward pass.

    @cached_property
    def fused_tile_blocks(self) -> int:
        """Blocks of a k tile: short, since dX's sums live only for one m slice."""
        shortest = max(ceil(self.rows / 2), 16 // self.block, self.granule(0))
        return pow2ceil(max(1, shortest))

    @property
    def fused_tile_words(self) -> int:
        return self.fused_tile_blocks * self.block

    @property
    def fused_slices_n(self) -> int:
        """Slices of N for which dW's sums of a k tile fit the east accumulators."""
        return self.half_words // self.fused_tile_words

    @property
    def fused_slices_m(self) -> int:
        return ceil(self.fused_slices_n * self.rows / self.cols)

    @property
    def fused_blocks_n(self) -> int:
        return self.fused_slices_n * self.rows

    @property
    def fused_blocks_m(self) -> int:
        return self.fused_slices_m * self.cols

    @property
    def fused_held_stride(self) -> int:
        return self.fused_slices_n * self.rows * self.block

    @property
    def held_words(self) -> int:
        """Depth of a held bank: two halves for products, or the whole of dY."""
        halves = 2 * self.held_half_words
        return (
            max(halves, self.fused_slices_m * self.fused_held_stride) if self.in_place else halves
        )

    # Maxima.

    @property
    def stream_maxima_words(self) -> int:
        """Beats of one slot of stream maxima: a T tile that may start inside a beat."""
        return ceil(self.tile_blocks / self.beat_bytes) + 1

    @property
    def held_maxima_words(self) -> int:
        lanes = self.groups * max(self.rows, self.cols)
        return ceil(lanes / self.beat_bytes) + 1

    @property
    def held_maxima_depth(self) -> int:
        """Four slots, or in the fused pass the maxima of the whole of dY."""
        whole = max(self.fused_blocks_n, self.fused_blocks_m) if self.in_place else 0
        return max(4 * pow2ceil(self.held_maxima_words), ceil(whole / self.beat_bytes))

    @property
    def maxima_depth(self) -> int:
        """Depth of each memory of maxima, in beats."""
        return max(4 * pow2ceil(self.stream_maxima_words), self.held_maxima_depth)

    @property
    def converter_blocks(self) -> int:
        """Most blocks in a row of a tensor that the converter can keep column maxima for."""
        return 4096

    @property
    def macs(self) -> int:
        return self.rows * self.cols * self.block**2
