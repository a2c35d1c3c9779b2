"""Define the layouts of data that travel between cells: vectors, stationary words, control and
partial sums."""

from amaranth.hdl import signed, unsigned
from amaranth.lib import data
from amaranth.utils import bits_for

from diastole_hw.cell.cell_shape import CellShape, Element
from diastole_sim.spec.formats import SCALE_SIGNIFICAND_BITS


def vector_marks_layout(shape: CellShape) -> data.StructLayout:
    """Return the layout of the marks of a vector's group.

    ``deficit``: the maximum less the exponent of the group, 0 to SW + F. The deficit shifts the
    products of the group (:class:`diastole_hw.cell.align.AlignAdd`). ``nonzero``: 0 marks a group
    of zeros or a bubble. Then no mark but ``poison`` has a meaning. ``significand``: significand of
    the group's scale. ``extent``: largest d + p of the non-zero elements, 0 if all elements are
    zero. ``poison``: an element or the scale is NaN or Inf. In a bubble ``poison`` is 0.
    """
    members = {"deficit": unsigned(shape.deficit_bits), "nonzero": unsigned(1)}
    return data.StructLayout(members | _marks(shape, 1))


def vector_layout(shape: CellShape, element: Element) -> data.StructLayout:
    """Return the layout of a row or column of a block: B elements and the marks of their group."""
    elements = data.ArrayLayout(unsigned(element.bits), shape.block)
    marks = vector_marks_layout(shape)
    return data.StructLayout({"elements": elements} | dict(marks.members))


def stationary_layout(shape: CellShape) -> data.StructLayout:
    """Return the layout of a stationary word, row ``index`` (a) of a block, on the way up a column
    of cells.

    ``row`` counts the cells still to go: 0 to ``rows`` - 1 at a load port, 0 at the destination.
    ``deficit_east`` and ``deficit_north`` are the deficits of the block in the two directions. All
    words of a block carry the same deficits, ``nonzero`` and ``significand``.

    With ``lane_deficits``, each word has ``deficit_north``, ``nonzero`` and ``significand`` of its
    own. For the east direction, which has a single ``nonzero`` and ``significand`` per block, all
    words must carry equal values even then. ``extent`` is defined as in a vector. ``poison`` has a
    bit per element. With ``extent`` or ``poison``, the word of index 0 must be the first word of
    its block.
    """
    return data.StructLayout(
        {
            "row": unsigned(bits_for(shape.rows - 1)),
            "index": unsigned(bits_for(shape.block - 1)),
            "elements": data.ArrayLayout(unsigned(shape.stationary.bits), shape.block),
            "deficit_east": unsigned(shape.deficit_bits),
            "deficit_north": unsigned(shape.deficit_bits),
            "nonzero": unsigned(1),
            "valid": unsigned(1),
        }
        | _marks(shape, shape.block)
    )


def _marks(shape: CellShape, poison_bits: int) -> dict:
    marks = {}
    if shape.significands:
        marks["significand"] = unsigned(SCALE_SIGNIFICAND_BITS)
    if shape.extents:
        marks["extent"] = unsigned(shape.extent_bits)
    if shape.poison:
        marks["poison"] = unsigned(poison_bits)
    return marks


def control_layout(shape: CellShape) -> data.StructLayout:
    """Return the layout of the control of a slot: ``direction``, and ``swap``, which comes one slot
    ahead of a new pass.

    ``direction`` is 0 from south to east and 1 from west to north, in all copies. An array with a
    single direction ignores ``direction``.
    """
    return data.StructLayout({"direction": unsigned(shape.direction_copies), "swap": unsigned(1)})


def sum_layout(block: int, bits: int, poison: bool = False) -> data.StructLayout:
    """Return the layout of B partial sums.

    ``inexact``: the sums have lost something, or might have: two non-zero groups met whose deficits
    add up to more than F, or whose extents add up to more than w. ``poison``: a bit per sum, set if
    the sum is not a number.
    """
    members = {"sums": data.ArrayLayout(signed(bits), block), "inexact": unsigned(1)}
    return data.StructLayout(members | ({"poison": unsigned(block)} if poison else {}))
