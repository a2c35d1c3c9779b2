"""Transfer octets over a line: a start bit, eight bits, the lowest first, and a stop bit."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_sim.spec.require import require_int

FASTEST, SLOWEST = 4, 65_535
"""Limits of the cycles per bit."""
FRAME_BITS = 10


def divisor_of(clock_hz: int, baud: int) -> int:
    """Return the cycles per bit. ValueError if no number of cycles gives a rate within 2 % of
    ``baud``."""
    divisor = max(round(clock_hz / baud), 1)
    if not FASTEST <= divisor <= SLOWEST or abs(clock_hz / divisor - baud) > 0.02 * baud:
        raise ValueError(
            f"baud must be within 2 % of {clock_hz} / n, n in {FASTEST}..{SLOWEST}, not {baud}"
        )
    return divisor


class UartReceiver(wiring.Component):
    """Receive octets from a line.

    Bits are sampled in their middle. An octet with a low stop bit is dropped, and so is a start bit
    that ends before its middle.

    Timing: ``came`` is high for 1 cycle, 2 cycles and half a bit after the stop bit begins.
    ``octet`` is stable until the next octet. There is no back-pressure: the reader must accept the
    octet with ``came``.

    Parameters
    ----------
    divisor : int
        Cycles per bit (4 to 65535); half of the number is rounded down.

    Members
    -------
    rx : In(1)
        Line, asynchronous to the clock; high while nothing is sent.
    octet, came : Out(8), Out(1)

    ValueError if divisor is out of range.
    """

    def __init__(self, *, divisor: int):
        self.divisor = require_int("divisor", divisor, FASTEST, SLOWEST)
        super().__init__({"rx": In(1, init=1), "octet": Out(8), "came": Out(1)})

    def elaborate(self, platform):
        m = Module()
        metastable = Signal(init=1)
        line = Signal(init=1)
        wait = Signal(range(self.divisor))
        place = Signal(range(FRAME_BITS))
        busy = Signal()
        m.d.sync += [metastable.eq(self.rx), line.eq(metastable), self.came.eq(0)]
        with m.If(~busy):
            m.d.sync += [busy.eq(~line), wait.eq(self.divisor // 2 - 1), place.eq(0)]
        with m.Elif(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.Else():
            m.d.sync += [wait.eq(self.divisor - 1), place.eq(place + 1)]
            with m.If(place == 0):
                m.d.sync += busy.eq(~line)
            with m.Elif(place == FRAME_BITS - 1):
                m.d.sync += [busy.eq(0), self.came.eq(line)]
            with m.Else():
                m.d.sync += self.octet.eq(Cat(self.octet[1:], line))
        return m


class UartTransmitter(wiring.Component):
    """Send octets over a line.

    Timing: 10 bits of ``divisor`` cycles per octet, without a gap while there are octets. The start
    bit of an octet begins in the cycle after the octet was accepted. ``i.ready`` is a function of
    registers.

    Parameters
    ----------
    divisor : int
        Cycles per bit (4 to 65535).

    Members
    -------
    i : In(stream of 8)
    tx : Out(1)
        Line; a register, high while nothing is sent.

    ValueError if divisor is out of range.
    """

    i: stream.Interface

    def __init__(self, *, divisor: int):
        self.divisor = require_int("divisor", divisor, FASTEST, SLOWEST)
        super().__init__({"i": In(stream.Signature(8)), "tx": Out(1, init=1)})

    def elaborate(self, platform):
        m = Module()
        wait = Signal(range(self.divisor))
        left = Signal(range(FRAME_BITS))  # bits behind the current bit
        bits = Signal(FRAME_BITS - 1)
        m.d.comb += self.i.ready.eq((left == 0) & (wait == 0))
        with m.If(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.Elif(left != 0):
            m.d.sync += [self.tx.eq(bits[0]), bits.eq(bits[1:]), left.eq(left - 1)]
            m.d.sync += wait.eq(self.divisor - 1)
        with m.Elif(self.i.valid):
            m.d.sync += [self.tx.eq(0), bits.eq(Cat(self.i.payload, 1)), left.eq(FRAME_BITS - 1)]
            m.d.sync += wait.eq(self.divisor - 1)
        return m
