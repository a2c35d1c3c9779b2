"""The memory plan: every size and address stride that follows from one configuration.

Words used here. A *slice* is what the array holds at once along one dimension: ``cols`` blocks
along a, ``rows`` blocks along b. A *T tile* is the run of vectors that a pass streams. A *chunk* is
the part of a contraction that is loaded at a time. All tile lengths are in blocks unless said.
A class is *grouped* if its tensors are in vector groups and so have two images.
"""

from dataclasses import dataclass
from functools import cached_property
from math import ceil

from amaranth.utils import bits_for

from diastole_hw.cell.shape import MULTIPLIERS, PIPELINES, CellShape, Element
from diastole_hw.plan.nests import NestRules
from diastole_hw.plan.policy import pow2ceil, vectors_drained
from diastole_hw.plan.tiling import Tiling
from diastole_hw.plan.uses import DY, OPERATION_OF, PRODUCTS, Mode, Use, W, X, use_of
from diastole_hw.plan.vector import VectorShape
from diastole_sim.spec.accumulator import FloatAccumulator
from diastole_sim.spec.check import require_choice, require_int
from diastole_sim.spec.formats import Format
from diastole_sim.spec.image import GROUP_BLOCKS, MAX_CONVERT_BLOCKS, MAX_SIZE, GroupLayout
from diastole_sim.spec.limits import decided_classes, planes_by_class, slot_words
from diastole_sim.spec.nest import ProductNests
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics, TensorClass
from diastole_sim.spec.operations import summed_inside

MAX_ELEMENT_BITS = MAX_SIZE.bit_length()
FEWEST_TILES_IN_FLIGHT = 4
"""Two are loaded while two are drained."""
SUM_MEMORIES = 2
"""Of sums behind each port. Tiles stand in them in turn, those that fit in half of one in one half
after the other."""
TILES_OF_SUMS = 2 * SUM_MEMORIES
"""Tiles whose sums are kept at once, at most."""
MOST_PORTS = 2
"""To memory."""


