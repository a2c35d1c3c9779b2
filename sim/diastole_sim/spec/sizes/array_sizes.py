"""Sizes of a machine's array, tiles and memories: all follow from one configuration.

A *slice* is the part of a product's dimension that the array holds at once: ``cols`` blocks along
one dimension, ``rows`` blocks along the other. A *T tile* is the run of vectors that a pass
streams. A *chunk* is the part of a contraction in one load. All tile lengths are in blocks unless
stated. A class is *grouped* if its tensors are in vector groups and so have two images.
"""

from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any, Self

from diastole_sim.spec.accumulator import FloatAccumulator
from diastole_sim.spec.formats import PLANE_BITS, Format
from diastole_sim.spec.image import GroupLayout, image_layouts
from diastole_sim.spec.integers import ceil_div, log2, pow2ceil
from diastole_sim.spec.nest import ProductNests
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics, TensorClass
from diastole_sim.spec.operations import summed_inside
from diastole_sim.spec.require import require_choice
from diastole_sim.spec.sizes.nests import NestRules
from diastole_sim.spec.sizes.tiling import (
    Tiling,
    default_tiling,
    require_array,
    tiling_problem,
    vectors_drained,
)
from diastole_sim.spec.sizes.uses import DY, PRODUCTS, WIDEST, Use, W, Widths, X, use_of

SUM_MEMORIES = 2
"""Memories of sums behind each port. Tiles alternate between the memories. Tiles that fit in half
of a memory alternate between the halves."""
TILES_OF_SUMS = 2 * SUM_MEMORIES
"""Most tiles with sums in the memories."""
SPARE_WORDS = 4
"""Words in the queue of a port beside half of the longest row."""
MAX_QUEUED_WORDS = 128
"""Most words of the queue of a port. Longer rows make the drain wait for their port."""


