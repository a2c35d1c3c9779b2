"""Command and status interface of a vector unit."""

from amaranth.hdl import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.convert.tile_order import cut_layout
from diastole_hw.vector.core.chain_setup import chain_layout
from diastole_hw.vector.stream_layouts import STEP_BITS
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.image import EXTENT_BITS
from diastole_sim.spec.limits import MAX_ENTRIES, VectorTable
from diastole_sim.spec.stream_table import CHOICE_FIELDS

WAITS = data.StructLayout({"input": 1, "output": 1, "special": 1})
"""Causes for which the unit's next instruction waits in a cycle: elements to read, free space for
elements to write, the special lanes."""


def image_layout(*, choices: bool = False) -> data.StructLayout:
    """Return the layout of a request for an image of class ``cls`` that a chain makes.

    ``address``: address of the first stored copy. ``offset``: distance from the first to the second
    stored copy, if the image has 2 copies. ``tag``: tag of the image's random bits. ``slot``:
    number of the scale slot plus 1, 0 for none. ``cut``: whether and how the image is cut into
    patches, in blocks. ``choices``: add the fields ``CHOICE_FIELDS`` of a descriptor, for a machine
    that decides widths.
    """
    sizes = dict.fromkeys(("rows", "cols"), unsigned(EXTENT_BITS))
    words = dict.fromkeys(("offset", "tag"), unsigned(32))
    others = {"cls": unsigned(2), "address": unsigned(ADDRESS_BITS), "slot": unsigned(8)}
    flags = dict.fromkeys(CHOICE_FIELDS if choices else (), 1)
    return data.StructLayout(sizes | words | others | flags | {"cut": cut_layout()})


def requested_of_vector() -> data.StructLayout:
    """Return the layout of a command.

    ``skipped``: the command is checked, and nothing more is done. ``transfer``: the command moves
    entries of a table; otherwise the command runs ``chain``. ``store``: transfer from table to
    memory; otherwise from memory to table. ``which``, ``first``, ``count``: table, first entry,
    number of entries. In memory the entries begin at ``address``, plus ``advance`` for every step.
    """
    return data.StructLayout(
        {
            "skipped": 1,
            "transfer": 1,
            "store": 1,
            "which": range(max(VectorTable) + 1),
            "first": unsigned(MAX_ENTRIES.bit_length()),
            "count": unsigned(MAX_ENTRIES.bit_length()),
            "address": unsigned(ADDRESS_BITS),
            "advance": unsigned(32),
            "chain": chain_layout(),
        }
    )


class VectorControl(wiring.Signature):
    """Interface of a vector unit, from the view of the sender of commands.

    Members
    -------
    command : Out(stream of :func:`requested_of_vector`)
        A valid command, as far as a check without the tables can tell.
    step : Out(32)
        Stable while a command is under way.
    done : In(1)
        Pulse: the unit has sent everything that the command writes to the writer, except an image,
        and is free.
    error_code : In(8)
        Reason why the command is refused or stopped, instead of ``done``. The code stays until a
        reset.
    overflow : In(1)
        A NaN or Inf was written to a watched stream.
    waits : In(WAITS)
    """

    def __init__(self):
        super().__init__(
            {
                "command": Out(stream.Signature(requested_of_vector())),
                "step": Out(STEP_BITS),
                "done": In(1),
                "error_code": In(8),
                "overflow": In(1),
                "waits": In(WAITS),
            }
        )
