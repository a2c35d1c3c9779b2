"""Commands to the converter, and results that the converter reports."""

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


def convert_layout(*, planes: bool = False, streamed: bool = False) -> data.StructLayout:
    """Return the layout of a command. With ``planes``, a command has the number of planes of a
    stored copy, less 1. With ``streamed``, a command says whether a chain streams the floats, and
    into which patches the tensor is cut, in blocks."""
    return data.StructLayout(
        CONVERT.members
        | {"planes": unsigned(2 if planes else 0)}
        | ({"streamed": unsigned(1), "cut": cut_layout()} if streamed else {})
    )


class ConverterControl(wiring.Signature):
    """Carry commands to a converter and results back, seen from the unit that sends the commands.

    Parameters: ``planes``, true if a class has the format ``fast``; ``streamed``, true if a chain
    may stream tensors.

    Members
    -------
    command : Out(stream of :func:`convert_layout`)
        ``cls``: 0 to 2. ``rows`` and ``cols``: at least 1; ``cols`` at most
        ``block * max_col_blocks``. Source and destinations are aligned to beats; ``destination_t``
        is the address of the transpose's image, if the class has such an image. ``scale``: 0 if the
        tensor's scale follows from its data; else e + 127 of the tensor's top binade, or T + 138 of
        NVFP4; ignored in classes without a tensor scale. ``streamed``: only where
        :meth:`diastole_sim.spec.sizes.converter_sizes.ConverterSizes.accepts_chain` allows;
        ``source`` is ignored then. ``cut``: 0 unless ``streamed``; else a cut that
        :meth:`diastole_sim.spec.patches.PatchLimits.accepts` allows. Not checked.
    done : In(1)
        A pulse when the writer of the bus accepts the last beat and, with ``streamed``, the last
        streamed row has been accepted. The last beat is not yet in memory then.
    nan, inf : In(1)
        The tensor of the last command has a NaN, an Inf. Valid from ``done`` to the next command,
        as are ``amax`` and the improvement.
    amax : In(31)
        Bits 30..0 of the largest finite magnitude of the tensor; 0 if all finite elements are zero
        or subnormal.
    improvement_num, improvement_den : In(32)
        Sums over the elements of |k4 - 4 k2| and of k2, all ones if a sum does not fit. Present
        with ``planes``.
    """

    def __init__(self, *, planes: bool = False, streamed: bool = False):
        monitor = dict.fromkeys(("improvement_num", "improvement_den"), In(32)) if planes else {}
        super().__init__(
            monitor
            | {
                "command": Out(stream.Signature(convert_layout(planes=planes, streamed=streamed))),
                "done": In(1),
                "nan": In(1),
                "inf": In(1),
                "amax": In(31),
            }
        )
