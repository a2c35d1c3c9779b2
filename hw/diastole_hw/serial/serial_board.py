"""Combine a machine, its memory on the chip and a serial link: a whole board but clock and pins."""

from collections.abc import Sequence

from amaranth.hdl import (
    ClockDomain,
    ClockSignal,
    Elaboratable,
    Instance,
    Module,
    ResetSignal,
    Signal,
)
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring

from diastole_hw.bus.signature import AxiLiteSignature, AxiSignature
from diastole_hw.serial.serial_bridge import SerialBridge
from diastole_hw.serial.shared_memory import SharedMemory


def odd_ports(product_ports: Sequence[tuple[str, str, int]], data_width: int) -> list[str]:
    """Return the names of a product's ports that do not match a board with a serial line:
    unexpected, missing or of another width. ``data_width``: bits of the bus to memory."""
    expected = {"aclk": 1, "aresetn": 1, "irq": 1}
    for prefix, signature in (("s_axil", AxiLiteSignature()), ("m_axi", AxiSignature(data_width))):
        members = signature.members.items()
        expected |= {f"{prefix}_{name}": member.shape for name, member in members}
    actual = {name: width for name, _, width in product_ports}
    return sorted({name for name, _ in actual.items() ^ expected.items()})


class SerialBoard(Elaboratable):
    """Machine ``top``, an instance of the product's module, behind a serial line.

    Parameters: ``top`` and ``product_ports``, (name, direction, width) of every port, as in the
    manifest; ``data_width``: bits of the only bus to memory; ``divisor``: cycles per bit on the
    line; ``memory_bytes`` from address 0 on; ``clock_hz``. ``ports``: maps names to (signal,
    direction), as in the Verilog: ``aclk``, ``aresetn``, ``rx``, ``tx`` and ``irq``.

    ValueError for a product with unexpected ports, or for sizes that
    :class:`diastole_hw.serial.shared_memory.SharedMemory` refuses.
    """

    def __init__(
        self,
        *,
        top: str,
        product_ports: Sequence[tuple[str, str, int]],
        data_width: int,
        divisor: int,
        memory_bytes: int,
        clock_hz: int,
    ):
        self.top, self.product_ports = top, tuple(product_ports)
        if odd := odd_ports(product_ports, data_width):
            raise ValueError(f"a board cannot use a product with these ports: {', '.join(odd)}")
        self.memory = SharedMemory(data_width=data_width, size=memory_bytes)
        self.bridge = SerialBridge(
            divisor=divisor, memory_base=0, memory_bytes=memory_bytes, clock_hz=clock_hz
        )
        self.aclk, self.aresetn, self.irq = (Signal(name=n) for n in ("aclk", "aresetn", "irq"))
        self.rx, self.tx = Signal(name="rx", init=1), Signal(name="tx", init=1)
        into, out = PortDirection.Input, PortDirection.Output
        self.ports = {
            "aclk": (self.aclk, into),
            "aresetn": (self.aresetn, into),
            "rx": (self.rx, into),
            "tx": (self.tx, out),
            "irq": (self.irq, out),
        }

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain()
        m.d.comb += [ClockSignal().eq(self.aclk), ResetSignal().eq(~self.aresetn)]
        bridge, memory = self.bridge, self.memory
        m.submodules.bridge = bridge
        m.submodules.memory = memory
        wiring.connect(m, bridge.memory, memory.port)
        wires = {"aclk": self.aclk, "aresetn": self.aresetn, "irq": self.irq}
        for prefix, interface in (("s_axil", bridge.axil), ("m_axi", memory.axi)):
            members = interface.signature.members
            wires |= {f"{prefix}_{name}": getattr(interface, name) for name in members}
        m.submodules.machine = Instance(
            self.top,
            *(
                ("i" if direction.startswith("i") else "o", name, wires[name])
                for name, direction, _ in self.product_ports
            ),
        )
        m.d.comb += [bridge.rx.eq(self.rx), self.tx.eq(bridge.tx)]
        return m
