"""What travels between cells: the layouts of vectors, held words, control and partial sums."""

from amaranth.hdl import signed, unsigned
from amaranth.lib import data
from amaranth.utils import bits_for

from diastole_hw.cell.cell_shape import CellShape, Element
from diastole_sim.spec.formats import SCALE_SIGNIFICAND_BITS


def vector_marks_layout(shape: CellShape) -> data.StructLayout:
    """What is said of a vector's group.

    ``deficit``: the maximum less the group's exponent, by which its products are shifted
    (:class:`diastole_hw.cell.align.AlignAdd`), 0 to SW + F. ``nonzero`` 0 marks a group of zeros or
    a bubble; everything else but ``poison`` then means nothing. ``significand``: of the group's
    scale. ``extent``: largest d + p of an element that is not zero, 0 if all are. ``poison``: an
    element or the scale is NaN or Inf; a bubble has 0.
    """
    members = {"deficit": unsigned(shape.deficit_bits), "nonzero": unsigned(1)}
    return data.StructLayout(members | _marks(shape, 1))


def vector_layout(shape: CellShape, element: Element) -> data.StructLayout:
    """One row or column of a block: B elements, and what their group's marks are."""
    elements = data.ArrayLayout(unsigned(element.bits), shape.block)
    marks = vector_marks_layout(shape)
    return data.StructLayout({"elements": elements} | dict(marks.members))


def held_layout(shape: CellShape) -> data.StructLayout:
    """Row ``index`` (a) of a block that is to be held, on its way up a column of cells.

    ``row`` counts the cells still to go: 0 to ``rows`` - 1 at a load port, 0 at its destination.
    ``deficit_east`` and ``deficit_north`` are those of the block in the two directions. All words
    of a block carry the same deficits, ``nonzero`` and ``significand``, but with ``lane_deficits``:
    then ``deficit_north``, ``nonzero`` and ``significand`` are the word's own (and to the east,
    which has one ``nonzero`` and ``significand`` per block, all words must carry the same).
    ``extent`` as a vector's; ``poison`` has a bit for each element. With either, the word of index
    0 comes before the others of its block.
    """
    return data.StructLayout(
        {
            "row": unsigned(bits_for(shape.rows - 1)),
            "index": unsigned(bits_for(shape.block - 1)),
            "elements": data.ArrayLayout(unsigned(shape.held.bits), shape.block),
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
    """What goes with a slot: its ``direction``, and ``swap``, one slot ahead of a new pass.

    ``direction`` is 0 from south to east, 1 from west to north, in all its copies; ignored where
    the array has one.
    """
    return data.StructLayout({"direction": unsigned(shape.direction_copies), "swap": unsigned(1)})


def sum_layout(block: int, bits: int, poison: bool = False) -> data.StructLayout:
    """B partial sums; ``inexact``: something was lost in them, or might have been: two non-zero
    groups met with deficits beyond F, or with extents beyond w. ``poison``: one bit for each sum,
    which is not a number."""
    members = {"sums": data.ArrayLayout(signed(bits), block), "inexact": unsigned(1)}
    return data.StructLayout(members | ({"poison": unsigned(block)} if poison else {}))
