"""Define AXI4 and AXI4-Lite as interfaces, seen from the manager (the side that issues requests).

Member names are the names of the standard in lower case, so that a top can offer ``m_axi_awvalid``.
Source: ARM IHI 0022. There are no IDs: all responses arrive in order.
"""

from amaranth.hdl import Signal
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.image import DATA_WIDTHS
from diastole_sim.spec.registers import ADDRESS_SPACE_BITS
from diastole_sim.spec.require import require_choice

INCR = 1  # awburst, arburst: addresses ascend
CACHE = 0b0011  # awcache, arcache: normal memory, not cached, may be buffered
PROT = 0b000  # awprot, arprot: data, secure, unprivileged
OKAY, SLVERR, DECERR = 0, 2, 3  # bresp, rresp


def _address_channel(prefix: str) -> dict:
    return {
        f"{prefix}addr": Out(ADDRESS_BITS),
        f"{prefix}len": Out(8),
        f"{prefix}size": Out(3),
        f"{prefix}burst": Out(2),
        f"{prefix}cache": Out(4),
        f"{prefix}prot": Out(3),
        f"{prefix}valid": Out(1),
        f"{prefix}ready": In(1),
    }


def _read_members(data_width: int) -> dict:
    return _address_channel("ar") | {
        "rdata": In(data_width),
        "rresp": In(2),
        "rlast": In(1),
        "rvalid": In(1),
        "rready": Out(1),
    }


def _write_members(data_width: int) -> dict:
    return _address_channel("aw") | {
        "wdata": Out(data_width),
        "wstrb": Out(data_width // 8),
        "wlast": Out(1),
        "wvalid": Out(1),
        "wready": In(1),
        "bresp": In(2),
        "bvalid": In(1),
        "bready": Out(1),
    }


class AxiReadSignature(wiring.Signature):
    """Read half of AXI4: channels AR and R. ``data_width`` in bits, 32 to 512."""

    def __init__(self, data_width: int):
        require_choice("data_width", data_width, DATA_WIDTHS)
        super().__init__(_read_members(data_width))


class AxiWriteSignature(wiring.Signature):
    """Write half of AXI4: channels AW, W and B. ``data_width`` in bits, 32 to 512."""

    def __init__(self, data_width: int):
        require_choice("data_width", data_width, DATA_WIDTHS)
        super().__init__(_write_members(data_width))


class AxiSignature(wiring.Signature):
    """Complete AXI4 port: the members of the read half and the write half. ``data_width`` in bits,
    32 to 512."""

    def __init__(self, data_width: int):
        require_choice("data_width", data_width, DATA_WIDTHS)
        super().__init__(_write_members(data_width) | _read_members(data_width))


class AxiLiteSignature(wiring.Signature):
    """AXI4-Lite with 32 bits of data and the address bits of the register map."""

    def __init__(self):
        super().__init__(
            {
                "awaddr": Out(ADDRESS_SPACE_BITS),
                "awprot": Out(3),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(32),
                "wstrb": Out(4),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                "araddr": Out(ADDRESS_SPACE_BITS),
                "arprot": Out(3),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(32),
                "rresp": In(2),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )


def top_ports(
    prefix: str, interface: wiring.PureInterface
) -> dict[str, tuple[Signal, PortDirection]]:
    """Return the ports of a top as ``verilog.convert`` expects them:
    ``{"m_axi_awvalid": (signal, Output)}``.

    The direction is seen from the component that has the member ``interface``.
    """
    directions = {Out: PortDirection.Output, In: PortDirection.Input}
    return {
        f"{prefix}_{path[-1]}": (value, directions[member.flow])
        for path, member, value in interface.signature.flatten(interface)
    }


def join_halves(m, axi, read, write):
    """Connect a whole AXI4 manager port ``axi`` to the halves of a reader and a writer.

    ``axi`` is an ``Out(AxiSignature)`` of the component that ``m`` elaborates; ``read`` and
    ``write`` are the members ``axi`` of its reader and its writer.
    """
    for half in (read, write):
        for path, member, value in half.signature.flatten(half):
            outer = getattr(axi, path[-1])
            if member.flow == Out:
                m.d.comb += outer.eq(value)
            else:
                m.d.comb += value.eq(outer)
