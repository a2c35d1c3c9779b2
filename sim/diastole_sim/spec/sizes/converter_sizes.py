"""Layout of the elements of tiles and groups in the converter's words, chunks and beats."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import TypeVar

from diastole_sim.spec.formats import FOUR_OVER_SIX
from diastole_sim.spec.image import DATA_WIDTHS, GROUP_BLOCKS, GroupLayout
from diastole_sim.spec.integers import ceil_div, log2
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics, TensorClass
from diastole_sim.spec.require import require_choice
from diastole_sim.spec.rounding import is_stochastic

T = TypeVar("T")

DOUBLED_FLOATS = 4096
"""Floats of the largest tile that is double-buffered: a tile is read while another is quantised."""
PIECE_COLS, PIECE_BEATS = 16, 4
"""Columns of a piece of a tile and beats of its rows, at least: the amount of one read from
memory."""
MIN_AHEAD, MAX_AHEAD = 4, 8
"""Bounds of the number of tiles with a read request and without data."""
BEATS_AHEAD = 256
"""Beats of requested tiles: more than a far memory takes to answer."""


@dataclass(frozen=True, kw_only=True)
class ConverterSizes:
    """Sizes that follow from the classes of tensors and the width of the bus.

    A *word* is the input of the converter in one cycle: ``lanes`` neighbours of one row. A *chunk*
    is the part of a word in one block: the whole word, or a row of one of several blocks. A *group*
    is 8 neighbouring blocks of a row of blocks, in a copy as stored. A *tile* is read as a whole
    before any part of it is quantised: whole groups of every copy, and whole groups of elements
    with a common exponent. A *piece* is the columns of a tile that are read before the neighbouring
    columns. A *strip* is 8 rows of blocks of a tile with vector groups: in the second copy, a group
    for each column of blocks. A *unit* has a stored exponent of its own. All sizes are powers of
    two. Methods take the number of a class.

    Parameters
    ----------
    numerics : Numerics
        Block side and classes of tensors.
    data_width : int
        Bits of a beat (a power of two, 32 to 512).
    """

    numerics: Numerics
    data_width: int

    def __post_init__(self):
        require_choice("data_width", self.data_width, DATA_WIDTHS)

    # Classes.

    @cached_property
    def classes(self) -> tuple[TensorClass, ...]:
        return tuple(self.numerics.tensor_class(name) for name in CLASS_NAMES)

    @cached_property
    def folds(self) -> tuple[bool, ...]:
        """True for every class whose tensor's exponent is lowered to the largest element of each
        block. The fold of a block is known as soon as the words of the block arrive."""
        return tuple(self.numerics.folds(name) for name in CLASS_NAMES)

    @cached_property
    def tries_scales(self) -> tuple[bool, ...]:
        """True for every class whose tiles go through the lanes twice. The first pass chooses
        between two scales for every group."""
        return tuple(storage.scale == FOUR_OVER_SIX for storage in self.classes)

    @cached_property
    def measured_bits(self) -> int:
        """Bits of the measurement of a unit: the stored exponent before folding, or the fold. If a
        class chooses between two scales, the measurement has the codes of both, with the scale for
        6 on top. The measurement grows with the largest magnitude."""
        return 16 if any(self.tries_scales) else 8

    @cached_property
    def max_elements(self) -> int:
        """Elements of the largest unit."""
        pairs = zip(range(len(CLASS_NAMES)), self.vectors, strict=True)
        return max(self.side(n) ** (1 if of else 2) for n, of in pairs)

    @cached_property
    def vectors(self) -> tuple[bool, ...]:
        """True for every class with vector groups, and so two copies."""
        return tuple(storage.two_copies for storage in self.classes)

    @cached_property
    def two_copies(self) -> bool:
        """True if any class has two copies."""
        return any(self.vectors)

    @cached_property
    def squares(self) -> bool:
        """True if any class has a single copy: its units are squares, or blocks."""
        return not all(self.vectors)

    @cached_property
    def scanned(self) -> tuple[bool, ...]:
        """True for every class whose scale may follow from the whole tensor."""
        return tuple(storage.has_tensor_scale for storage in self.classes)

    def chain_block_cols(self, cls: int) -> int | None:
        """Return the columns of the widest tensor that a chain may send block by block, row of
        blocks by row of blocks, in place of a tensor in memory. None without a limit. Tiles higher
        than a block would be begun side by side before the first is complete, so the tensor may be
        one tile wide."""
        return self.tile_cols(cls) if self.tile_rows(cls) > self.block else None

    def chain_columns(self, limit: int) -> tuple[int, int, int]:
        """Return for every class the columns of the widest tensor that a chain may send to a
        converter with a limit of ``limit`` columns."""
        x, w, dy = (min(limit, widest or limit) for widest in self.by_class(self.chain_block_cols))
        return x, w, dy

    def accepts_chain(self, cls: int, *, cols: int, scale: int) -> bool:
        """Return whether a chain may send a tensor of ``cols`` columns block by block. A chain may
        not if the scale follows from the data (``scale``, the command's field, is 0), because the
        data are read twice."""
        widest = self.chain_block_cols(cls)
        return (widest is None or cols <= widest) and not (self.scanned[cls] and scale == 0)

    def cut_blocks(self, cls: int) -> tuple[int, int]:
        """Return height and width of a tile of a class, in blocks."""
        return self.tile_rows(cls) // self.block, self.tile_cols(cls) // self.block

    @cached_property
    def draws(self) -> tuple[bool, ...]:
        """True for every class whose elements draw random bits from a generator."""
        generated = self.numerics.rounding_kind != "data"
        return tuple(generated and is_stochastic(storage.rounding) for storage in self.classes)

    @cached_property
    def folds_by_draws(self) -> tuple[bool, ...]:
        """True for every class whose folds depend on draws."""
        return tuple(a and b for a, b in zip(self.folds, self.draws, strict=True))

    @cached_property
    def drawn_copies(self) -> int:
        """Most copies for which an element draws random bits; 1 if no element draws."""
        return 1 + any(a and b for a, b in zip(self.vectors, self.draws, strict=True))

    @cached_property
    def element_bits(self) -> tuple[int, ...]:
        return tuple(storage.format.element_bits for storage in self.classes)

    @cached_property
    def max_planes(self) -> int:
        """Most images of a copy. Each image has some bits of every magnitude."""
        return max(self.numerics.planes_of(name)[-1] for name in CLASS_NAMES)

    @cached_property
    def planar(self) -> bool:
        """True if a conversion gives the number of planes of a tensor."""
        return self.numerics.chooses_widths

    @cached_property
    def lane_bits(self) -> int:
        """Bits of an element behind the lanes, in all planes together."""
        widest = (self.numerics.converted_class(name) for name in CLASS_NAMES)
        return max(storage.format.element_bits for storage in widest)

    @cached_property
    def header(self) -> bool:
        """True if images begin with the tensor's exponent (NVFP4)."""
        return any(group.header for group in self.group_layouts)

    def side(self, cls: int) -> int:
        """Return the side of a square or the length of a vector group; the block's side with a
        tensor scale."""
        return self.classes[cls].grouping.size or self.block

    # Words, groups and beats.

    @cached_property
    def block(self) -> int:
        return self.numerics.block

    @cached_property
    def beat_bytes(self) -> int:
        return self.data_width // 8

    @cached_property
    def floats(self) -> int:
        """Floats of a beat."""
        return self.data_width // 32

    @cached_property
    def group_cols(self) -> int:
        """Elements of one row of a group."""
        return GROUP_BLOCKS * self.block

    @cached_property
    def stored_at_once(self) -> int:
        """Elements that are quantised in a cycle, over all copies."""
        return self.lanes * (1 + self.two_copies)

    @cached_property
    def lanes(self) -> int:
        """Elements of a word: a beat of floats, or a row of a group if shorter. With two copies, at
        most a row of a block."""
        return min(self.floats, self.block if self.two_copies else self.group_cols)

    @cached_property
    def beat_words(self) -> int:
        """Words of a beat of floats."""
        return self.floats // self.lanes

    @cached_property
    def row_words(self) -> int:
        """Words of one row of a group."""
        return self.group_cols // self.lanes

    @cached_property
    def group_words(self) -> int:
        return self.block * self.row_words

    @cached_property
    def chunk(self) -> int:
        """Elements of a chunk."""
        return min(self.lanes, self.block)

    @cached_property
    def word_chunks(self) -> int:
        """Chunks of a word, each in a different block."""
        return self.lanes // self.chunk

    @cached_property
    def block_words(self) -> int:
        """Words of one row of a block: 1 if a word covers the row or more."""
        return self.block // self.chunk

    @cached_property
    def group_layouts(self) -> tuple[GroupLayout, ...]:
        """Layout of a stored group of each class, in the order x, w, dy."""
        sizes = {"block": self.block, "data_width": self.data_width}
        return tuple(GroupLayout.of(storage, **sizes) for storage in self.classes)

    def runs(self, cls: int) -> int:
        """Return Q: vector groups of a row of elements in a group; 0 without vector groups."""
        return self.group_layouts[cls].runs

    def exponent_entries(self, cls: int) -> int:
        """Return the bytes of a group's exponent field, without padding."""
        return self.group_layouts[cls].exponent_entries

    def exponent_beats(self, cls: int) -> int:
        """Return the beats of a group's exponent field."""
        return self.group_layouts[cls].exponent_beats

    def element_beats(self, cls: int) -> int:
        """Return the beats of a group's element field."""
        return self.group_layouts[cls].element_beats

    def group_beats(self, cls: int) -> int:
        return self.group_layouts[cls].group_beats

    # Tiles.

    def tile_rows(self, cls: int) -> int:
        """Return the rows of elements of a tile."""
        return max(self.side(cls), self.group_cols if self.vectors[cls] else self.block)

    def tile_cols(self, cls: int) -> int:
        return max(self.side(cls), self.group_cols)

    def piece_cols(self, cls: int) -> int:
        """Return the columns of a piece. A piece has few columns if a tile is a row of squares: a
        square is known when it is read, and need not wait for its neighbours. Otherwise a piece has
        all columns of the tile."""
        if self.tries_scales[cls] or self.tile_rows(cls) > self.block:
            return self.tile_cols(cls)
        fewest = max(self.block, PIECE_COLS, PIECE_BEATS * self.floats)
        return min(self.tile_cols(cls), fewest)

    @cached_property
    def piece_words(self) -> tuple[int, ...]:
        """Words of one row of a piece, by the number of a class."""
        return tuple(cols // self.lanes for cols in self.by_class(self.piece_cols))

    @cached_property
    def in_pieces(self) -> tuple[bool, ...]:
        """By the number of a class, True if the tiles of the class have several pieces."""
        return tuple(self.piece_cols(cls) < self.tile_cols(cls) for cls in range(len(CLASS_NAMES)))

    @cached_property
    def max_pieces(self) -> int:
        """Most pieces of a tile."""
        return max(self.tile_cols(cls) // self.piece_cols(cls) for cls in range(len(CLASS_NAMES)))

    @cached_property
    def piece_squares(self) -> int:
        """Most squares of a piece; 0 if all classes have vectors."""
        pairs = zip(range(len(CLASS_NAMES)), self.vectors, strict=True)
        return max((self.piece_cols(n) // self.side(n) for n, of in pairs if not of), default=0)

    @cached_property
    def max_tile_rows(self) -> int:
        return max(self.tile_rows(cls) for cls in range(len(CLASS_NAMES)))

    @cached_property
    def max_tile_cols(self) -> int:
        return max(self.tile_cols(cls) for cls in range(len(CLASS_NAMES)))

    @cached_property
    def log_tile_side(self) -> int:
        """log2 of the largest power of two that divides the sides of all tiles. As many low bits of
        the index of a tile's first element are 0."""
        classes = range(len(CLASS_NAMES))
        divisor = gcd(*map(self.tile_rows, classes), *map(self.tile_cols, classes))
        return log2(divisor & -divisor)

    @cached_property
    def tile_row_words(self) -> int:
        """Words of one row of the largest tile."""
        return self.max_tile_cols // self.lanes

    @cached_property
    def tile_words(self) -> int:
        return self.max_tile_rows * self.tile_row_words

    @cached_property
    def strip_rows(self) -> int:
        """Rows of elements of a strip."""
        return self.group_cols

    @cached_property
    def strip_cols(self) -> int:
        """Columns of elements of the widest strip."""
        return max(self.tile_cols(cls) for cls, vectors in enumerate(self.vectors) if vectors)

    @cached_property
    def strip_groups(self) -> int:
        """Groups of the widest strip."""
        return self.strip_cols // self.block

    @cached_property
    def tile_floats(self) -> int:
        """Floats of the tiles for which the buffer is made."""
        return self.max_tile_rows * self.max_tile_cols

    @cached_property
    def buffered_tiles(self) -> int:
        """Tiles in the buffer."""
        return 2 if self.tile_floats <= DOUBLED_FLOATS else 1

    @cached_property
    def tiles_ahead(self) -> int:
        """Most tiles with a read request and without data."""
        tiles = ceil_div(BEATS_AHEAD, ceil_div(self.tile_floats, self.floats))
        return min(max(MIN_AHEAD, tiles), MAX_AHEAD)

    @cached_property
    def tile_number_bits(self) -> int:
        return log2(self.buffered_tiles)

    def by_class(self, method: Callable[[int], T]) -> tuple[T, ...]:
        """Return a method's value for every class."""
        return tuple(method(cls) for cls in range(len(CLASS_NAMES)))
