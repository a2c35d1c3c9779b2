"""Convert between frames of words and octets: flags, escapes and the checksum of
:mod:`diastole_sim.spec.serial`."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.serial.crc import CRC_BITS, OCTET_BITS, crc_after
from diastole_sim.spec.serial import CRC_RESIDUE, ESCAPE, FLAG, FLIP

WORD_BITS = 32
ONES = 2**CRC_BITS - 1


def sent_layout() -> data.StructLayout:
    """Return the layout of a word of a frame, with a mark of the last word."""
    return data.StructLayout({"word": WORD_BITS, "last": 1})


class Unframer(wiring.Component):
    """Extract the words of frames from a sequence of octets, and tell whether a frame was whole.

    Timing: 1 octet per cycle with ``came``. ``put`` is high for 1 cycle, the cycle after the last
    octet of a word arrived. ``ends`` is high for 1 cycle, the cycle after a flag that follows at
    least one octet. ``good`` is high with ``ends`` if the octets since the preceding flag are whole
    words, and the last word is the FCS of the words before.

    Members
    -------
    octet, came : In(8), In(1)
    word, put : Out(32), Out(1)
        Words, including the FCS.
    ends, good : Out(1), Out(1)
    """

    def __init__(self):
        members = {"octet": In(OCTET_BITS), "came": In(1)}
        members |= {"word": Out(WORD_BITS), "put": Out(1), "ends": Out(1), "good": Out(1)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        crc = Signal(CRC_BITS, init=ONES)
        place = Signal(range(WORD_BITS // OCTET_BITS))
        escaped = Signal()  # the preceding octet was an ESCAPE
        empty = Signal(init=1)  # no octet since the flag
        broken = Signal()  # an ESCAPE that escapes an ESCAPE
        octet = Signal(OCTET_BITS)
        m.d.comb += octet.eq(self.octet ^ Mux(escaped, FLIP, 0))
        m.d.sync += [self.put.eq(0), self.ends.eq(0), self.good.eq(0)]
        with m.If(self.came & (self.octet == FLAG)):
            whole = ~escaped & ~broken & (place == 0)
            m.d.sync += [
                self.ends.eq(~empty),
                self.good.eq(whole & (crc == CRC_RESIDUE)),
                crc.eq(ONES),
                place.eq(0),
                *(each.eq(0) for each in (escaped, broken)),
                empty.eq(1),
            ]
        with m.Elif(self.came):
            m.d.sync += empty.eq(0)
            with m.If(self.octet == ESCAPE):
                m.d.sync += [escaped.eq(1), broken.eq(broken | escaped)]
            with m.Else():
                m.d.sync += [
                    escaped.eq(0),
                    crc.eq(crc_after(crc, octet)),
                    self.word.eq(Cat(self.word[OCTET_BITS:], octet)),
                    place.eq(place + 1),
                    self.put.eq(place == 3),
                ]
        return m


class Framer(wiring.Component):
    """Convert frames to octets: add flags around a frame, its FCS, and escapes.

    Timing: 1 octet in every cycle in which ``o.ready`` is high, while there are words. ``i.ready``
    is combinational from ``o.ready``.

    Members
    -------
    i : In(stream of sent_layout())
        Words of a frame; its FCS is added.
    o : Out(stream of 8)
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self):
        members = {"i": In(stream.Signature(sent_layout())), "o": Out(stream.Signature(8))}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        crc = Signal(CRC_BITS, init=ONES)
        place = Signal(range(WORD_BITS // OCTET_BITS))
        escaped = Signal()
        checking = Signal()  # the FCS is being sent
        octet = Signal(OCTET_BITS)
        special = Signal()
        source = Mux(checking, ~crc, self.i.p.word)
        octets = [source[k : k + OCTET_BITS] for k in range(0, WORD_BITS, OCTET_BITS)]
        m.d.comb += octet.eq(Array(octets)[place])
        m.d.comb += special.eq(((octet == FLAG) | (octet == ESCAPE)) & ~escaped)
        with m.FSM():
            # Send the flag at the beginning of a frame.
            with m.State("BEGIN"):
                m.d.comb += [self.o.valid.eq(self.i.valid), self.o.payload.eq(FLAG)]
                m.d.sync += crc.eq(ONES)
                with m.If(self.o.valid & self.o.ready):
                    m.next = "OCTETS"
            # Send words and FCS, with escapes.
            with m.State("OCTETS"):
                plain = octet ^ Mux(escaped, FLIP, 0)
                m.d.comb += self.o.valid.eq(checking | self.i.valid)
                m.d.comb += self.o.payload.eq(Mux(special, ESCAPE, plain))
                with m.If(self.o.valid & self.o.ready):
                    m.d.sync += escaped.eq(special)
                    with m.If(~special):
                        m.d.sync += place.eq(place + 1)
                        with m.If(~checking):
                            m.d.sync += crc.eq(crc_after(crc, octet))
                            m.d.comb += self.i.ready.eq(place == 3)
                        with m.If(self.i.ready & self.i.p.last):
                            m.d.sync += checking.eq(1)
                        with m.If(checking & (place == 3)):
                            m.d.sync += checking.eq(0)
                            m.next = "END"
            # Send the flag at the end of a frame.
            with m.State("END"):
                m.d.comb += [self.o.valid.eq(1), self.o.payload.eq(FLAG)]
                with m.If(self.o.ready):
                    m.next = "BEGIN"
        return m
