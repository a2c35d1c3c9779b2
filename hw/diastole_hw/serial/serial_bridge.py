"""Connect the serial link on a board, from its two wires to registers and memory."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.signature import AxiLiteSignature
from diastole_hw.serial.bridge import Bridge
from diastole_hw.serial.frames import Framer, Unframer
from diastole_hw.serial.shared_memory import WordPortSignature
from diastole_hw.serial.uart import UartReceiver, UartTransmitter


class SerialBridge(wiring.Component):
    """:class:`diastole_hw.serial.bridge.Bridge` behind a UART.

    Timing: as its parts state.

    Parameters
    ----------
    divisor : int
        Cycles per bit (4 to 65535).
    memory_base, memory_bytes, clock_hz : int
        Parameters of :class:`diastole_hw.serial.bridge.Bridge`.

    Members
    -------
    rx, tx : In(1), Out(1)
        Serial line.
    axil : Out(AxiLiteSignature())
    memory : Out(WordPortSignature())

    ValueError if a parameter is out of range.
    """

    axil: wiring.PureInterface
    memory: wiring.PureInterface

    def __init__(self, *, divisor: int, memory_base: int, memory_bytes: int, clock_hz: int):
        self.divisor, self.clock_hz = divisor, clock_hz
        self.memory_base, self.memory_bytes = memory_base, memory_bytes
        super().__init__(
            {
                "rx": In(1, init=1),
                "tx": Out(1, init=1),
                "axil": Out(AxiLiteSignature()),
                "memory": Out(WordPortSignature()),
            }
        )

    def elaborate(self, platform):
        m = Module()
        identity = {name: getattr(self, name) for name in ("memory_base", "memory_bytes")}
        units = {
            "receiver": UartReceiver(divisor=self.divisor),
            "unframer": Unframer(),
            "bridge": Bridge(**identity, clock_hz=self.clock_hz),
            "framer": Framer(),
            "transmitter": UartTransmitter(divisor=self.divisor),
        }
        for name, unit in units.items():
            m.submodules[name] = unit
        receiver, unframer, bridge, framer, transmitter = units.values()
        m.d.comb += [
            receiver.rx.eq(self.rx),
            unframer.octet.eq(receiver.octet),
            unframer.came.eq(receiver.came),
            *(getattr(bridge, n).eq(getattr(unframer, n)) for n in ("word", "put", "ends", "good")),
            self.tx.eq(transmitter.tx),
        ]
        wiring.connect(m, bridge.answer, framer.i)
        wiring.connect(m, framer.o, transmitter.i)
        wiring.connect(m, bridge.axil, wiring.flipped(self.axil))
        wiring.connect(m, bridge.memory, wiring.flipped(self.memory))
        return m
