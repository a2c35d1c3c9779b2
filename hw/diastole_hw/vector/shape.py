"""Sizes of the vector unit, and what its parts tell each other."""

from dataclasses import dataclass

from amaranth.hdl import unsigned
from amaranth.lib import data
from amaranth.utils import exact_log2

from diastole_sim.spec.check import require_choice, require_int
from diastole_sim.spec.image import DATA_WIDTHS, MAX_SIZE
from diastole_sim.spec.micro import INPUTS, MicroOp
from diastole_sim.spec.numerics import BLOCK_SIDES

PIPELINE = 8
"""A row is written so many cycles after it was read, at most; an instruction takes no fewer."""
MOST_VECTORS = 2**17
"""Of a panel."""
WORD = 32
"""Bits of a number."""


@dataclass(frozen=True, kw_only=True)
class VectorShape:
    """``block``: B, lanes and rows of a block. ``data_width``: D, bits of a beat. ``specials``:
    special lanes, 1 to B. ``panel_vectors``: of the panel, a power of two, each B numbers.
    ValueError if one is out of range."""

    block: int
    data_width: int
    specials: int
    panel_vectors: int

    def __post_init__(self) -> None:
        require_choice("block", self.block, BLOCK_SIDES)
        require_choice("data_width", self.data_width, DATA_WIDTHS)
        require_choice("specials", self.specials, [1 << k for k in range(self.row_bits + 1)])
        require_int("panel_vectors", self.panel_vectors, 2, MOST_VECTORS)
        exact_log2(self.panel_vectors)

    @property
    def row_bits(self) -> int:
        """log2 B."""
        return exact_log2(self.block)

    @property
    def slot_cycles(self) -> int:
        """Of an instruction."""
        return max(self.block, PIPELINE)

    @property
    def vector_bits(self) -> int:
        """Of a row of a block."""
        return WORD * self.block

    @property
    def beat_bytes(self) -> int:
        return self.data_width // 8

    @property
    def index_bits(self) -> int:
        """Of the number of a block in a row, or a column, of blocks."""
        return (MAX_SIZE // self.block).bit_length()

    @property
    def panel_bits(self) -> int:
        """Of the number of a vector in the panel."""
        return exact_log2(self.panel_vectors)


def row_layout(shape: VectorShape) -> data.ArrayLayout:
    """A row of a block: B numbers in binary32, lane 0 lowest."""
    return data.ArrayLayout(unsigned(WORD), shape.block)


def visited_layout(shape: VectorShape) -> data.StructLayout:
    """A block of the walk. ``i``, ``j``: its number. ``rows``, ``cols``: how many of its rows and
    lanes lie in the tensor, at least 1. ``first``, ``last``: of its line. ``first_row``: it lies in
    the first row of blocks. ``end``: it is the last of the walk."""
    return data.StructLayout(
        {
            "i": unsigned(shape.index_bits),
            "j": unsigned(shape.index_bits),
            "rows": range(shape.block + 1),
            "cols": range(shape.block + 1),
            "first": 1,
            "last": 1,
            "first_row": 1,
            "end": 1,
        }
    )


def stream_layout(shape: VectorShape) -> data.StructLayout:
    """What a descriptor of the stream table became when its chain began. ``used``: an instruction
    names it. ``address``: in this step; of a panel the first vector, of a constant its index.
    ``pitch``: bytes, blocks or tag, as :mod:`diastole_sim.spec.stream_table` has it."""
    return data.StructLayout(
        {
            "used": 1,
            "kind": unsigned(4),
            "tensor_class": unsigned(2),
            "watch": 1,
            "aux": unsigned(8),
            "address": unsigned(40),
            "pitch": unsigned(32),
            "offset": unsigned(32),
        }
    )


def given_layout(shape: VectorShape) -> data.StructLayout:
    """An output of an instruction, block by block: which stream, and of which block its rows are,
    which follow in ascending order, all B of them."""
    return data.StructLayout({"stream": range(INPUTS), "block": visited_layout(shape)})


def is_special(op):
    """Whether an operation's code is one of the special lanes."""
    return op >= MicroOp.EXP
