"""What the model knows of a converter: how long its parts take, beside its sizes."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from diastole_sim.perf.draw_delays import hashed_cycles
from diastole_sim.spec.image import GroupLayout, image_layouts
from diastole_sim.spec.integers import ceil_div
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics, TensorClass
from diastole_sim.spec.require import require_choice
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes

SHORT_QUEUE = 16
"""Entries that a queue gives on in the next cycle."""
BEFORE_DRAWS = 1
"""Cycles that a word needs without draws, of those from the request of a hash to its word."""
DRAWN_EARLY_BY_ROWS, DRAWN_BY_ROWS = 5, 2
"""Cycles that draws of a row's register add before words are measured, and before they leave."""
ROW_HASH_CYCLES, ROW_COLUMNS = 5, 64
"""Of a row's hash, and columns of a row for which it is quick enough."""
LANE_CYCLES, FOLD_CYCLES, DIVIDE_CYCLES, MEASURE_CYCLES = 3, 1, 3, 3


@dataclass(frozen=True, kw_only=True)
class ModelledConverter:
    """A machine's converter, at a tensor of one class, of ``width`` bits of magnitude where these
    are chosen at every conversion, None for the widest.

    A *word* is what goes through the lanes in a cycle; a *tile* what is read before any of it is
    quantised, in *pieces* where it is one row of squares; a *group* 8 blocks side by side.
    ValueError if out of range.
    """

    numerics: Numerics
    tensor_class: str
    data_width: int
    width: int | None = None

    def __post_init__(self) -> None:
        require_choice("tensor_class", self.tensor_class, CLASS_NAMES)
        _ = self.sizes, self.planes  # refuse a bus or a width that there is not

    @cached_property
    def sizes(self) -> ConverterSizes:
        """Sizes of the converter, which are of all classes."""
        return ConverterSizes(numerics=self.numerics, data_width=self.data_width)

    @cached_property
    def cls(self) -> int:
        """The number of the class."""
        return CLASS_NAMES.index(self.tensor_class)

    # Of the machine.

    @cached_property
    def block(self) -> int:
        return self.sizes.block

    @cached_property
    def beat_bytes(self) -> int:
        return self.sizes.beat_bytes

    @cached_property
    def floats(self) -> int:
        """Of a beat."""
        return self.sizes.floats

    @cached_property
    def lanes(self) -> int:
        """Elements of a word."""
        return self.sizes.lanes

    @cached_property
    def two_copies(self) -> bool:
        """Whether any class has them: groups wait then until they are complete."""
        return self.sizes.two_copies

    @cached_property
    def halves(self) -> int:
        """Tiles that the buffer holds."""
        return self.sizes.halves

    @cached_property
    def tiles_ahead(self) -> int:
        return self.sizes.tiles_ahead

    @cached_property
    def lane_cycles(self) -> int:
        """From a word to its elements."""
        divides = self.numerics.scale_significands
        return LANE_CYCLES + FOLD_CYCLES * any(self.sizes.folds) + DIVIDE_CYCLES * divides

    @cached_property
    def measure_cycles(self) -> int:
        """By which words are measured later, in a machine with a class that folds by it."""
        return MEASURE_CYCLES * any(self.sizes.folds) + any(self.sizes.draws_at_intake)

    @cached_property
    def kept_cycles(self) -> int:
        """By which a group's exponents wait longer for their turn, in a long queue."""
        entries = max(layout.exponent_entries for layout in self.sizes.group_layouts)
        return int(entries > SHORT_QUEUE)

    # Of the class.

    @cached_property
    def chosen(self) -> TensorClass:
        return self.sizes.classes[self.cls]

    @cached_property
    def planes(self) -> int:
        """Images that each copy is."""
        return self.numerics.converted_class(self.tensor_class, self.width).format.plane_count

    @cached_property
    def vectors(self) -> bool:
        """Whether there are two copies, in vector groups."""
        return self.sizes.vectors[self.cls]

    @cached_property
    def draws(self) -> bool:
        """Whether its elements draw from a generator."""
        return self.sizes.draws[self.cls]

    @cached_property
    def row_start(self) -> int:
        """Cycles from the start of a row's register to that of the next one's; 0 where draws are
        not by rows."""
        usual = ceil_div(ROW_COLUMNS, self.lanes)
        return min(ROW_HASH_CYCLES, usual) if self.numerics.draws_by_rows else 0

    @cached_property
    def drawn_cycles(self) -> int:
        """By which words that draw leave the lanes later."""
        if not self.draws:
            return 0
        return DRAWN_BY_ROWS if self.row_start else hashed_cycles(self.lanes) - BEFORE_DRAWS

    @cached_property
    def drawn_early_cycles(self) -> int:
        """By which words are measured later that are measured with their draws."""
        return DRAWN_EARLY_BY_ROWS if self.row_start else hashed_cycles(self.lanes) - 1

    @cached_property
    def scans(self) -> bool:
        """Whether the scale may follow from the whole tensor."""
        return self.sizes.scanned[self.cls]

    @cached_property
    def finds(self) -> bool:
        """Whether every tile is passed twice: at first to see which scale its groups get."""
        return self.sizes.finds[self.cls]

    @cached_property
    def draws_early(self) -> bool:
        """Whether words are measured with their draws, when they are read."""
        return self.sizes.draws_at_intake[self.cls]

    @cached_property
    def group(self) -> GroupLayout:
        """A group, of one plane, as it is stored."""
        return self.sizes.group_layouts[self.cls]

    def plane_beats(self, rows: int, cols: int) -> tuple[int, ...]:
        """Of each copy of a tensor, and plane."""
        sizes = {"block": self.block, "data_width": self.data_width}
        layouts = image_layouts(self.chosen, (rows, cols), **sizes)
        return tuple(layout.total_bytes // self.beat_bytes for layout in layouts)

    def image_beats(self, rows: int, cols: int) -> int:
        """Of all copies of a tensor."""
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
        """Columns of the tiles of a row of them."""
        return (min(self.tile_cols, cols - col) for col in range(0, cols, self.tile_cols))

    def pieces(self, cols: int) -> Iterator[int]:
        """Columns of the pieces of a tile."""
        return (min(self.piece_cols, cols - col) for col in range(0, cols, self.piece_cols))

    def padded_words(self, cols: int) -> int:
        """Of a row of blocks with so many columns: blocks that have any, and whole."""
        if self.lanes > self.block:
            return self.block * ceil_div(cols, self.lanes)
        return self.block * ceil_div(cols, self.block) * self.block // self.lanes

    def turned_words(self, lines: int) -> int:
        """Of a group of the second copy, in so many rows of blocks."""
        return ceil_div(lines * self.block**2, self.lanes)

    def words(self, rows: int, cols: int) -> int:
        """That go through the lanes."""
        lines = ceil_div(rows, self.block)
        stored = lines * sum(self.padded_words(width) for width in self.tiles(cols))
        found = rows * sum(ceil_div(width, self.lanes) for width in self.tiles(cols))
        return stored + found * self.finds
