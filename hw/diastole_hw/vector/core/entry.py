"""Layout of an entry: a decoded instruction for a block, on the way to the lanes."""

from amaranth.hdl import unsigned
from amaranth.lib import data

from diastole_hw.vector.stream_layouts import PIPELINE, WORD, VectorShape
from diastole_sim.spec.micro import INPUTS, REGISTERS, Source

PANEL = 31
"""Source of an operand that is read from the panel. Instructions do not use this code."""
NOTHING = int(Source.ZERO)
"""Source of an operand that the operation does not have."""


def operand_layout() -> data.StructLayout:
    """Return the layout of an operand. ``source``: a register below 16, a ``Source``, or ``PANEL``.
    ``negate``: flip the sign."""
    return data.StructLayout({"source": unsigned(5), "negate": unsigned(1)})


def distance_bits(shape: VectorShape) -> int:
    """Return the bits of the distance of a lane or row permutation: 0, 1, 2, 4, .. B / 2."""
    return max(1, shape.row_bits)


def order_bits(shape: VectorShape) -> int:
    """Return the bits of a :class:`diastole_hw.vector.core.row_order.RowOrder` for this block
    size."""
    return 0 if shape.block < PIPELINE else 1 if shape.block == PIPELINE else 2


def entry_layout(shape: VectorShape) -> data.StructLayout:
    """Return the layout of an entry: an instruction to execute in a block, or only ``end``, the end
    of the block.

    ``op``: operation code; the operand of a ``special`` operation is b. ``writes``: write register
    ``d``. ``writes_output``: send rows to output ``o``. ``to_panel``: write rows to the panel, from
    vector ``panel_write`` on. ``turn_lanes``, ``turn_rows``: XOR distance by which lanes or rows of
    c are permuted. ``order``: order of the rows. ``fresh``: replace c by the neutral element: +0
    or, with ``infinite``, an infinity; ``negative`` sets the sign. ``keep``: elements outside the
    tensor become c. ``constant``: K[k]. ``streams``: inputs from memory or a product that the
    instruction reads. ``from_panel``: read the panel, from vector ``panel_read`` on.
    """
    fields = {
        "end": unsigned(1),
        "op": unsigned(5),
        "special": unsigned(1),
        "a": operand_layout(),
        "b": operand_layout(),
        "c": operand_layout(),
        "writes": unsigned(1),
        "d": range(REGISTERS),
        "writes_output": unsigned(1),
        "o": range(INPUTS),
        "to_panel": unsigned(1),
        "turn_lanes": unsigned(distance_bits(shape)),
        "turn_rows": unsigned(distance_bits(shape)),
        "order": unsigned(order_bits(shape)),
        "fresh": unsigned(1),
        "infinite": unsigned(1),
        "negative": unsigned(1),
        "keep": unsigned(1),
        "constant": unsigned(WORD),
        "streams": unsigned(INPUTS),
        "from_panel": unsigned(1),
        "panel_read": unsigned(shape.panel_bits),
        "panel_write": unsigned(shape.panel_bits),
    }
    return data.StructLayout(fields)


def is_register(operand):
    """Return whether an operand is a register."""
    return ~operand.source[-1]