@dataclass(frozen=True, kw_only=True)
class ArraySizes:
    """Sizes of tiles, banks and words, which follow from the array, the numbers and the tiling.

    ``rows``, ``cols``: cells (1 to 64). ``numerics``: formats, groups, block side B, F and G.
    ``in_place``: the cells transpose; otherwise the edge of the array does. ``data_width``: D of
    the memory bus in bits. ``ports``: number of buses, 1 or 2. ``tiling``: cut of products.
    ``has_vector``: the machine has a vector unit.

    ValueError for vector groups of W or dY with transposition at the edge, and for two ports with
    an odd number of rows or columns. ValueError for chunks of a float accumulator that are no whole
    number of passes, for float accumulators with planes, and for a tiling that the machine cannot
    run.
    """

    rows: int
    cols: int
    in_place: bool = True
    numerics: Numerics
    data_width: int
    tiling: Tiling
    ports: int = 1
    has_vector: bool = False

    @classmethod
    def of(
        cls,
        numerics: Numerics,
        *,
        rows: int,
        cols: int,
        data_width: int,
        ports: int = 1,
        **others: Any,
    ) -> Self:
        """Return the sizes of a machine cut by :func:`default_tiling`. ``others``: all further
        parameters of the class."""
        array = {"rows": rows, "cols": cols, "data_width": data_width, "ports": ports}
        require_array(**array)
        tiling = default_tiling(numerics=numerics, **array)
        return cls(numerics=numerics, tiling=tiling, **array, **others)

    def __post_init__(self) -> None:
        require_array(self.rows, self.cols, self.data_width, self.ports)
        if not self.in_place and (self.grouped(W) or self.grouped(DY)):
            raise ValueError("vector groups of W or dY need an array that transposes in place")
        if self.floats and any(self.accumulator.chunk % cut for cut in self._cuts):
            cuts = ", ".join(map(str, self._cuts))
            raise ValueError(f"chunks of sums must be multiples of {cuts} elements")
        if self.floats and self.planar:
            raise ValueError(
                "sums of planes must be integers, because planes are not added chunk by chunk"
            )
        array = {"rows": self.rows, "cols": self.cols, "block": self.block}
        problem = tiling_problem(self.tiling, **array, data_width=self.data_width, ports=self.ports)
        if problem is None and self.fused:
            problem = self._fused_problem()
        if problem:
            raise ValueError(f"tiling: {problem}")

    def _fused_problem(self) -> str | None:
        """Return the reason why the machine cannot run the fused pass of its tiling; None if it
        can."""
        tiling, granule = self.tiling, self.group_layouts[X].granule
        max_blocks = tiling.groups * tiling.t_blocks // tiling.fused_t_blocks
        if tiling.fused_t_blocks % granule and not self.grouped(X):
            return f"fused_t_blocks must be a multiple of {granule}, not {tiling.fused_t_blocks}"
        if self.ports > 1 and tiling.fused_t_blocks * self.block * 4 % self.beat_bytes:
            return f"fused_t_blocks must be whole beats of floats, not {tiling.fused_t_blocks}"
        if 2 * tiling.fused_t_blocks < self.rows:
            least = ceil_div(self.rows, 2)
            return (
                f"fused_t_blocks must be at least {least}, to load the next blocks meanwhile, "
                f"not {tiling.fused_t_blocks}"
            )
        if tiling.fused_slices_n > max_blocks:
            return f"fused_slices_n must be at most {max_blocks}, not {tiling.fused_slices_n}"
        return None

    @property
    def macs(self) -> int:
        """Multipliers of the array."""
        return self.rows * self.cols * self.block**2

    # Sizes from the numerics.

    @cached_property
    def block(self) -> int:
        return self.numerics.block

    @cached_property
    def log_block(self) -> int:
        return log2(self.block)

    def tensor_class(self, cls: int) -> TensorClass:
        """Return the class by its number."""
        return self.numerics.tensor_class(CLASS_NAMES[cls])

    @cached_property
    def formats(self) -> tuple[Format, Format, Format]:
        """Formats of x, w and dy, by class number."""
        x, w, dy = (self.tensor_class(cls).format for cls in range(3))
        return x, w, dy

    @cached_property
    def _grouped(self) -> tuple[bool, ...]:
        return tuple(self.tensor_class(cls).two_copies for cls in range(3))

    def grouped(self, cls: int) -> bool:
        """Return whether the class is in vector groups: an exponent per row of a block, two
        images."""
        return self._grouped[cls]

    @property
    def significands(self) -> bool:
        """True if groups have scales that are no powers of two (NVFP4)."""
        return self.numerics.scale_significands

    @property
    def poison(self) -> bool:
        return self.numerics.special == "poison"

    # Planes, where a class has the format ``fast``.

    @cached_property
    def max_planes(self) -> tuple[int, ...]:
        """Most images of a copy of a tensor, by class number. Each image has some bits of every
        magnitude. 1 if the bits of an element are fixed."""
        return tuple(self.numerics.planes_of(name)[-1] for name in CLASS_NAMES)

    @property
    def planar(self) -> bool:
        """True if commands give the numbers of planes of their tensors."""
        return self.numerics.chooses_widths

    def widths(self, cls: int) -> tuple[int, ...] | None:
        """Return the possible bits of magnitude of a class's tensors after conversion. None if the
        format has one width."""
        return self.numerics.widths if self.tensor_class(cls).format.planes else None

    def planes(self, cls: int, width: int | None = None) -> int:
        """Return the number of images of a copy of a tensor of ``width`` bits of magnitude, None
        for the widest: one image for every two bits. ValueError for a width unknown to the
        class."""
        if width is None:
            return self.max_planes[cls]
        widths, name = self.widths(cls), CLASS_NAMES[cls]
        if widths is None:
            raise ValueError(
                f"width of {name} must be left out, not {width}: the format of class {name} "
                "has a single width"
            )
        require_choice(f"width of {name}", width, widths)
        return width // PLANE_BITS

    def west_parts(self, planes: int) -> int:
        """Return the number of parts in half of a west bank for ``planes`` planes of W (fused
        pass)."""
        return pow2ceil(planes)

    # The uses of the array.

    @cached_property
    def uses(self) -> dict[str, Use]:
        """Uses of the array by the name of the operation, without the fused pass."""
        return {each.name: use_of(each, self._grouped, self.in_place) for each in PRODUCTS}

    def product_bits(self, use: Use) -> int:
        """Return w, the bits of a product's adder tree."""
        return self.numerics.product_bits(CLASS_NAMES[use.stream], CLASS_NAMES[use.stationary])

    @cached_property
    def directions(self) -> tuple[str, ...]:
        """Directions of the array: ``east``, ``north`` or both."""
        north = {use.north for use in self.uses.values()}
        return ("east",) * (False in north) + ("north",) * (True in north)

    @property
    def east(self) -> bool:
        """True if vectors enter from the south and sums leave to the east."""
        return "east" in self.directions

    @property
    def north(self) -> bool:
        """True if vectors enter from the west and sums leave to the north."""
        return "north" in self.directions

    @cached_property
    def fused(self) -> bool:
        """True if the gradients dX and dW run in a single pass: dY has a single image, and the
        array has two directions.

        A slice of M must begin on a beat if X is read along M.
        """
        aligned = not self.grouped(X) or self.cols % self.group_layouts[X].granule == 0
        return self.in_place and not self.grouped(DY) and aligned

    def fuses(self, m: int, n: int, widths: Widths = WIDEST) -> bool:
        """Return whether the backward pass of dY (m x n elements) runs as one pass. All planes of
        dY must stay, and the planes of W must share half of a west bank in equal parts."""
        if not self.fused:
            return False
        blocks_m, blocks_n = ceil_div(m, self.block), ceil_div(n, self.block)
        parts = self.west_parts(self.planes(W, widths[W]))
        max_m = self.fused_slices_m // self.planes(DY, widths[DY]) * self.cols
        return blocks_n * parts <= self.fused_blocks_n and blocks_m <= max_m

    def streamed(self, side: str) -> tuple[int, ...]:
        """Return the classes whose vectors enter from the ``south`` or the ``west``."""
        classes = {use.stream for use in self.uses.values() if use.north == (side == "west")}
        if self.fused:
            classes.add(W if side == "west" else X)
        return tuple(sorted(classes))

    @property
    def lane_deficits(self) -> bool:
        """True if a stationary block may have a deficit per row."""
        return self.grouped(W) or self.grouped(DY)

    # Sums.

    @property
    def floats(self) -> bool:
        """True if sums of chunks are added as floats."""
        return self.numerics.accumulator is not None

    @property
    def accumulator(self) -> FloatAccumulator:
        """Float accumulator of a machine with float accumulators."""
        assert self.numerics.accumulator is not None
        return self.numerics.accumulator

    @property
    def _cuts(self) -> tuple[int, ...]:
        """Elements of the contraction in the sum of a pass, for each direction in use."""
        array = {"rows": self.rows, "cols": self.cols}
        return tuple(summed_inside(self.numerics, **array, in_place=self.in_place).values())

    def overwriting_slices(self, *, north: bool) -> int:
        """Return the number of slices of a contraction whose sums overwrite the old content of a
        word: one, or the slices of the first chunk of a float accumulator."""
        if not self.floats:
            return 1
        side = self.rows if north else self.cols
        return self.accumulator.chunk // (side * self.block)

    # The memory image, in beats.

    @property
    def beat_bytes(self) -> int:
        return self.data_width // 8

    @cached_property
    def group_layouts(self) -> tuple[GroupLayout, ...]:
        """Layouts of the groups of blocks in memory, by class number."""
        sizes = {"block": self.block, "data_width": self.data_width}
        return tuple(GroupLayout.of(self.tensor_class(cls), **sizes) for cls in range(3))

    @property
    def has_headers(self) -> bool:
        """True if an exponent of the tensor stands in front of each image."""
        return any(layout.header for layout in self.group_layouts)

    def stored_beats(self, cls: int, rows: int, cols: int, width: int | None = None) -> int:
        """Return the beats of the image of a tensor of ``rows`` x ``cols`` elements, with all
        planes."""
        sizes = {"block": self.block, "data_width": self.data_width}
        image = image_layouts(self.tensor_class(cls), (rows, cols), **sizes)[0]
        return self.planes(cls, width) * image.total_bytes // self.beat_bytes

    @cached_property
    def fill_vectors(self) -> int:
        """V, vectors that enter a scratchpad in a cycle as one word: a power of two up to B, as
        many as a beat has of the narrowest elements."""
        narrowest = min(layout.row_bits for layout in self.group_layouts)
        return min(self.block, pow2ceil(ceil_div(self.data_width, narrowest)))

    # Tiles of a product.

    @property
    def tile_blocks(self) -> int:
        """Blocks of a T tile; a power of two, so addresses are shifts."""
        return self.tiling.t_blocks

    @property
    def groups(self) -> int:
        """Slices of lanes in an output tile and, at most, in a chunk; a power of two."""
        return self.tiling.groups

    def chunk(self, *, north: bool) -> int:
        """Return the blocks of a contraction chunk: whole slices and whole groups."""
        return self.tiling.chunk_north if north else self.tiling.chunk_east

    @property
    def max_chunk_blocks(self) -> int:
        """Blocks of the longest chunk in any direction."""
        return max(self.tiling.chunk_north, self.tiling.chunk_east)

    @property
    def nests(self) -> ProductNests:
        """Accepted lengths of the loops of each product."""
        rules = NestRules(
            rows=self.rows, cols=self.cols, block=self.block, beat_bytes=self.beat_bytes,
            granules=tuple(layout.granule for layout in self.group_layouts), tiling=self.tiling,
            drained={side: self.drained(side) for side in (self.rows, self.cols)},
            stream_blocks=self.stream_blocks, stationary_blocks=self.stationary_blocks,
        )  # fmt: skip
        return ProductNests(**{name: rules.limits(use) for name, use in self.uses.items()})

    @property
    def tile_words(self) -> int:
        """Vectors of a T tile."""
        return self.tile_blocks * self.block

    @property
    def tile_sums(self) -> int:
        """Words of sums of the largest tile behind each port, the depth of a memory of sums."""
        return self.groups * self.tile_words

    @property
    def sum_words(self) -> int:
        """Words of sums behind each port. A tile of sums is computed while another drains."""
        return SUM_MEMORIES * self.tile_sums

    def sum_halves(self, words: int) -> int:
        """Return the halves of memories of sums for a tile with ``words`` words behind a port."""
        return ceil_div(2 * words, self.tile_sums)

    @cached_property
    def ring_chunks(self) -> int:
        """Number of longest chunks in a ring, of the streaming and of the stationary operand: two,
        or all planes of one chunk."""
        return max(2, *self.max_planes)

    @property
    def stream_words(self) -> int:
        """Depth of a stream bank."""
        return self.ring_chunks * self.groups * self.tile_words

    @property
    def stream_blocks(self) -> int:
        """Blocks of a stream bank: the capacity of a ring."""
        return self.stream_words >> self.log_block

    @cached_property
    def stationary_words(self) -> int:
        """Depth of a bank of stationary blocks: the longest chunks of a product, or the whole of
        dY."""
        slices = self.ring_chunks * self.groups**2
        if self.fused:
            slices = max(slices, self.fused_slices_m * self.fused_slices_n)
        return slices * self.rows * self.block

    @property
    def stationary_blocks(self) -> int:
        """Blocks of a bank of stationary blocks: the capacity of a ring."""
        return self.stationary_words >> self.log_block

    # The fused backward pass.

    @property
    def fused_tile_blocks(self) -> int:
        """Blocks of a k tile."""
        return self.tiling.fused_t_blocks

    @property
    def fused_tile_words(self) -> int:
        return self.fused_tile_blocks * self.block

    @property
    def fused_slices_n(self) -> int:
        """Slices of N in the kept part of dY. The accumulators hold the sums of dW for a k tile."""
        return self.tiling.fused_slices_n

    @property
    def fused_slices_m(self) -> int:
        """Slices of M in the kept part of dY."""
        return self.tiling.fused_slices_m

    @property
    def fused_blocks_n(self) -> int:
        return self.fused_slices_n * self.rows

    @property
    def fused_blocks_m(self) -> int:
        return self.fused_slices_m * self.cols

    @property
    def fused_halves(self) -> dict[str, int]:
        """Halves of memories of sums for a tile of the fused pass, by direction: of dW to the east,
        of dX to the north."""
        east = self.fused_slices_n * self.fused_tile_words
        return {"east": self.sum_halves(east), "north": self.sum_halves(self.fused_tile_words)}

    # Output of the accumulators.

    def drained(self, side: int) -> int:
        """Return the vectors of B sums that leave in a cycle if the array has ``side`` ports."""
        sizes = {"block": self.block, "data_width": self.data_width, "ports": self.ports}
        return vectors_drained(side, **sizes)

    def drain_vectors(self, *, north: bool) -> int:
        """Return V_d, vectors of B sums that leave the accumulators of a direction in a cycle. The
        vectors belong to neighbouring ports of the array, as many as all buses together have floats
        for in a beat. V_d is a power of two, at least 1 and at most the number of ports."""
        return self.drained(self.cols if north else self.rows)

    @cached_property
    def word_parts(self) -> int:
        """Parts of a word of sums, each of which takes the float lanes for a cycle: the number of
        beats of all buses together for the word. 1 if a vector unit takes a word per cycle, or if a
        fused pass ends with the read of its last columns."""
        if self.has_vector or self.fused:
            return 1
        vectors = max(self.drain_vectors(north=north) for north in (False, True))
        return max(1, 32 * vectors * self.block // (self.ports * self.data_width))

    @cached_property
    def longest_row(self) -> int:
        """Blocks of the longest row of a result in a span: of a tile, or of either result of the
        fused pass."""
        lanes = self.groups * max(self.rows, self.cols)
        return max(lanes, self.fused_blocks_n, self.fused_tile_blocks)

    def queued_words(self, vectors: int) -> int:
        """Return the words of ``vectors`` vectors in the queue in front of each of two ports: half
        of the longest row and :data:`SPARE_WORDS`, but no more than :data:`MAX_QUEUED_WORDS`."""
        return min(ceil_div(self.longest_row, 2 * vectors) + SPARE_WORDS, MAX_QUEUED_WORDS)

    @property
    def transposed_blocks(self) -> int:
        """Blocks of a slice of M in one transposition of the fused pass: as many as leave in a
        cycle, if the slice is a whole number of these. Otherwise the largest smaller power of two
        that divides the slice."""
        return gcd(self.drain_vectors(north=True), self.cols)

    # Maxima: bytes, one per block, or one per row of a block where a class is grouped.

    def entries(self, cls: int) -> int:
        """Return the number of maxima for a row of blocks of an image: one, or one per row of
        elements."""
        return self.block if self.grouped(cls) else 1

    @property
    def stream_entries(self) -> int:
        """Bytes of maxima per block of a T tile."""
        return max(map(self.entries, {*self.streamed("south"), *self.streamed("west")}))

    @property
    def stationary_entries(self) -> int:
        """Bytes of maxima per block of lanes."""
        return self.block if self.lane_deficits else 1

    @property
    def stream_maxima_words(self) -> int:
        """Beats of a slot of stream maxima: of a T tile that may start inside a beat."""
        return ceil_div(self.tile_blocks * self.stream_entries, self.beat_bytes) + 1

    @property
    def stationary_maxima_words(self) -> int:
        lanes = self.groups * max(self.rows, self.cols)
        return ceil_div(lanes * self.stationary_entries, self.beat_bytes) + 1

    @property
    def stationary_maxima_depth(self) -> int:
        """Beats of maxima of the stationary operand: a slot for each tile in flight, or in the
        fused pass the maxima of the whole of dY."""
        whole = max(self.fused_blocks_n, self.fused_blocks_m) if self.fused else 0
        slots = self.tiling.tiles_in_flight
        return max(slots * pow2ceil(self.stationary_maxima_words), ceil_div(whole, self.beat_bytes))

    @property
    def maxima_depth(self) -> int:
        """Depth of every memory of maxima, in beats."""
        slots = self.tiling.tiles_in_flight
        return max(slots * pow2ceil(self.stream_maxima_words), self.stationary_maxima_depth)
