"""What the parts of the vector unit tell each other."""

from amaranth.hdl import unsigned
from amaranth.lib import data

from diastole_sim.spec.micro import INPUTS, MicroOp
from diastole_sim.spec.sizes.vector_shape import PIPELINE, WORD, VectorShape
from diastole_sim.spec.stream_table import CHOICE_FIELDS

__all__ = [
    "PIPELINE",
    "WORD",
    "VectorShape",
    "given_layout",
    "is_special",
    "row_layout",
    "stream_layout",
    "visited_layout",
]


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
        | dict.fromkeys(CHOICE_FIELDS if shape.has_choices else (), 1)
    )


def given_layout(shape: VectorShape) -> data.StructLayout:
    """An output of an instruction, block by block: which stream, and of which block its rows are,
    which follow in ascending order, all B of them."""
    return data.StructLayout({"stream": range(INPUTS), "block": visited_layout(shape)})


def is_special(op):
    """Whether an operation's code is one of the special lanes."""
    return op >= MicroOp.EXP
