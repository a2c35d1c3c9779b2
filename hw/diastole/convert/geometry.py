"""How the elements of a group lie in the converter's words, chunks and beats."""

from dataclasses import dataclass

from diastole_sim.check import require_choice
from diastole_sim.numerics import BLOCK_SIDES
from diastole_sim.program.image import DATA_WIDTHS, GROUP_BLOCKS, ImageLayout


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Sizes that follow from the block side and the width of the bus.

    A *word* is what the converter works on in one cycle: ``lanes`` neighbours of one row. A *chunk*
    is the part of a word that lies in one block: the whole word, or one of several blocks' rows.
    All sizes are powers of two. Source: the memory image of ``diastole_sim.program.image``.

    Parameters
    ----------
    block : int
        Block side (a power of two, 1 to 32).
    data_width : int
        Bits of a beat (a power of two, 32 to 512).
    """

    block: int
    data_width: int

    def __post_init__(self):
        require_choice("block", self.block, BLOCK_SIDES)
        require_choice("data_width", self.data_width, DATA_WIDTHS)

    @property
    def beat_bytes(self) -> int:
        return self.data_width // 8

    @property
    def floats(self) -> int:
        """Floats of a beat."""
        return self.data_width // 32

    @property
    def group_cols(self) -> int:
        """Elements of one row of a group."""
        return GROUP_BLOCKS * self.block

    @property
    def lanes(self) -> int:
        """Elements of a word: a beat of floats, unless a row of a group is shorter."""
        return min(self.floats, self.group_cols)

    @property
    def row_words(self) -> int:
        """Words of one row of a group."""
        return self.group_cols // self.lanes

    @property
    def group_words(self) -> int:
        return self.block * self.row_words

    @property
    def chunk(self) -> int:
        """Elements of a chunk."""
        return min(self.lanes, self.block)

    @property
    def word_chunks(self) -> int:
        """Chunks of a word, each in another block."""
        return self.lanes // self.chunk

    @property
    def block_words(self) -> int:
        """Words of one row of a block: 1 if a word covers it or more."""
        return self.block // self.chunk

    @property
    def exponent_beats(self) -> int:
        """Beats of a group's exponent field, one byte per block."""
        return self._image(2).exponent_bytes // self.beat_bytes

    def mantissa_beats(self, mantissa_bits: int) -> int:
        """Beats of a group's mantissa field, elements of ``mantissa_bits`` + 1 bits."""
        return self._image(mantissa_bits).mantissa_bytes // self.beat_bytes

    def _image(self, mantissa_bits: int) -> ImageLayout:
        """A tensor of one group; it knows the fields of all."""
        return ImageLayout(
            rows=1,
            cols=1,
            block=self.block,
            mantissa_bits=mantissa_bits,
            data_width=self.data_width,
        )
