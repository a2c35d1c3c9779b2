"""How a vector unit is told what to do, and what it tells."""

from amaranth.hdl import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.convert.tile_order import cut_layout
from diastole_hw.vector.core.chain_setup import STEP_BITS, chain_layout
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.image import EXTENT_BITS
from diastole_sim.spec.limits import MOST_ENTRIES, VectorTable
from diastole_sim.spec.stream_table import CHOICE_FIELDS

WAITS = data.StructLayout({"input": 1, "output": 1, "special": 1})
"""By cause, whether the unit's next instruction waits for it in a cycle: elements that are read, a
place for those that are written, the special lanes."""


def image_layout(*, choices: bool = False) -> data.StructLayout:
    """An image that a chain makes, of class ``cls``: ``address``, and ``offset`` of the second copy
    from there, if there are two; ``tag``: of its draws; ``slot`` + 1 of its scale, 0: none; how it
    is ``cut``, in blocks. ``choices``: of a machine that decides widths, with the fields of that of
    a descriptor."""
    sizes = dict.fromkeys(("rows", "cols"), unsigned(EXTENT_BITS))
    words = dict.fromkeys(("offset", "tag"), unsigned(32))
    others = {"cls": unsigned(2), "address": unsigned(ADDRESS_BITS), "slot": unsigned(8)}
    flags = dict.fromkeys(CHOICE_FIELDS if choices else (), 1)
    return data.StructLayout(sizes | words | others | flags | {"cut": cut_layout()})


def asked_of_vector() -> data.StructLayout:
    """A command. ``skipped``: it is checked, and nothing else is done. ``transfer``: it moves
    entries of a table, else it runs ``chain``. ``store``: to
    memory, else from there. ``which``, ``first``, ``count``: the entries, which lie there from
    ``address`` on, plus ``advance`` for every step."""
    return data.StructLayout(
        {
            "skipped": 1,
            "transfer": 1,
            "store": 1,
            "which": range(max(VectorTable) + 1),
            "first": unsigned(MOST_ENTRIES.bit_length()),
            "count": unsigned(MOST_ENTRIES.bit_length()),
            "address": unsigned(ADDRESS_BITS),
            "advance": unsigned(32),
            "chain": chain_layout(),
        }
    )


class VectorControl(wiring.Signature):
    """A vector unit, seen from who gives it commands.

    Members
    -------
    command : Out(stream of :func:`asked_of_vector`)
        One that is in order, as far as it can be seen without the tables.
    step : Out(32)
        Must hold while a command is under way.
    done : In(1)
        A pulse: the unit has given all that the command writes to the writer, but an image, and is
        free.
    error_code : In(8)
        Instead of ``done``: why the command is refused, or stopped; it stays until a reset.
    overflow : In(1)
        A NaN or Inf was written to a stream that is watched.
    waits : In(WAITS)
    """

    def __init__(self):
        super().__init__(
            {
                "command": Out(stream.Signature(asked_of_vector())),
                "step": Out(STEP_BITS),
                "done": In(1),
                "error_code": In(8),
                "overflow": In(1),
                "waits": In(WAITS),
            }
        )
