"""What units say to the bus engines: plain requests and beats, without the handshakes of AXI."""

from amaranth.hdl import unsigned
from amaranth.lib import data

from diastole.plan import ADDRESS_BITS


def request_layout() -> data.StructLayout:
    """``beats`` (at least 1) from the byte address ``addr`` on, which is aligned to a beat."""
    return data.StructLayout({"addr": unsigned(ADDRESS_BITS), "beats": unsigned(16)})


def write_beat_layout(data_width: int) -> data.StructLayout:
    """One beat to write: its bits, and which of its bytes count."""
    return data.StructLayout({"data": unsigned(data_width), "strb": unsigned(data_width // 8)})
