"""How the elements of tiles and groups lie in the converter's words, chunks and beats."""

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
"""Largest tile of which the buffer holds two, so that one is read while one is quantised."""
PIECE_COLS, PIECE_BEATS = 16, 4
"""Columns of a piece of a tile and beats of its rows, at least: what a memory reads at a time."""
FEWEST_AHEAD, MOST_AHEAD = 4, 8
"""Tiles that are asked for and not yet read."""
BEATS_AHEAD = 256
"""Beats of such tiles: more than a far memory takes to answer."""


@dataclass(frozen=True, kw_only=True)
class ConverterSizes:
    """Sizes that follow from the classes of tensors and the width of the bus.

    A *word* is what the converter works on in one cycle: ``lanes`` neighbours of one row. A *chunk*
    is the part of a word that lies in one block: the whole word, or one of several blocks' rows. A
    *group* is 8 neighbouring blocks of a row of blocks, of a copy as it is stored. A *tile* is what
    is read before anything of it is quantised: whole groups of every copy, and whole groups that
    share an exponent. A *piece* is the columns of it that are read before those beside them. A
    *strip* is 8 rows of blocks of a tile with vector groups: of its second copy a group for each
    column of blocks. A *unit* is what has a stored exponent of its own. All sizes are powers of
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
        """Whether a class's exponents, its tensor's, are lowered to the largest element of each
        block, which is known as soon as its words come."""
        return tuple(self.numerics.folds(name) for name in CLASS_NAMES)

    @cached_property
    def finds(self) -> tuple[bool, ...]:
        """Whether a class's tiles go through the lanes once more, to find which of two scales each
        of its groups gets."""
        return tuple(chosen.scale == FOUR_OVER_SIX for chosen in self.classes)

    @cached_property
    def measured_bits(self) -> int:
        """Of what is measured of a unit: its stored exponent before folding, or what it is folded
        by; where a class finds, the codes of both scales, that of the scale for 6 on top. It grows
        with the largest magnitude."""
        return 16 if any(self.finds) else 8

    @cached_property
    def most_elements(self) -> int:
        """Elements of the largest unit."""
        pairs = zip(range(len(CLASS_NAMES)), self.vectors, strict=True)
        return max(self.side(n) ** (1 if of else 2) for n, of in pairs)

    @cached_property
    def vectors(self) -> tuple[bool, ...]:
        """Whether a class has vector groups, and so two copies."""
        return tuple(chosen.two_copies for chosen in self.classes)

    @cached_property
    def two_copies(self) -> bool:
        """Whether any class has."""
        return any(self.vectors)

    @cached_property
    def squares(self) -> bool:
        """Whether any class has none: its units are squares, or blocks."""
        return not all(self.vectors)

    @cached_property
    def scanned(self) -> tuple[bool, ...]:
        """Whether a class's scale may follow from the whole tensor."""
        return tuple(chosen.has_tensor_scale for chosen in self.classes)

    def fed_cols(self, cls: int) -> int | None:
        """Columns of the widest tensor that can be given block by block, row of blocks by row of
        blocks, instead of lying in memory; None where that is any. Tiles that are higher than a
        block begin anew beside each other before they are complete, so there is only one."""
        return self.tile_cols(cls) if self.tile_rows(cls) > self.block else None

    def fed_columns(self, most: int) -> tuple[int, int, int]:
        """By class, columns of the widest tensor that a chain may give the converter, which takes
        ``most`` at all."""
        x, w, dy = (min(most, widest or most) for widest in self.of_classes(self.fed_cols))
        return x, w, dy

    def can_feed(self, cls: int, *, cols: int, scale: int) -> bool:
        """Whether a tensor of so many columns can be given block by block. Not where its scale
        follows from its data (``scale``, the command's field, is 0): they are read twice."""
        widest = self.fed_cols(cls)
        return (widest is None or cols <= widest) and not (self.scanned[cls] and scale == 0)

    def cut_blocks(self, cls: int) -> tuple[int, int]:
        """Rows and columns of blocks of a tile."""
        return self.tile_rows(cls) // self.block, self.tile_cols(cls) // self.block

    @cached_property
    def draws(self) -> tuple[bool, ...]:
        """Whether a class's elements draw from a generator."""
        generated = self.numerics.rounding_kind != "data"
        return tuple(generated and is_stochastic(chosen.rounding) for chosen in self.classes)

    @cached_property
    def draws_at_intake(self) -> tuple[bool, ...]:
        """Whether what a class's blocks are folded by hangs on draws."""
        return tuple(a and b for a, b in zip(self.folds, self.draws, strict=True))

    @cached_property
    def drawn_copies(self) -> int:
        """Copies for which an element draws, at most; 1 where none does."""
        return 1 + any(a and b for a, b in zip(self.vectors, self.draws, strict=True))

    @cached_property
    def element_bits(self) -> tuple[int, ...]:
        return tuple(chosen.format.element_bits for chosen in self.classes)

    @cached_property
    def most_planes(self) -> int:
        """Images of a copy, at most; each has the elements' own bits of some of their magnitude."""
        return max(self.numerics.planes_of(name)[-1] for name in CLASS_NAMES)

    @cached_property
    def planar(self) -> bool:
        """Whether a conversion says in how many planes a tensor is stored."""
        return self.numerics.chooses_widths

    @cached_property
    def lane_bits(self) -> int:
        """Bits of an element as it leaves the lanes, those of all its planes together."""
        widest = (self.numerics.converted_class(name) for name in CLASS_NAMES)
        return max(chosen.format.element_bits for chosen in widest)

    @cached_property
    def header(self) -> bool:
        """Whether images begin with the tensor's exponent (NVFP4)."""
        return any(group.header for group in self.group_layouts)

    def side(self, cls: int) -> int:
        """Side of a square, length of a vector group; with a tensor scale the block's side."""
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
        """Elements of a word: a beat of floats, unless a row of a group is shorter, or, where there
        are two copies, a row of a block."""
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
        """Chunks of a word, each in another block."""
        return self.lanes // self.chunk

    @cached_property
    def block_words(self) -> int:
        """Words of one row of a block: 1 if a word covers it or more."""
        return self.block // self.chunk

    @cached_property
    def group_layouts(self) -> tuple[GroupLayout, ...]:
        """By the number of a class: its groups as they are stored."""
        sizes = {"block": self.block, "data_width": self.data_width}
        return tuple(GroupLayout.of(chosen, **sizes) for chosen in self.classes)

    def runs(self, cls: int) -> int:
        """Q: vector groups of a row of elements that a group meets; 0 where there are none."""
        return self.group_layouts[cls].runs

    def exponent_entries(self, cls: int) -> int:
        """Bytes of a group's exponent field, without padding."""
        return self.group_layouts[cls].exponent_entries

    def exponent_beats(self, cls: int) -> int:
        """Beats of a group's exponent field."""
        return self.group_layouts[cls].exponent_beats

    def element_beats(self, cls: int) -> int:
        """Beats of a group's element field."""
        return self.group_layouts[cls].element_beats

    def group_beats(self, cls: int) -> int:
        return self.group_layouts[cls].group_beats

    # Tiles.

    def tile_rows(self, cls: int) -> int:
        """Rows of elements of a tile."""
        return max(self.side(cls), self.group_cols if self.vectors[cls] else self.block)

    def tile_cols(self, cls: int) -> int:
        return max(self.side(cls), self.group_cols)

    def piece_cols(self, cls: int) -> int:
        """Columns of a piece: few where a tile is a row of squares, for each is known when it is
        read, and need not wait for those beside it; elsewhere all."""
        if self.finds[cls] or self.tile_rows(cls) > self.block:
            return self.tile_cols(cls)
        fewest = max(self.block, PIECE_COLS, PIECE_BEATS * self.floats)
        return min(self.tile_cols(cls), fewest)

    @cached_property
    def piece_words(self) -> tuple[int, ...]:
        """By the number of a class: words of one row of a piece."""
        return tuple(cols // self.lanes for cols in self.of_classes(self.piece_cols))

    @cached_property
    def in_pieces(self) -> tuple[bool, ...]:
        """By the number of a class: whether its tiles have several pieces."""
        return tuple(self.piece_cols(cls) < self.tile_cols(cls) for cls in range(len(CLASS_NAMES)))

    @cached_property
    def most_pieces(self) -> int:
        """Pieces of a tile."""
        return max(self.tile_cols(cls) // self.piece_cols(cls) for cls in range(len(CLASS_NAMES)))

    @cached_property
    def piece_squares(self) -> int:
        """Squares of a piece, at most; 0 where there are only vectors."""
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
        """Of the largest power of two that divides the sides of all tiles: as many of the lowest
        bits of the index of a tile's first element are 0."""
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
        """Floats of the tiles that the buffer is made for."""
        return self.max_tile_rows * self.max_tile_cols

    @cached_property
    def halves(self) -> int:
        """Tiles that the buffer holds."""
        return 2 if self.tile_floats <= DOUBLED_FLOATS else 1

    @cached_property
    def tiles_ahead(self) -> int:
        """Tiles that are asked for and not yet read, at most."""
        tiles = ceil_div(BEATS_AHEAD, ceil_div(self.tile_floats, self.floats))
        return min(max(FEWEST_AHEAD, tiles), MOST_AHEAD)

    @cached_property
    def half_bits(self) -> int:
        return log2(self.halves)

    def of_classes(self, method: Callable[[int], T]) -> tuple[T, ...]:
        """A method's value for every class."""
        return tuple(method(cls) for cls in range(len(CLASS_NAMES)))
