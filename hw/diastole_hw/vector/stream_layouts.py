"""Layouts of the data that the parts of the vector unit exchange."""

from amaranth.hdl import unsigned
from amaranth.lib import data

from diastole_sim.spec.micro import INPUTS, MicroOp
from diastole_sim.spec.sizes.vector_shape import PIPELINE, WORD, VectorShape
from diastole_sim.spec.stream_table import CHOICE_FIELDS

__all__ = [
    "PIPELINE",
    "STEP_BITS",
    "WORD",
    "VectorShape",
    "is_special",
    "output_block_layout",
    "row_layout",
    "stream_layout",
    "visited_layout",
]

STEP_BITS = 32
"""Bits of the number of a training step."""


def row_layout(shape: VectorShape) -> data.ArrayLayout:
    """Return the layout of a row of a block: B numbers in binary32, lane 0 lowest."""
    return data.ArrayLayout(unsigned(WORD), shape.block)


def visited_layout(shape: VectorShape) -> data.StructLayout:
    """Return the layout of a block of the walk, the sequence of blocks of a chain. ``i``, ``j``:
    row and column of blocks. ``rows``, ``cols``: number of the block's rows and lanes inside the
    tensor, at least 1. ``first``, ``last``: first or last block of a line (a row or a column of
    blocks). ``first_row``: block in the first row of blocks. ``end``: last block of the walk."""
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
    """Return the layout of a stream of a chain, derived from the stream's descriptor when the chain
    begins. ``used``: an instruction names the stream. ``address``: address in this step, first
    vector of a panel, or index of a constant. ``pitch``: bytes, blocks or tag, as defined in
    :mod:`diastole_sim.spec.stream_table`."""
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


def output_block_layout(shape: VectorShape) -> data.StructLayout:
    """Return the layout that announces an output block of an instruction: number of the output
    stream, and block. All B rows of the block follow in ascending order."""
    return data.StructLayout({"stream": range(INPUTS), "block": visited_layout(shape)})


def is_special(op):
    """Return whether operation code ``op`` belongs to the special lanes."""
    return op >= MicroOp.EXP
