"""How the converter is given commands, and what it reports."""

from amaranth.hdl import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.convert.tile_order import cut_layout
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.image import EXTENT_BITS

CONVERT = data.StructLayout(
    {
        "cls": 2,
        "rows": unsigned(EXTENT_BITS),
        "cols": unsigned(EXTENT_BITS),
        "source": unsigned(ADDRESS_BITS),
        "destination": unsigned(ADDRESS_BITS),
        "destination_t": unsigned(ADDRESS_BITS),
        "tag": unsigned(32),
        "step": unsigned(32),
        "scale": unsigned(8),
    }
)


def convert_layout(*, planes: bool = False, fed: bool = False) -> data.StructLayout:
    """What is to be converted; with ``planes``, in how many each copy is stored, less 1; with
    ``fed``, whether a chain gives the floats, and in which patches, cut in blocks."""
    return data.StructLayout(
        CONVERT.members
        | {"planes": unsigned(2 if planes else 0)}
        | ({"fed": unsigned(1), "cut": cut_layout()} if fed else {})
    )


class ConverterControl(wiring.Signature):
    """A converter, seen from who gives it commands.

    Parameters: ``planes``, whether a class has the format ``fast``; ``fed``, whether tensors may
    come from a chain.

    Members
    -------
    command : Out(stream of :func:`convert_layout`)
        Class 0 to 2; rows and cols at least 1, cols at most ``block * max_col_blocks``; source and
        destinations aligned to beats, ``destination_t`` that of the transpose's image, if there is
        one. ``scale``: 0, the tensor's scale follows from its data; else e + 127 of the tensor's
        top binade, or T + 138 of NVFP4; only looked at in classes with a tensor scale. ``fed``:
        only where :meth:`diastole_sim.spec.sizes.converter_sizes.ConverterSizes.can_feed` says so;
        ``source`` is not looked at. ``cut``: 0 where it is not ``fed``; else only as
        :meth:`diastole_sim.spec.patches.PatchLimits.takes` says. Not checked.
    done : In(1)
        A pulse when the writer takes the last beat (which is not yet in memory then), and the last
        row of what is fed has been taken.
    nan, inf : In(1)
        The tensor of the last command has a NaN, an Inf. Valid from ``done`` to the next command,
        as are the others.
    amax : In(31)
        Bits 30..0 of its largest finite magnitude; 0 if there is none that is no subnormal.
    improvement_num, improvement_den : In(32)
        Sums over its elements of |k4 - 4 k2| and of k2, all ones where they do not fit; with
        ``planes``.
    """

    def __init__(self, *, planes: bool = False, fed: bool = False):
        monitor = dict.fromkeys(("improvement_num", "improvement_den"), In(32)) if planes else {}
        super().__init__(
            monitor
            | {
                "command": Out(stream.Signature(convert_layout(planes=planes, fed=fed))),
                "done": In(1),
                "nan": In(1),
                "inf": In(1),
                "amax": In(31),
            }
        )
