"""What the model knows of a converter: sizes stated anew from the rules, not from the hardware."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from diastole_sim.perf.draws import hashed_cycles
from diastole_sim.perf.machine import ceil_div
from diastole_sim.spec.check import require_choice
from diastole_sim.spec.formats import FOUR_OVER_SIX
from diastole_sim.spec.image import DATA_WIDTHS, GROUP_BLOCKS, GroupLayout, image_layouts
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics, TensorClass
from diastole_sim.spec.rounding import is_stochastic

KEPT_FLOATS = 4096
"""Of a tile, up to which the buffer has room for two."""
PIECE_COLS, PIECE_BEATS = 16, 4
"""Of a piece, at least."""
TILES_AHEAD, BEATS_AHEAD = (4, 8), 256
"""What is asked for and has not been read: so many beats, in tiles."""
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
        require_choice("data_width", self.data_width, DATA_WIDTHS)
        _ = self.planes  # refuses a width that the class has not

    # Of the machine.

    @property
    def block(self) -> int:
        return self.numerics.block

    @property
    def beat_bytes(self) -> int:
        return self.data_width // 8

    @property
    def floats(self) -> int:
        """Of a beat."""
        return self.data_width // 32

    @property
    def group_cols(self) -> int:
        return GROUP_BLOCKS * self.block

    @cached_property
    def _classes(self) -> list[TensorClass]:
        return [self.numerics.tensor_class(name) for name in CLASS_NAMES]

    @cached_property
    def lanes(self) -> int:
        """Elements of a word."""
        return min(self.floats, self.block if self.two_copies else self.group_cols)

    @cached_property
    def two_copies(self) -> bool:
        """Whether any class has them: groups wait then until they are complete."""
        return any(chosen.two_copies for chosen in self._classes)

    @cached_property
    def _largest_tile(self) -> int:
        """Floats of the tiles that the buffer is made for."""
        sizes = [self._tile(chosen) for chosen in self._classes]
        return max(rows for rows, _ in sizes) * max(cols for _, cols in sizes)

    @property
    def halves(self) -> int:
        """Tiles that the buffer holds."""
        return 2 if self._largest_tile <= KEPT_FLOATS else 1

    @property
    def tiles_ahead(self) -> int:
        fewest, most = TILES_AHEAD
        return min(max(fewest, ceil_div(BEATS_AHEAD * self.floats, self._largest_tile)), most)

    @cached_property
    def lane_cycles(self) -> int:
        """From a word to its elements."""
        folds = any(self.numerics.folds(name) for name in CLASS_NAMES)
        divides = self.numerics.scale_significands
        return LANE_CYCLES + FOLD_CYCLES * folds + DIVIDE_CYCLES * divides

    # Of the class.

    @cached_property
    def chosen(self) -> TensorClass:
        return self.numerics.tensor_class(self.tensor_class)

    @cached_property
    def planes(self) -> int:
        """Images that each copy is."""
        return self.numerics.converted_class(self.tensor_class, self.width).format.plane_count

    @property
    def vectors(self) -> bool:
        """Whether there are two copies, in vector groups."""
        return self.chosen.two_copies

    @property
    def draws(self) -> bool:
        """Whether its elements draw from a generator."""
        return self._generates and is_stochastic(self.chosen.rounding)

    @property
    def _generates(self) -> bool:
        return self.numerics.rounding_kind != "data"

    @property
    def row_start(self) -> int:
        """Cycles from the start of a row's register to that of the next one's; 0 where draws are
        not by rows."""
        usual = ceil_div(ROW_COLUMNS, self.lanes)
        return min(ROW_HASH_CYCLES, usual) if self.numerics.draws_by_rows else 0

    @property
    def drawn_cycles(self) -> int:
        """By which words that draw leave the lanes later."""
        if not self.draws:
            return 0
        return DRAWN_BY_ROWS if self.row_start else hashed_cycles(self.lanes) - BEFORE_DRAWS

    @property
    def drawn_early_cycles(self) -> int:
        """By which words are measured later that are measured with their draws."""
        return DRAWN_EARLY_BY_ROWS if self.row_start else hashed_cycles(self.lanes) - 1

    @property
    def scans(self) -> bool:
        """Whether the scale may follow from the whole tensor."""
        return self.chosen.has_tensor_scale

    @cached_property
    def finds(self) -> bool:
        """Whether every tile is passed twice: at first to see which scale its groups get."""
        return self.chosen.scale == FOUR_OVER_SIX

    @cached_property
    def draws_early(self) -> bool:
        """Whether words are measured with their draws, when they are read."""
        return self.numerics.folds(self.tensor_class) and self.draws

    @cached_property
    def measure_cycles(self) -> int:
        """By which words are measured later, in a machine with a class that folds by it."""
        early = [
            self.numerics.tensor_class(name) for name in CLASS_NAMES if self.numerics.folds(name)
        ]
        drawn = self._generates and any(is_stochastic(chosen.rounding) for chosen in early)
        return MEASURE_CYCLES * bool(early) + drawn

    @cached_property
    def kept_cycles(self) -> int:
        """By which a group's exponents wait longer for their turn, in a long queue."""
        entries = max(self._group_of(chosen).exponent_entries for chosen in self._classes)
        return int(entries > SHORT_QUEUE)

    @cached_property
    def _group(self) -> GroupLayout:
        return self._group_of(self.chosen)

    def _group_of(self, chosen: TensorClass) -> GroupLayout:
        return GroupLayout.of(chosen, block=self.block, data_width=self.data_width)

    @property
    def header(self) -> int:
        """Beats in front of each image."""
        return self._group.header_beats

    @property
    def exponent_bytes(self) -> int:
        """Of a group."""
        return self._group.exponent_entries

    @cached_property
    def element_beats(self) -> int:
        """Of a group, and plane."""
        return self._group.element_beats

    @property
    def group_beats(self) -> int:
        """Of a group, and plane, with its exponents."""
        return self._group.exponent_beats + self.element_beats

    def data_beats(self, blocks: int) -> int:
        """Of a group with so many blocks, and plane, up to the last element."""
        return self._group.block_beats(blocks)

    def plane_beats(self, rows: int, cols: int) -> tuple[int, ...]:
        """Of each copy of a tensor, and plane."""
        sizes = {"block": self.block, "data_width": self.data_width}
        layouts = image_layouts(self.chosen, (rows, cols), **sizes)
        return tuple(layout.total_bytes // self.beat_bytes for layout in layouts)

    def image_beats(self, rows: int, cols: int) -> int:
        """Of all copies of a tensor."""
        return self.planes * sum(self.plane_beats(rows, cols))

    # Tiles, pieces, words.

    def _tile(self, chosen: TensorClass) -> tuple[int, int]:
        side = chosen.grouping.size or self.block
        rows = max(side, self.group_cols if chosen.two_copies else self.block)
        return rows, max(side, self.group_cols)

    @cached_property
    def tile_rows(self) -> int:
        return self._tile(self.chosen)[0]

    @cached_property
    def tile_cols(self) -> int:
        return self._tile(self.chosen)[1]

    @cached_property
    def piece_cols(self) -> int:
        if self.finds or self.tile_rows > self.block:
            return self.tile_cols
        return min(self.tile_cols, max(self.block, PIECE_COLS, PIECE_BEATS * self.floats))

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
