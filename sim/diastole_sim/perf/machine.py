"""What the model knows of a machine and of the memory behind it."""

from dataclasses import dataclass, field
from functools import cached_property
from math import gcd, lcm
from typing import Any, TypeAlias

from diastole_sim.spec.check import require_choice, require_int
from diastole_sim.spec.formats import PLANE_BITS
from diastole_sim.spec.image import DATA_WIDTHS, GROUP_BLOCKS
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics, require_widths

LATENCY = 20
"""Cycles of a memory of which nothing else is said."""
OUTSTANDING = 32
"""Bursts that it has open in each direction: as many as a machine asks for."""

BURST_BEATS = 64
"""No burst crosses a multiple of as many beats."""

X, W, DY = range(3)
"""Classes of tensors by number."""

Widths: TypeAlias = tuple[int | None, int | None, int | None]
"""Bits of magnitude that x, w and dy were converted to; None: the widest, or the format has one."""
WIDEST: Widths = (None, None, None)


def ceil_div(value: int, by: int) -> int:
    return -(-value // by)


def next_power_of_two(value: int) -> int:
    """The smallest power of two that is at least ``value``."""
    return 1 << (value - 1).bit_length()


@dataclass(frozen=True, kw_only=True)
class Memory:
    """The bus and the memory as the machine's units see them, in cycles; one beat per cycle.

    ``outstanding``: bursts of reads that the memory has open at once, None for any number.
    ``read_cycles``: from a read request to its first beat. ``write_gap_cycles``: lost between a
    write request and its first beat. ``response_cycles``: from a request's last beat to the moment
    at which the machine knows that it is written.
    """

    read_cycles: int = 1
    write_gap_cycles: int = 0
    response_cycles: int = 0
    outstanding: int | None = None

    @classmethod
    def axi(
        cls,
        latency: int = LATENCY,
        outstanding: int = OUTSTANDING,
        *,
        write_latency: int | None = None,
    ) -> "Memory":
        """An AXI memory that answers ``latency`` cycles after an address, and ``write_latency`` (as
        many, if it is left out) after a last write beat.

        Added to it are the registers of the bus engines and of the queues before them.
        """
        written = latency if write_latency is None else write_latency
        require_int("latency", latency, 1, 10_000)
        require_int("write_latency", written, 1, 10_000)
        require_int("outstanding", outstanding, 1, 1 << 10)
        return cls(
            read_cycles=latency + 5,
            write_gap_cycles=0,
            response_cycles=written + 3,
            outstanding=outstanding,
        )


@dataclass(frozen=True, kw_only=True)
class ModelledMachine:
    """Sizes of the array and of its tiles, stated anew from the rules, not from the hardware.

    ``rows``, ``cols`` in cells; ``block`` B; ``element_bits`` of x, w, dy as stored; ``vectors``:
    elements of the vector groups of x, w, dy, None where there are squares or one scale for the
    tensor; ``widths`` that x, w, dy may be converted to, None where their format has one: a plane
    of ``element_bits`` for every two bits; ``header``: tensors have scales in front of their images
    (NVFP4); ``data_width`` in bits of each of ``ports`` to memory; ``in_place``: the array turns,
    else the edge does; ``float_chunk``: products that are summed before a float accumulator adds
    them, None where sums are integers; ``cell_cycles`` from the cycle after a slot to the sums of
    the first cell.
    The three after it are for questions of the kind "what if": ``sum_units``, halves of memories of
    sums behind each port, and bounds on the chunks of what streams that are on chip at once,
    ``most_places``, and on the vectors that are filled per cycle, ``most_filled``.
    ``products_only``: it has no vector unit. ValueError if out of range.
    """

    rows: int
    cols: int
    block: int
    element_bits: tuple[int, int, int]
    data_width: int
    vectors: tuple[int | None, int | None, int | None] = (None, None, None)
    widths: tuple[tuple[int, ...] | None, ...] = (None, None, None)
    header: bool = False
    in_place: bool = True
    float_chunk: int | None = None
    ports: int = 1
    cell_cycles: int = 2
    sum_units: int = 4
    most_places: int = 1 << 16
    most_filled: int = 64
    products_only: bool = False
    memory: Memory = field(default_factory=Memory.axi)

    def __post_init__(self) -> None:
        require_int("rows", self.rows, 1, 64)
        require_int("cols", self.cols, 1, 64)
        require_choice("block", self.block, (1, 2, 4, 8, 16, 32))
        require_choice("data_width", self.data_width, DATA_WIDTHS)
        require_int("ports", self.ports, 1, 2)
        if self.ports > 1 and (self.rows % 2 or self.cols % 2):
            raise ValueError("two ports need even numbers of rows and of columns")
        require_int("cell_cycles", self.cell_cycles, 2, 16)
        require_int("sum_units", self.sum_units, 2, 4)
        require_int("most_places", self.most_places, 1, 1 << 16)
        require_int("most_filled", self.most_filled, 1, 64)
        require_int("len(element_bits)", len(self.element_bits), 3, 3)
        for bits in self.element_bits:
            require_int("element_bits", bits, 2, 16)
        require_int("len(vectors)", len(self.vectors), 3, 3)
        for vector in filter(None, self.vectors):
            require_int("vectors", vector, self.block, 1 << 10)
        require_int("len(widths)", len(self.widths), 3, 3)
        for widths in filter(None, self.widths):
            require_widths(widths)
        if not self.in_place and self.vectors[1:] != (None, None):
            raise ValueError("vectors of w and dy need an array that turns: in_place")

    @classmethod
    def of(
        cls, numerics: Numerics, *, rows: int, cols: int, data_width: int, **options: Any
    ) -> "ModelledMachine":
        """With the formats of a machine; ``options``: the other parameters."""
        classes = [numerics.tensor_class(name) for name in CLASS_NAMES]
        x, w, dy = (chosen.format.element_bits for chosen in classes)
        groups = [chosen.grouping.size if chosen.two_copies else None for chosen in classes]
        widths = (numerics.widths if chosen.format.planes else None for chosen in classes)
        return cls(
            rows=rows, cols=cols, block=numerics.block, data_width=data_width,
            element_bits=(x, w, dy), vectors=(groups[0], groups[1], groups[2]),
            widths=tuple(widths), header=any(chosen.format.two_level for chosen in classes),
            float_chunk=None if numerics.accumulator is None else numerics.accumulator.chunk,
            **options,
        )  # fmt: skip

    @property
    def multipliers(self) -> int:
        return self.rows * self.cols * self.block**2

    def overwriting_slices(self, *, north: bool) -> int:
        """Slices of a contraction whose sums are written over what was there: one, or those of the
        first chunk of a float accumulator."""
        if self.float_chunk is None:
            return 1
        return self.float_chunk // ((self.rows if north else self.cols) * self.block)

    # Widths that are chosen at every conversion.

    def planes(self, cls: int, width: int | None = None) -> int:
        """Images that a copy of a tensor is, of ``width`` bits of magnitude, None for the widest:
        one for every two bits. ValueError for a width that the class has not."""
        widths, name = self.widths[cls], CLASS_NAMES[cls]
        if widths is None:
            if width is not None:
                raise ValueError(f"width of {name} must be absent: its format has one, not {width}")
            return 1
        if width is None:
            return widths[-1] // PLANE_BITS
        require_choice(f"width of {name}", width, widths)
        return width // PLANE_BITS

    @cached_property
    def ring_chunks(self) -> int:
        """The longest chunks that there is room for of what streams, and of what is held: two, or
        as many as a class has planes."""
        return max(2, *(self.planes(cls) for cls in range(3)))

    # The memory image.

    @property
    def beat_bytes(self) -> int:
        return self.data_width // 8

    def grouped(self, cls: int) -> bool:
        """Whether a class has vector groups: two images, with rows along a contraction each."""
        return self.vectors[cls] is not None

    def exponent_beats(self, cls: int) -> int:
        """Beats of the exponent field of a group: a byte a block, or a row of it and vector."""
        vector = self.vectors[cls]
        if vector is None:
            return ceil_div(GROUP_BLOCKS, self.beat_bytes)
        vectors = max(1, GROUP_BLOCKS * self.block // vector)
        return ceil_div(vectors * self.block, self.beat_bytes)

    def entries(self, cls: int) -> int:
        """Largest exponents that a row of blocks has in an image: one, or one for each row."""
        return self.block if self.grouped(cls) else 1

    @cached_property
    def known_runs(self) -> dict[tuple[int, tuple[int, int]], tuple[Any, ...]]:
        """What a row of blocks is asked for as, by class and columns, as far as it was looked at:
        :func:`diastole_sim.perf.walk.blocks`."""
        return {}

    @cached_property
    def known_loads(self) -> dict[tuple[Any, ...], tuple[int, ...]]:
        """What rows of blocks leave behind, by what they came to, as far as it was looked at:
        :class:`diastole_sim.perf.load.Load`."""
        return {}

    def block_bits(self, cls: int) -> int:
        return self.block**2 * self.element_bits[cls]

    def vector_bits(self, cls: int) -> int:
        return self.block * self.element_bits[cls]

    @cached_property
    def fill_vectors(self) -> int:
        """Vectors that are filled per cycle: as many as a beat has of the narrowest, no more than a
        block, and a power of two."""
        narrowest = min(map(self.vector_bits, range(3)))
        whole = next_power_of_two(ceil_div(self.data_width, narrowest))
        return min(self.block, whole, self.most_filled)

    def mantissa_beats(self, cls: int, blocks: int) -> int:
        """Beats that the first ``blocks`` blocks of a group's mantissa field reach into."""
        return ceil_div(blocks * self.block_bits(cls), self.data_width)

    def aligned_blocks(self, cls: int) -> int:
        """Blocks of a group after which the next block starts on a beat."""
        return min(GROUP_BLOCKS, lcm(self.block_bits(cls), self.data_width) // self.block_bits(cls))

    def stored_beats(self, cls: int, rows: int, cols: int, width: int | None = None) -> int:
        """Beats of a tensor's whole image, of all planes, as it is stored; sizes in elements."""
        row_blocks, col_blocks = ceil_div(rows, self.block), ceil_div(cols, self.block)
        groups = row_blocks * ceil_div(col_blocks, GROUP_BLOCKS)
        maxima = ceil_div(row_blocks * self.entries(cls), self.beat_bytes)
        if not self.grouped(cls):
            maxima += ceil_div(col_blocks, self.beat_bytes)
        group = self.exponent_beats(cls) + self.mantissa_beats(cls, GROUP_BLOCKS)
        return self.planes(cls, width) * (self.header + groups * group + maxima)

    # Tiles, in blocks.

    @cached_property
    def tile(self) -> int:
        """Of the streamed dimension: a group and R at least, and 128 elements (64 if R B < 8)."""
        elements = 128 if self.rows * self.block > 4 else 64
        return max(GROUP_BLOCKS, next_power_of_two(self.rows), elements // self.block)

    @cached_property
    def groups(self) -> int:
        """Slices of lanes in an output tile: 4, or more until tiles are whole groups and beats, and
        whole words of what leaves in a cycle."""
        sides = (self.rows, False), (self.cols, True)
        groups = 4
        while not all(
            groups * side % GROUP_BLOCKS == 0
            and groups * side * self.block * 4 % self.beat_bytes == 0
            and groups * side % self.drained_vectors(north=north) == 0
            for side, north in sides
        ):
            groups *= 2
        return groups

    def chunk(self, side: int) -> int:
        """Of a contraction that is cut into slices of ``side``."""
        return lcm(side, GROUP_BLOCKS)

    @property
    def bank_words(self) -> int:
        """Sums (of B) in a bank of accumulators, per port."""
        return self.groups * self.tile * self.block

    def units_of(self, words: int) -> int:
        """Halves of memories of sums that a tile with so many words behind a port takes: a memory
        holds one of the largest tiles."""
        return ceil_div(2 * words, self.bank_words)

    @property
    def fused_units(self) -> tuple[int, int]:
        """Likewise in the fused pass, for dW and for dX."""
        of_dw = self.fused_blocks_n // self.rows * self.fused_tile * self.block
        return self.units_of(of_dw), self.units_of(self.fused_tile * self.block)

    @property
    def stream_blocks(self) -> int:
        """Blocks in a bank of what streams."""
        return self.ring_chunks * self.bank_words // self.block

    @property
    def held_blocks(self) -> int:
        """Blocks in a bank of what is held: chunks of a product, or dY of a fused pass."""
        of_products = self.ring_chunks * self.groups**2 * self.rows
        if not self.has_fused_pass:
            return of_products
        return max(of_products, self.fused_words // self.block)

    def drained_vectors(self, *, north: bool) -> int:
        """Vectors of a row that leave the accumulators of a direction in a cycle: what the beats of
        all ports have room for, but no more than the array has there, and a power of two."""
        side = self.cols if north else self.rows
        most = max(1, min(side, self.ports * self.data_width // (32 * self.block)))
        return next_power_of_two(most + 1) // 2

    @cached_property
    def word_parts(self) -> int:
        """Parts of a word of sums, for each of which the lanes take a cycle: the beats of all ports
        that a vector needs; 1 where a vector unit takes it at once, or a fused pass."""
        if not self.products_only or self.has_fused_pass:
            return 1
        return max(1, 32 * self.block // (self.ports * self.data_width))

    def queued_words(self, *, north: bool) -> int:
        """Words of a direction that wait in front of each of two ports: half of the longest row,
        and 4, but no more than 128."""
        lanes = self.groups * max(self.rows, self.cols)
        longest = max(lanes, self.fused_blocks_n, self.fused_tile)
        return min(ceil_div(longest, 2 * self.drained_vectors(north=north)) + 4, 128)

    # The fused backward pass.

    @cached_property
    def fused_tile(self) -> int:
        """Blocks of a k tile: as long as loading held blocks takes, 16 elements, a beat."""
        shortest = max(ceil_div(self.rows, 2), 16 // self.block, self.aligned_blocks(0), 1)
        return next_power_of_two(shortest)

    @property
    def fused_blocks_n(self) -> int:
        """The most blocks along N: dW's sums of a k tile fill a bank."""
        return self.bank_words // (self.fused_tile * self.block) * self.rows

    @property
    def fused_words(self) -> int:
        """Vectors in a bank of what is held: dY of the largest fused pass."""
        return self.fused_blocks_m // self.cols * self.fused_blocks_n * self.block

    @property
    def fused_blocks_m(self) -> int:
        return ceil_div(self.fused_blocks_n, self.cols) * self.cols

    @property
    def turned_blocks(self) -> int:
        """Of a slice of M, whose rows turn at a time: as many as leave in a cycle, if a slice is a
        whole number of them, else a power of two that it is a whole number of."""
        return gcd(self.drained_vectors(north=True), self.cols)

    @property
    def has_fused_pass(self) -> bool:
        """Both gradients at once need dY in squares, an array that turns, and slices of M that
        begin on a beat where X is read along them."""
        aligned = not self.grouped(X) or self.cols % self.aligned_blocks(X) == 0
        return self.in_place and not self.grouped(DY) and aligned

    def fuses(self, m: int, n: int, widths: Widths = WIDEST) -> bool:
        """Whether the backward pass of dY (m x n elements) runs as one: all planes of dY stay, and
        those of W share a half of their banks in equal parts, of which there are a power of two."""
        blocks_m, blocks_n = ceil_div(m, self.block), ceil_div(n, self.block)
        parts = next_power_of_two(self.planes(W, widths[W]))
        most_m = self.fused_blocks_m // self.cols // self.planes(DY, widths[DY]) * self.cols
        fits = blocks_n * parts <= self.fused_blocks_n and blocks_m <= most_m
        return self.has_fused_pass and fits