def is_whole(plan: "Plan", words: int) -> bool:
    """Whether so many words of sums behind a port take a whole memory, and not half of one."""
    return words > plan.tile_sums // 2


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Sizes of tiles, banks and words, as they follow from the array, the numbers and the tiling.

    ``rows``, ``cols`` in cells; ``numerics``: formats, groups, block side B, F and G;
    ``in_place``: the cells transpose, else the edge does; ``data_width`` D of the memory bus in
    bits, and ``ports``, 1 or 2, how many of them there are. ``tiling``: how products are cut;
    :func:`diastole_hw.plan.policy.default_tiling` has one. ``vector``: of the vector unit, None
    where there is none. ValueError for vector groups of W or dY
    where the edge transposes, for two ports and an odd number of rows or columns, for chunks that
    passes of the array cannot be cut to, or of planes, for a unit whose ``choices`` are others than
    those of the numbers, and for a tiling that the machine cannot
    run. ``pipeline``: of the cells, one of :data:`diastole_hw.cell.shape.PIPELINES`;
    ``multiplier`` one of :data:`diastole_hw.cell.shape.MULTIPLIERS`. ``output_register``: there is
    one behind every bank of the scratchpads, and behind the sums that are added to.
    """

    rows: int
    cols: int
    in_place: bool
    numerics: Numerics
    data_width: int
    tiling: Tiling
    ports: int = 1
    vector: VectorShape | None = None
    pipeline: str = "none"
    multiplier: str = "fabric"
    output_register: bool = False

    def __post_init__(self):
        require_int("ports", self.ports, 1, MOST_PORTS)
        require_choice("pipeline", self.pipeline, PIPELINES)
        require_choice("multiplier", self.multiplier, MULTIPLIERS)
        if self.ports > 1 and (self.rows % 2 or self.cols % 2):
            raise ValueError("two ports need even numbers of rows and of columns of cells")
        if not self.in_place and (self.grouped(W) or self.grouped(DY)):
            raise ValueError("vector groups of W or dY need an array that transposes in place")
        if self.floats and any(self.accumulator.chunk % cut for cut in self._cuts):
            cuts = ", ".join(map(str, self._cuts))
            raise ValueError(f"chunks of sums must be whole numbers of {cuts} elements")
        if self.floats and self.planar:
            raise ValueError("sums of planes must be integers: they are not added chunk by chunk")
        decided = decided_classes(planes_by_class(self.numerics))
        if self.vector is not None and self.vector.choices != decided:
            raise ValueError(f"vector.choices must be {decided}, as the numbers have it")
        words = slot_words(self.numerics)
        if self.vector is not None and self.vector.slot_words != words:
            raise ValueError(f"vector.slot_words must be {words}, as the numbers have it")
        if problem := self._tiling_problem():
            raise ValueError(f"tiling: {problem}")

    def _tiling_problem(self) -> str | None:
        """Why the machine cannot run its tiling; None if it can."""
        tiling, bytes_ = self.tiling, self.beat_bytes
        if tiling.t_blocks % GROUP_BLOCKS:
            return f"t_blocks must be whole groups of {GROUP_BLOCKS} blocks, not {tiling.t_blocks}"
        if tiling.tiles_in_flight < FEWEST_TILES_IN_FLIGHT:
            return (
                f"tiles_in_flight must be at least {FEWEST_TILES_IN_FLIGHT}: two are loaded "
                f"while two are drained, not {tiling.tiles_in_flight}"
            )
        for side, chunk, name in (
            (self.cols, tiling.chunk_east, "chunk_east"),
            (self.rows, tiling.chunk_north, "chunk_north"),
        ):
            lanes = tiling.groups * side
            if lanes % GROUP_BLOCKS or lanes * self.block * 4 % bytes_:
                return (
                    f"groups must make lane tiles of {side} cells whole groups of {GROUP_BLOCKS} "
                    f"blocks and whole beats of floats, not {tiling.groups}"
                )
            if lanes % (drained := self._drained(side)):
                return (
                    f"groups must make lane tiles of {side} cells whole words of {drained} "
                    f"vectors, not {tiling.groups}"
                )
            if chunk % side or chunk % GROUP_BLOCKS:
                return (
                    f"{name} must be a multiple of {side} and of {GROUP_BLOCKS} blocks, not {chunk}"
                )
            if chunk // side > tiling.groups:
                return f"{name} must be at most {tiling.groups} slices of {side}, not {chunk}"
        return self._fused_problem() if self.fused else None

    def _fused_problem(self) -> str | None:
        tiling, granule = self.tiling, self.granule(X)
        room = tiling.groups * tiling.t_blocks // tiling.fused_t_blocks
        if tiling.fused_t_blocks % granule and not self.grouped(X):
            return f"fused_t_blocks must be a multiple of {granule}, not {tiling.fused_t_blocks}"
        if self.ports > 1 and tiling.fused_t_blocks * self.block * 4 % self.beat_bytes:
            return f"fused_t_blocks must be whole beats of floats, not {tiling.fused_t_blocks}"
        if 2 * tiling.fused_t_blocks < self.rows:
            least = ceil(self.rows / 2)
            return (
                f"fused_t_blocks must be at least {least}, to load the next blocks meanwhile, "
                f"not {tiling.fused_t_blocks}"
            )
        if tiling.fused_slices_n > room:
            return f"fused_slices_n must be at most {room}, not {tiling.fused_slices_n}"
        return None

    # What the numbers ask for.

    @property
    def block(self) -> int:
        return self.numerics.block

    @property
    def log_block(self) -> int:
        return (self.block - 1).bit_length()

    @property
    def fraction(self) -> int:
        return self.numerics.fraction

    @property
    def headroom(self) -> int:
        return self.numerics.headroom

    def chosen(self, cls: int) -> TensorClass:
        """The class by its number."""
        return self.numerics.tensor_class(CLASS_NAMES[cls])

    @property
    def formats(self) -> tuple[Format, Format, Format]:
        """By class number: x, w, dy."""
        x, w, dy = (self.chosen(cls).format for cls in range(3))
        return x, w, dy

    def grouped(self, cls: int) -> bool:
        """Whether the class is in vector groups: an exponent per row of a block, two images."""
        return self.chosen(cls).two_copies

    # Planes, where a class has the format ``fast``.

    @cached_property
    def most_planes(self) -> tuple[int, ...]:
        """By class number: images that one copy of a tensor may have, each of some bits of its
        magnitudes; 1 where the bits of an element are fixed."""
        return tuple(self.numerics.planes_of(name)[-1] for name in CLASS_NAMES)

    @property
    def planar(self) -> bool:
        """Whether commands say in how many planes their tensors are stored."""
        return self.numerics.chooses_widths

    @property
    def has_choices(self) -> bool:
        """Whether it decides widths itself."""
        return self.vector is not None and self.vector.has_choices

    @property
    def plane_bits(self) -> int:
        """Bits of the number of a plane."""
        return bits_for(max(self.most_planes) - 1)

    def west_parts(self, planes: int) -> int:
        """In how many parts half of a west bank is cut for so many planes of W (fused pass)."""
        return pow2ceil(planes)

    def product_bits(self, use: Use) -> int:
        """w of a product's tree."""
        return self.numerics.product_bits(CLASS_NAMES[use.stream], CLASS_NAMES[use.held])

    @property
    def significands(self) -> bool:
        """Groups have scales that are no powers of two (NVFP4)."""
        return self.numerics.scale_significands

    @property
    def poison(self) -> bool:
        return self.numerics.special == "poison"

    # The uses of the array.

    def use(self, mode: Mode) -> Use:
        """One of the three products; not the fused pass."""
        return use_of(mode, tuple(self.grouped(cls) for cls in range(3)), self.in_place)

    @property
    def directions(self) -> tuple[str, ...]:
        """Which of ``east`` and ``north`` the array has."""
        north = {self.use(mode).north for mode in PRODUCTS}
        return ("east",) * (False in north) + ("north",) * (True in north)

    @property
    def east(self) -> bool:
        """Vectors come from the south, sums leave to the east."""
        return "east" in self.directions

    @property
    def north(self) -> bool:
        """Vectors come from the west, sums leave to the north."""
        return "north" in self.directions

    @property
    def fused(self) -> bool:
        """Both gradients in one pass: dY has one image, and the array both directions.

        A slice of M must begin on a beat where X is read along it.
        """
        aligned = not self.grouped(X) or self.cols % self.granule(X) == 0
        return self.in_place and not self.grouped(DY) and aligned

    def streamed(self, side: str) -> tuple[int, ...]:
        """The classes whose vectors come from the ``south`` or the ``west``."""
        uses = [self.use(mode) for mode in PRODUCTS]
        classes = {use.stream for use in uses if use.north == (side == "west")}
        if self.fused:
            classes.add(W if side == "west" else X)
        return tuple(sorted(classes))

    @property
    def lane_deficits(self) -> bool:
        """A held block may have a deficit per row."""
        return self.grouped(W) or self.grouped(DY)

    # Elements and sums.

    def element(self, classes: tuple[int, ...] = (X, W, DY)) -> Element:
        """What holds the elements of all these classes inside the array."""
        return Element.holding(*(self.formats[cls] for cls in classes))

    @cached_property
    def shape(self) -> CellShape:
        """The cell."""
        south, west = self.streamed("south"), self.streamed("west")
        held = (W, DY)
        minifloats = any(f.depth for f in self.formats)
        window = max(self.product_bits(self.use(mode)) for mode in PRODUCTS) if minifloats else None
        names = [(CLASS_NAMES[u.stream], CLASS_NAMES[u.held]) for u in map(self.use, PRODUCTS)]
        windowed = any(self.numerics.is_windowed(a, b) for a, b in names)
        return CellShape(
            rows=self.rows,
            block=self.block,
            south=self.element(south or west),
            west=self.element(west or south),
            held=self.element(held),
            window=window,
            exact=not windowed,
            sum_bits=self.sum_bits,
            fraction=self.fraction,
            directions=self.directions,
            lane_deficits=self.lane_deficits,
            significands=self.significands,
            extents=windowed,
            poison=self.poison,
            pipeline=self.pipeline,
            multiplier=self.multiplier,
        )

    @property
    def read_cycles(self) -> int:
        """From the read of a scratchpad's bank to the vector."""
        return 1 + self.output_register

    @property
    def cell_cycles(self) -> int:
        """From the cycle after a slot to the sums of the first cell."""
        return self.read_cycles - 1 + self.shape.latency

    @property
    def sum_bits(self) -> int:
        """SW of the widest of the three products."""
        return self.numerics.block_sum_bits

    @property
    def deficit_bits(self) -> int:
        return bits_for(self.sum_bits + self.fraction)

    @property
    def accumulator_bits(self) -> int:
        """W = SW + F + G."""
        return self.numerics.accumulator_bits

    @property
    def floats(self) -> bool:
        """Sums of chunks are added as floats."""
        return self.numerics.accumulator is not None

    @property
    def accumulator(self) -> FloatAccumulator:
        """Those, where there are some."""
        assert self.numerics.accumulator is not None
        return self.numerics.accumulator

    @property
    def mantissa(self) -> int | None:
        """m of floats; None where sums are integers."""
        return self.accumulator.mantissa if self.floats else None

    @property
    def _cuts(self) -> tuple[int, ...]:
        """Elements of the contraction that a pass sums, in each direction."""
        sizes = {"rows": self.rows, "cols": self.cols, "in_place": self.in_place}
        return tuple(summed_inside(self.numerics, **sizes).values())

    def chunk_slices(self, *, north: bool) -> int:
        """Slices of the contraction that a chunk of a float accumulator has."""
        side = self.rows if north else self.cols
        return self.accumulator.chunk // (side * self.block)

    @property
    def beat_bytes(self) -> int:
        return self.data_width // 8

    # The memory image, in beats.

    @cached_property
    def group_layouts(self) -> tuple[GroupLayout, ...]:
        """By class number: the groups of blocks in memory."""
        sizes = {"block": self.block, "data_width": self.data_width}
        return tuple(GroupLayout.of(self.chosen(cls), **sizes) for cls in range(3))

    def header_beats(self, cls: int) -> int:
        """In front of an image: the tensor's exponent, where groups have scales of their own."""
        return self.group_layouts[cls].header_beats

    def exponent_bytes(self, cls: int) -> int:
        """Of a group of eight blocks: one per block, or one per row and run of a vector group."""
        return self.group_layouts[cls].exponent_entries

    def runs(self, cls: int) -> int:
        """Vector groups side by side in a group of eight blocks; 1 if they are longer than it."""
        return self.group_layouts[cls].runs

    def exponent_beats(self, cls: int) -> int:
        return self.group_layouts[cls].exponent_beats

    def vector_bits(self, cls: int) -> int:
        """Of B stored elements."""
        return self.group_layouts[cls].row_bits

    @property
    def fill_vectors(self) -> int:
        """V, vectors that enter a scratchpad in a cycle and make a word of it: a power of two up to
        B, as many as a beat has of the narrowest elements."""
        narrowest = min(map(self.vector_bits, range(3)))
        return min(self.block, pow2ceil(ceil(self.data_width / narrowest)))

    def mantissa_beats(self, cls: int, blocks: int) -> int:
        """Beats that hold the first ``blocks`` blocks of a group's element field."""
        return self.group_layouts[cls].block_beats(blocks)

    def group_beats(self, cls: int) -> int:
        return self.group_layouts[cls].group_beats

    def granule(self, cls: int) -> int:
        """Blocks after which a block of a group starts on a beat: 1, 2, 4 or 8."""
        return self.group_layouts[cls].granule

    # Tiles of a product.

    @property
    def tile_blocks(self) -> int:
        """Blocks of a T tile; a power of two, so that addresses are shifts."""
        return self.tiling.t_blocks

    @property
    def groups(self) -> int:
        """Slices of lanes in an output tile and, at most, in a chunk; a power of two."""
        return self.tiling.groups

    def chunk(self, *, north: bool) -> int:
        """Blocks of a contraction chunk: whole slices and whole groups."""
        return self.tiling.chunk_north if north else self.tiling.chunk_east

    @property
    def most_chunk_blocks(self) -> int:
        """The longer of both chunks."""
        return max(self.tiling.chunk_north, self.tiling.chunk_east)

    @property
    def nests(self) -> ProductNests:
        """The lengths of the loops that each product takes."""
        rules = NestRules(
            rows=self.rows, cols=self.cols, block=self.block, beat_bytes=self.beat_bytes,
            granules=tuple(map(self.granule, range(3))), tiling=self.tiling,
            drained={side: self._drained(side) for side in (self.rows, self.cols)},
            stream_blocks=self.stream_blocks, held_blocks=self.held_blocks,
        )  # fmt: skip
        limits = {OPERATION_OF[mode].name: rules.limits(self.use(mode)) for mode in PRODUCTS}
        return ProductNests(**limits)

    @property
    def tile_words(self) -> int:
        """Vectors of a T tile."""
        return self.tile_blocks * self.block

    @property
    def tile_sums(self) -> int:
        """Words of sums of the largest tile, behind each port: a memory has as many."""
        return self.groups * self.tile_words

    @property
    def sum_words(self) -> int:
        """Words of sums behind each port: one such tile is made while one drains."""
        return SUM_MEMORIES * self.tile_sums

    @property
    def fused_whole(self) -> dict[str, bool]:
        """Whether a tile of the fused pass takes a whole memory of sums, by direction."""
        east = self.fused_slices_n * self.fused_tile_words
        return {"east": is_whole(self, east), "north": is_whole(self, self.fused_tile_words)}

    @property
    def stream_words(self) -> int:
        """Depth of a stream bank: two of the longest chunks, or all planes of one."""
        return self._chunks_held * self.groups * self.tile_words

    @property
    def _chunks_held(self) -> int:
        return max(2, *self.most_planes)

    @property
    def stream_blocks(self) -> int:
        """Likewise in blocks: the room of a ring."""
        return self.stream_words >> self.log_block

    @property
    def held_blocks(self) -> int:
        """Blocks of a held bank: the room of a ring."""
        return self.held_words >> self.log_block

    @property
    def shortest_pass(self) -> int:
        """Cycles from one swap of the held blocks to the next, at least.

        The accumulators need 3 between two additions to the same word, and 4 where they are floats
        or have a register behind their memories.
        """
        return 4

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
        """Slices of N for which dY is kept, and dW's sums of a k tile fit the accumulators."""
        return self.tiling.fused_slices_n

    @property
    def fused_slices_m(self) -> int:
        """Slices of M for which dY is kept."""
        return self.tiling.fused_slices_m

    @property
    def fused_blocks_n(self) -> int:
        return self.fused_slices_n * self.rows

    @property
    def fused_blocks_m(self) -> int:
        return self.fused_slices_m * self.cols

    @property
    def held_words(self) -> int:
        """Depth of a held bank: two of the longest chunks of a product, or the whole of dY."""
        slices = self._chunks_held * self.groups**2
        if self.fused:
            slices = max(slices, self.fused_slices_m * self.fused_slices_n)
        return slices * self.rows * self.block

    def drain_vectors(self, *, north: bool) -> int:
        """V_d, vectors of B sums that leave the accumulators of a direction in a cycle: those of
        neighbouring ports of the array, as many as all buses together have floats for in a beat; a
        power of two, at least 1 and at most those ports."""
        return self._drained(self.cols if north else self.rows)

    @property
    def word_parts(self) -> int:
        """Parts of a word of sums, each of which takes the float lanes for a cycle: the beats that
        all buses together need for it; 1 where a vector unit takes a word per cycle, and where a
        fused pass ends when its last columns are read."""
        if self.vector is not None or self.fused:
            return 1
        vectors = max(self.drain_vectors(north=north) for north in (False, True))
        return max(1, 32 * vectors * self.block // (self.ports * self.data_width))

    def _drained(self, side: int) -> int:
        sizes = {"block": self.block, "data_width": self.data_width, "ports": self.ports}
        return vectors_drained(side, **sizes)

    # Maxima: bytes, one per block, or one per row of a block where a class is grouped.

    @property
    def stream_entries(self) -> int:
        """Bytes of maxima per block of a T tile."""
        classes = {*self.streamed("south"), *self.streamed("west")}
        return self.block if any(map(self.grouped, classes)) else 1

    @property
    def held_entries(self) -> int:
        """Bytes of maxima per block of lanes."""
        return self.block if self.lane_deficits else 1

    @property
    def stream_maxima_words(self) -> int:
        """Beats of one slot of stream maxima: a T tile that may start inside a beat."""
        return ceil(self.tile_blocks * self.stream_entries / self.beat_bytes) + 1

    @property
    def held_maxima_words(self) -> int:
        lanes = self.groups * max(self.rows, self.cols)
        return ceil(lanes * self.held_entries / self.beat_bytes) + 1

    @property
    def held_maxima_depth(self) -> int:
        """A slot for each tile in flight, or in the fused pass the maxima of the whole of dY."""
        whole = max(self.fused_blocks_n, self.fused_blocks_m) if self.fused else 0
        slots = self.tiling.tiles_in_flight
        return max(slots * pow2ceil(self.held_maxima_words), ceil(whole / self.beat_bytes))

    @property
    def maxima_depth(self) -> int:
        """Depth of each memory of maxima, in beats."""
        slots = self.tiling.tiles_in_flight
        return max(slots * pow2ceil(self.stream_maxima_words), self.held_maxima_depth)

    @property
    def converter_blocks(self) -> int:
        """Most blocks in a row of a tensor that the converter can keep column maxima for."""
        return MAX_CONVERT_BLOCKS

    @property
    def macs(self) -> int:
        return self.rows * self.cols * self.block**2
