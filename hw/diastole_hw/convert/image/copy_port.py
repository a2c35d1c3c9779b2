"""What the lanes give away: the groups of each copy, their elements and their exponents."""

from amaranth.hdl import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.convert.image.exponents import field_layout
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes


def image_group_layout() -> data.StructLayout:
    """A group, for what comes after the lanes. ``copy``: of which copy. ``line_end``, ``copy_end``:
    it is the last of its line, of its copy, in the tile; a line is a row of blocks of the first
    copy, of the second a strip's groups. The others are the tile's."""
    flags = ("copy", "line_end", "copy_end", "first_row", "first_col", "last_row", "last_col")
    return data.StructLayout({flag: unsigned(1) for flag in flags})


class CopySignature(wiring.Signature):
    """What the quantised elements of a copy go through, seen from the lanes. There is room for two
    groups of the first copy, for two strips of the second: halves.

    Members
    -------
    group : Out(stream of :func:`image_group_layout`)
        A group, or a strip, before its first word is written; a strip as its last group.
    write_en : Out(1)
    write_data : Out(lanes * element bits)
        A word is written.
    field_en, field_half : Out(1)
    field : Out(:func:`field_layout`)
        What :class:`diastole_hw.convert.image.exponents.ExponentField` is to hold.
    filled : Out(1)
        A pulse with the last word of a half, when its exponents are written too.
    freed, field_freed : In(1)
        Pulses: there is room for another half, for the exponents of one.
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
