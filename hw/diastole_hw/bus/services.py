"""Define the services between units and bus engines: plain requests and beats, without AXI
handshakes."""

from amaranth.hdl import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_sim.spec.command_table import ADDRESS_BITS


def request_layout() -> data.StructLayout:
    """Return the layout of a request for ``beats`` (at least 1) from the byte address ``addr`` on.
    The address is aligned to a beat."""
    return data.StructLayout({"addr": unsigned(ADDRESS_BITS), "beats": unsigned(16)})


BETWEEN = 2
"""Words of each queue between the machine and a bus engine. Two words are the fewest that pass 1
word per cycle while valid and ready are registers. No queue hides the latency of a memory."""

OWNERS = 4
"""Largest number of units that share a service."""


def owner_tag_layout() -> data.StructLayout:
    """Return the layout of the owner of a request: the number of the unit among the units that
    share the service, and the number of the command among the two commands in flight."""
    return data.StructLayout({"owner": range(OWNERS), "command": 1})


def owned_request_layout() -> data.StructLayout:
    """Return the layout of a request with its owner."""
    return data.StructLayout(dict(request_layout().members) | {"owner_tag": owner_tag_layout()})


FETCH = 0
"""Owner that receives its failed beats. A failed beat of this owner stops no unit."""


def owned_beat_layout(data_width: int) -> data.StructLayout:
    """Return the layout of a read beat: its data, a bit for each receiving unit, and whether the
    bus answered with an error."""
    return data.StructLayout({"data": unsigned(data_width), "units": OWNERS, "failed": 1})


def write_beat_layout(data_width: int) -> data.StructLayout:
    """Return the layout of a beat to write: its data, and a strobe bit for each byte."""
    return data.StructLayout({"data": unsigned(data_width), "strb": unsigned(data_width // 8)})


class ReadSignature(wiring.Signature):
    """Read service, seen from the reader.

    Members
    -------
    requests : Out(stream of request_layout())
    beats : In(stream of unsigned(data_width))
        Beats of every request, in the order of the requests.
    """

    def __init__(self, data_width: int):
        self.data_width = data_width
        super().__init__(
            {
                "requests": Out(stream.Signature(request_layout())),
                "beats": In(stream.Signature(unsigned(data_width))),
            }
        )


class WriteSignature(wiring.Signature):
    """Write service, seen from the writing unit.

    Members
    -------
    requests : Out(stream of request_layout())
    beats : Out(stream of write_beat_layout(data_width))
        Beats of every request, in the order of the requests. Neither stream may wait for the other.
    """

    def __init__(self, data_width: int):
        self.data_width = data_width
        super().__init__(
            {
                "requests": Out(stream.Signature(request_layout())),
                "beats": Out(stream.Signature(write_beat_layout(data_width))),
            }
        )
