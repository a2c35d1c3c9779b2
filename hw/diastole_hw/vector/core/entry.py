"""Instructions on their way to the lanes: what is left to do of one in one block."""

from amaranth.hdl import unsigned
from amaranth.lib import data

from diastole_hw.vector.stream_layouts import PIPELINE, WORD, VectorShape
from diastole_sim.spec.micro import INPUTS, REGISTERS, Source

PANEL = 31
"""Source of an operand that is read from the panel; a code that instructions do not have."""
NOTHING = int(Source.ZERO)
"""Source of an operand that the operation does not have."""


def operand_layout() -> data.StructLayout:
    """``source``: below 16 a register, a Source of memory, or ``PANEL``."""
    return data.StructLayout({"source": unsigned(5), "negate": unsigned(1)})


def distance_bits(shape: VectorShape) -> int:
    """Of a distance by which lanes or rows are turned: 1, 2, 4, .. B / 2, or 0."""
    return max(1, shape.row_bits)


def order_bits(shape: VectorShape) -> int:
    """Return the bits of a :class:`diastole_hw.vector.core.row_order.RowOrder` that this block
    needs."""
    return 0 if shape.block < PIPELINE else 1 if shape.block == PIPELINE else 2


def entry_layout(shape: VectorShape) -> data.StructLayout:
    """An instruction in a block in which it is done; or ``end``, and nothing else: the end of it.

    ``op``: its code; of a ``special`` one the operand is b. ``writes`` register ``d``. ``gives``
    rows to output ``o``; or ``to_panel``, from vector ``panel_write`` on. ``turn_lanes``,
    ``turn_rows``: the distance. ``order``: of its rows. ``fresh``: here c is the neutral element,
    +0 or ``infinite``, ``negative`` or not. ``constant``: K[k]. ``streams``: those of memory or a
    product that it reads. ``from_panel``: it reads the panel, from vector ``panel_read`` on.
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
        "gives": unsigned(1),
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
    """Whether an operand is in a register."""
    return ~operand.source[-1]
