"""Elements of a few bits, packed without gaps into beats."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_sim.spec.check import require_int


def packed_layout(data_width: int) -> data.StructLayout:
    """A beat of packed elements; ``last``: it has the last of a group."""
    return data.StructLayout({"beat": unsigned(data_width), "last": 1})


class Packer(wiring.Component):
    """Pack elements of a class's width into beats, little-endian; a group begins a new beat.

    Timing: one word in per cycle while beats are taken. A beat leaves in the cycle after its last
    word came; where that word also begins the group's last beat, this leaves one later. ``o`` is
    registered; ``i.ready`` is combinational from ``o.ready``.

    Parameters
    ----------
    lanes : int
        Elements of a word in (1 to 16).
    element_bits : tuple of int
        Bits of an element of each class, at most ``data_width / lanes``.
    data_width : int
        Bits of a beat (32 to 512).

    Members
    -------
    cls : In(2)
        Class; not checked. Must not change within a group.
    i : In(stream of {"elements": unsigned(lanes * max(element_bits)), "last": 1})
        Each element in max(element_bits) bits, of which the class's low ones count.
    o : Out(stream of :func:`packed_layout`)
        Zeros after the last element of a group.
    """

    def __init__(self, *, lanes: int, element_bits: tuple, data_width: int):
        require_int("lanes", lanes, 1, 16)
        for bits in element_bits:
            require_int("element_bits", bits, 1, data_width // lanes)
        self.lanes, self.element_bits, self.data_width = lanes, tuple(element_bits), data_width
        word = data.StructLayout({"elements": unsigned(lanes * max(element_bits)), "last": 1})
        super().__init__(
            {
                "cls": In(2),
                "i": In(stream.Signature(word)),
                "o": Out(stream.Signature(packed_layout(data_width))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        width = self.data_width
        word = Signal(self.lanes * max(self.element_bits))
        bits = Signal(range(len(word) + 1))
        self._squeeze(m, word, bits)

        rest = Signal(width)  # bits that do not fill a beat yet, zeros above
        fill = Signal(range(width))
        flush = Signal()  # `rest` ends a group, and leaves beside the next one's first word
        begun = Signal(width)  # what the group has besides the word
        filled = Signal.like(fill)
        joined = Signal(width + len(word))
        total = Signal(range(width + len(word) + 1))
        with m.If(~flush):
            m.d.comb += [begun.eq(rest), filled.eq(fill)]
        m.d.comb += joined.eq(begun | (word << filled))
        m.d.comb += total.eq(filled + bits)
        move = Signal()
        m.d.comb += move.eq(self.o.ready | ~self.o.valid)
        m.d.comb += self.i.ready.eq(move)
        with m.If(move):
            m.d.sync += self.o.valid.eq(flush)
            m.d.sync += self.o.p.beat.eq(Mux(flush, rest, joined[:width]))
            m.d.sync += self.o.p.last.eq(flush | ((total <= width) & self.i.p.last))
            with m.If(flush):
                m.d.sync += [flush.eq(0), rest.eq(0), fill.eq(0)]
            with m.If(self.i.valid):
                m.d.sync += [rest.eq(joined), fill.eq(total)]
                with m.If(flush):  # a word is less than a beat here: others need no flush
                    m.d.sync += flush.eq(self.i.p.last)
                with m.Elif(total >= width):
                    m.d.sync += self.o.valid.eq(1)
                    m.d.sync += [rest.eq(joined[width:]), fill.eq(total - width)]
                    m.d.sync += flush.eq(self.i.p.last & (total != width))
                with m.Elif(self.i.p.last):
                    m.d.sync += [self.o.valid.eq(1), rest.eq(0), fill.eq(0)]
        return m

    def _squeeze(self, m, word, bits):
        """Take the gaps out of a word."""
        pitch = max(self.element_bits)
        with m.Switch(self.cls):
            for cls, size in enumerate(self.element_bits):
                with m.Case(cls):
                    elements = (self.i.p.elements[n * pitch :][:size] for n in range(self.lanes))
                    m.d.comb += [word.eq(Cat(elements)), bits.eq(self.lanes * size)]
