"""Describe a converter for the model: sizes, and durations of parts."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from diastole_sim.perf.draw_delays import hashed_cycles
from diastole_sim.spec.image import GroupLayout, image_layouts
from diastole_sim.spec.integers import ceil_div
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics, TensorClass
from diastole_sim.spec.require import require_choice
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from diastole_sim.spec.sizes.draws import row_hash_cycles
from diastole_sim.spec.sizes.queues import SHORT_QUEUE

BEFORE_DRAWS = 1
"""Cycles of a word without random bits, included in the cycles from the request of a hash to the
word."""
ROW_DRAWS_EARLY, ROW_DRAWS = 5, 2
"""Additional cycles for random bits from a row's register, before words are measured, and before
words leave."""
LANE_CYCLES, FOLD_CYCLES, DIVIDE_CYCLES, MEASURE_CYCLES = 3, 1, 3, 3


@dataclass(frozen=True, kw_only=True)
class ModelledConverter:
    """Converter of a machine, for tensors of one class. ``width``: bits of magnitude if widths are
    chosen at every conversion, None for the widest.

    A *word* passes through the lanes in a cycle. A *tile* is read before any part of the tile is
    quantised; a tile of one row of squares is read in *pieces*. A *group* is 8 blocks side by side.
    ValueError if an argument is out of range.
    """

    numerics: Numerics
    tensor_class: str
    data_width: int
    width: int | None = None

    def __post_init__(self) -> None:
        require_choice("tensor_class", self.tensor_class, CLASS_NAMES)
        _ = self.sizes, self.planes  # refuse an unknown bus or width

    @cached_property
    def sizes(self) -> ConverterSizes:
        """Sizes of the converter, for all classes."""
        return ConverterSizes(numerics=self.numerics, data_width=self.data_width)

    @cached_property
    def cls(self) -> int:
        """Number of the class."""
        return CLASS_NAMES.index(self.tensor_class)

    # Properties of the machine.

    @cached_property
    def block(self) -> int:
        return self.sizes.block

    @cached_property
    def beat_bytes(self) -> int:
        return self.sizes.beat_bytes

    @cached_property
    def floats(self) -> int:
        """Floats of a beat."""
        return self.sizes.floats

    @cached_property
    def lanes(self) -> int:
        """Elements of a word."""
        return self.sizes.lanes

    @cached_property
    def two_copies(self) -> bool:
        """True if any class has two copies. Groups then wait until they are complete."""
        return self.sizes.two_copies

    @cached_property
    def buffered_tiles(self) -> int:
        """Tiles that the buffer holds."""
        return self.sizes.buffered_tiles

    @cached_property
    def tiles_ahead(self) -> int:
        """Most tiles with a read request and without data."""
        return self.sizes.tiles_ahead

    @cached_property
    def lane_cycles(self) -> int:
        """Cycles from a word to its elements."""
        divides = self.numerics.scale_significands
        return LANE_CYCLES + FOLD_CYCLES * any(self.sizes.folds) + DIVIDE_CYCLES * divides

    @cached_property
    def measure_cycles(self) -> int:
        """Delay in cycles of the measurement of words, in a machine with a class that folds by the
        measurement."""
        return MEASURE_CYCLES * any(self.sizes.folds) + any(self.sizes.folds_by_draws)

    @cached_property
    def repeat_cycles(self) -> int:
        """Additional wait in cycles of a group's exponents in a long queue."""
        entries = max(layout.exponent_entries for layout in self.sizes.group_layouts)
        return int(entries > SHORT_QUEUE)

    # Properties of the class.

    @cached_property
    def storage(self) -> TensorClass:
        return self.sizes.classes[self.cls]

    @cached_property
    def planes(self) -> int:
        """Number of images that a copy consists of."""
        return self.numerics.converted_class(self.tensor_class, self.width).format.plane_count

    @cached_property
    def vectors(self) -> bool:
        """True if the class has two copies, in vector groups."""
        return self.sizes.vectors[self.cls]

    @cached_property
    def draws(self) -> bool:
        """True if elements of the class draw random bits from a generator."""
        return self.sizes.draws[self.cls]

    @cached_property
    def row_start(self) -> int:
        """Cycles from the start of a row's register to the start of the next row's register; 0 if
        random bits are not drawn by rows."""
        return row_hash_cycles(self.lanes) if self.numerics.draws_by_rows else 0

    @cached_property
    def drawn_cycles(self) -> int:
        """Delay in cycles of words with random bits at the end of the lanes."""
        if not self.draws:
            return 0
        return ROW_DRAWS if self.row_start else hashed_cycles(self.lanes) - BEFORE_DRAWS

    @cached_property
    def drawn_early_cycles(self) -> int:
        """Delay in cycles of the measurement of words with random bits."""
        return ROW_DRAWS_EARLY if self.row_start else hashed_cycles(self.lanes) - 1

    @cached_property
    def scans(self) -> bool:
        """True if the scale may follow from the whole tensor."""
        return self.sizes.scanned[self.cls]

    @cached_property
    def tries_scales(self) -> bool:
        """True if every tile passes the lanes twice. The first pass chooses the scales of its
        groups."""
        return self.sizes.tries_scales[self.cls]

    @cached_property
    def draws_early(self) -> bool:
        """True if a fold depends on random bits, so that a word needs the bits when the word is
        measured."""
        return self.sizes.folds_by_draws[self.cls]

    @cached_property
    def group(self) -> GroupLayout:
        """Layout of a stored group of one plane."""
        return self.sizes.group_layouts[self.cls]

    def plane_beats(self, rows: int, cols: int) -> tuple[int, ...]:
        """Return the beats of a plane of every copy of a tensor."""
        sizes = {"block": self.block, "data_width": self.data_width}
        layouts = image_layouts(self.storage, (rows, cols), **sizes)
        return tuple(layout.total_bytes // self.beat_bytes for layout in layouts)

    def image_beats(self, rows: int, cols: int) -> int:
        """Return the beats of all copies of a tensor."""
        return self.planes * sum(self.plane_beats(rows, cols))

    # Tiles, pieces, words.

    @cached_property
    def tile_rows(self) -> int:
        return self.sizes.tile_rows(self.cls)

    @cached_property
    def tile_cols(self) -> int:
        return self.sizes.tile_cols(self.cls)

    @cached_property
    def piece_cols(self) -> int:
        return self.sizes.piece_cols(self.cls)

    def tiles(self, cols: int) -> Iterator[int]:
        """Return the columns of every tile in a row of tiles."""
        return (min(self.tile_cols, cols - col) for col in range(0, cols, self.tile_cols))

    def pieces(self, cols: int) -> Iterator[int]:
        """Return the columns of every piece of a tile."""
        return (min(self.piece_cols, cols - col) for col in range(0, cols, self.piece_cols))

    def padded_words(self, cols: int) -> int:
        """Return the words of a row of blocks with ``cols`` columns, counted in whole blocks."""
        if self.lanes > self.block:
            return self.block * ceil_div(cols, self.lanes)
        return self.block * ceil_div(cols, self.block) * self.block // self.lanes

    def transposed_words(self, lines: int) -> int:
        """Return the words of a group of the second copy, in ``lines`` rows of blocks."""
        return ceil_div(lines * self.block**2, self.lanes)

    def words(self, rows: int, cols: int) -> int:
        """Return the words that pass through the lanes."""
        lines = ceil_div(rows, self.block)
        stored = lines * sum(self.padded_words(width) for width in self.tiles(cols))
        trial = rows * sum(ceil_div(width, self.lanes) for width in self.tiles(cols))
        return stored + trial * self.tries_scales
