"""Port from the lanes to the images: the groups of a copy, with elements and exponents."""

from amaranth.hdl import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.convert.image.exponents import field_layout
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes


def image_group_layout() -> data.StructLayout:
    """Return the layout of a group after the lanes.

    ``copy``: the copy of the group. ``line_end``, ``copy_end``: the group is the last of its line,
    of its copy, in the tile. A line is a row of blocks of the first copy, or the groups of a strip
    of the second copy. The remaining flags are the flags of the tile.
    """
    flags = ("copy", "line_end", "copy_end", "first_row", "first_col", "last_row", "last_col")
    return data.StructLayout({flag: unsigned(1) for flag in flags})


class CopySignature(wiring.Signature):
    """Carry the quantised elements of a copy, seen from the lanes. The receiver holds two halves:
    two groups of the first copy, or two strips of the second copy.

    Members
    -------
    group : Out(stream of :func:`image_group_layout`)
        A group, or a strip, before its first word is written. A strip is described as its last
        group.
    write_en : Out(1)
    write_data : Out(lanes * element bits)
        A word is written.
    field_en, field_half : Out(1)
    field : Out(:func:`field_layout`)
        Bytes to write into :class:`diastole_hw.convert.image.exponents.ExponentField`.
    filled : Out(1)
        A pulse with the last word of a half, when the exponents of the half are written too.
    freed, field_freed : In(1)
        Pulses: a half is free again, for elements and for exponents.
    """

    def __init__(self, sizes: ConverterSizes, copy: int):
        super().__init__(
            {
                "group": Out(stream.Signature(image_group_layout())),
                "write_en": Out(1),
                "write_data": Out(sizes.lanes * sizes.lane_bits),
                "field_en": Out(1),
                "field_half": Out(1),
                "field": Out(field_layout(sizes, copy)),
                "filled": Out(1),
                "freed": In(1),
                "field_freed": In(1),
            }
        )
