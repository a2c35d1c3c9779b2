"""What units say to the bus engines: plain requests and beats, without the handshakes of AXI."""

from amaranth.hdl import unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_sim.spec.command_table import ADDRESS_BITS


def request_layout() -> data.StructLayout:
    """``beats`` (at least 1) from the byte address ``addr`` on, which is aligned to a beat."""
    return data.StructLayout({"addr": unsigned(ADDRESS_BITS), "beats": unsigned(16)})


BETWEEN = 2
"""Words of each queue between the machine and a bus engine: the fewest that pass one in every cycle
while both handshakes are registers. No queue hides the latency of a memory."""

OWNERS = 4
"""Units that may share a service."""


def whose_layout() -> data.StructLayout:
    """Whose a request is: the unit among those that share the service, by number, and which of the
    two commands in flight it is of."""
    return data.StructLayout({"owner": range(OWNERS), "command": 1})


def owned_request_layout() -> data.StructLayout:
    """A request, and whose it is."""
    return data.StructLayout(dict(request_layout().members) | {"whose": whose_layout()})


FETCH = 0
"""The owner whose failed beats are given to it, and stop nobody."""


def owned_beat_layout(data_width: int) -> data.StructLayout:
    """A beat that was read, for which unit, a bit for each, and whether the bus answered with an
    error."""
    return data.StructLayout({"data": unsigned(data_width), "units": OWNERS, "failed": 1})


def write_beat_layout(data_width: int) -> data.StructLayout:
    """One beat to write: its bits, and which of its bytes count."""
    return data.StructLayout({"data": unsigned(data_width), "strb": unsigned(data_width // 8)})


class ReadSignature(wiring.Signature):
    """The read service, seen from who reads.

    Members
    -------
    requests : Out(stream of request_layout())
    beats : In(stream of unsigned(data_width))
        Those of every request, in the order of the requests.
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
    """The write service, seen from who writes.

    Members
    -------
    requests : Out(stream of request_layout())
    beats : Out(stream of write_beat_layout(data_width))
        Those of every request, in the order of the requests; neither stream may wait for the other.
    """

    def __init__(self, data_width: int):
        self.data_width = data_width
        super().__init__(
            {
                "requests": Out(stream.Signature(request_layout())),
                "beats": Out(stream.Signature(write_beat_layout(data_width))),
            }
        )
