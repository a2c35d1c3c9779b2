"""Pack elements of a few bits into beats, without gaps."""

from math import gcd

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.data_registers import data_output
from diastole_sim.spec.formats import PLANE_BITS
from diastole_sim.spec.require import require_int


def packed_layout(data_width: int, planes: int = 1) -> data.StructLayout:
    """Return the layout of a beat of packed elements, or of the beats of all ``planes`` side by
    side; ``last`` marks the last beat of a group."""
    return data.StructLayout({"beat": unsigned(planes * data_width), "last": 1})


class Packer(wiring.Component):
    """Pack elements of a class's width into beats, little-endian; a group begins a new beat.

    A beat is assembled in the output register. Bits of a word beyond the beat wait in a second
    register, unless the words of all classes fill beats without a rest.

    Timing: 1 word in per cycle while beats are accepted. A beat is output in the cycle after its
    last word comes. If the word also begins the group's last beat, the last beat is output 1 cycle
    later. ``o`` is registered; ``i.ready`` is combinational from ``o.ready``.

    Parameters
    ----------
    lanes : int
        Elements of an input word (1 to 16).
    element_bits : tuple of int
        Bits of an element by class, at most ``data_width / lanes``.
    data_width : int
        Bits of a beat (32 to 512).

    Members
    -------
    cls : In(2)
        Class; not checked. Must not change within a group.
    i : In(stream of {"elements": unsigned(lanes * max(element_bits)), "last": 1})
        An element has max(element_bits) bits; only the low bits, as many as the class has, count.
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

    @property
    def _word_bits(self) -> list[int]:
        """Bits of a word without gaps, by class."""
        return [self.lanes * bits for bits in self.element_bits]

    def elaborate(self, platform):
        m = Module()
        word = Signal(self.lanes * max(self.element_bits))
        bits = Signal(range(len(word) + 1))
        self._squeeze(m, word, bits)
        move = Signal()
        m.d.comb += [move.eq(self.o.ready | ~self.o.valid), self.i.ready.eq(move)]
        if any(self.data_width % bits for bits in self._word_bits):
            self._join(m, move, word, bits)
        else:
            self._fill(m, move, word)
        return m

    def _fill(self, m, move, word):
        """Write words to their places in the beat. Places are counted in units of the shortest
        word."""
        lengths = self._word_bits
        count = Signal(range(self.data_width // min(lengths)))  # units already in the beat
        packed = data_output(m, self.o.payload, "packed")
        accepted = Signal()
        ends = Signal()  # the word completes the beat
        m.d.comb += accepted.eq(self.i.valid & move)
        with m.If(move):
            m.d.sync += self.o.valid.eq(accepted & ends)
        with m.If(accepted):
            m.d.sync += packed.last.eq(self.i.p.last)
            with m.If(count == 0):
                m.d.sync += packed.beat.eq(0)
        with m.Switch(self.cls):
            for length in sorted(set(lengths)):
                places = self.data_width // length
                units = length // min(lengths)
                number = count >> exact_log2(units)
                classes = [cls for cls, bits in enumerate(lengths) if bits == length]
                with m.Case(*classes) if len(classes) < len(lengths) else m.Default():
                    m.d.comb += ends.eq(self.i.p.last | (number == places - 1))
                    with m.If(accepted):
                        m.d.sync += count.eq(Mux(ends, 0, count + units))
                        m.d.sync += packed.beat.word_select(number, length).eq(word)

    def _join(self, m, move, word, bits):
        """Append words to the beat in the output register. Bits beyond the beat begin the next
        beat, and wait while the beat is output."""
        width, unit = self.data_width, gcd(self.data_width, *self._word_bits)
        beat = self.o.p.beat
        over = Signal(len(word))  # bits in front of the next word while a beat is offered
        fill = Signal(range(width // unit))  # units in front of the next word
        flush = Signal()  # output `over`, the end of a group, while the next group begins
        begun = Signal(width)  # bits of the group in front of the word
        filled = Signal.like(fill)
        joined = Signal(width + len(word))
        total = Signal(range((width + len(word)) // unit + 1))
        with m.If(~flush):
            m.d.comb += [begun.eq(Mux(self.o.valid, over, beat)), filled.eq(fill)]
        m.d.comb += joined.eq(begun | (word << Cat(Const(0, exact_log2(unit)), filled)))
        m.d.comb += total.eq(filled + (bits >> exact_log2(unit)))
        with m.If(move):
            m.d.sync += self.o.valid.eq(flush)
            m.d.sync += beat.eq(Mux(flush, over, Mux(self.i.valid, joined[:width], begun)))
            m.d.sync += self.o.p.last.eq(flush | ((total <= width // unit) & self.i.p.last))
            with m.If(flush):
                m.d.sync += [flush.eq(0), over.eq(0), fill.eq(0)]
            with m.If(self.i.valid):
                m.d.sync += fill.eq(total)
                with m.If(flush):  # the word is shorter than a beat: longer words need no flush
                    m.d.sync += [over.eq(word), flush.eq(self.i.p.last)]
                with m.Elif(total >= width // unit):
                    m.d.sync += self.o.valid.eq(1)
                    m.d.sync += [over.eq(joined[width:]), fill.eq(total - width // unit)]
                    m.d.sync += flush.eq(self.i.p.last & (total != width // unit))
                with m.Elif(self.i.p.last):
                    m.d.sync += [self.o.valid.eq(1), over.eq(0), fill.eq(0)]

    def _squeeze(self, m, word, bits):
        """Remove the gaps between the elements of a word."""
        pitch = max(self.element_bits)
        with m.Switch(self.cls):
            for cls, size in enumerate(self.element_bits):
                with m.Case(cls):
                    elements = (self.i.p.elements[n * pitch :][:size] for n in range(self.lanes))
                    m.d.comb += [word.eq(Cat(elements)), bits.eq(self.lanes * size)]


class PlanePacker(wiring.Component):
    """Pack the planes of elements side by side, a plane as :class:`Packer` does.

    The magnitude of an element has ``PLANE_BITS`` bits for every plane, with the first plane on
    top, and the sign above. A plane has the sign too.

    Timing: as :class:`Packer`.

    Parameters
    ----------
    lanes, data_width : int
        As in :class:`Packer`.
    planes : int
        Number of planes, 1 to 4.

    Members
    -------
    i : In(stream of {"elements": unsigned(lanes * (PLANE_BITS * planes + 1)), "last": 1})
    o : Out(stream of packed_layout(data_width, planes))
        Plane 0 in the lowest bits.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, *, lanes: int, planes: int, data_width: int):
        require_int("planes", planes, 1, 4)
        self.lanes, self.planes, self.data_width = lanes, planes, data_width
        word = data.StructLayout({"elements": unsigned(lanes * self._pitch), "last": 1})
        super().__init__(
            {
                "i": In(stream.Signature(word)),
                "o": Out(stream.Signature(packed_layout(data_width, planes))),
            }
        )

    @property
    def _pitch(self) -> int:
        return PLANE_BITS * self.planes + 1

    def elaborate(self, platform):
        m = Module()
        keys = {"lanes": self.lanes, "data_width": self.data_width}
        packers = [Packer(element_bits=(PLANE_BITS + 1,), **keys) for _ in range(self.planes)]
        for plane, packer in enumerate(packers):
            m.submodules[f"plane{plane}"] = packer
            low = PLANE_BITS * (self.planes - 1 - plane)
            elements = [self.i.p.elements.word_select(n, self._pitch) for n in range(self.lanes)]
            m.d.comb += [
                packer.i.p.elements.eq(
                    Cat((each[low : low + PLANE_BITS], each[-1]) for each in elements)
                ),
                packer.i.p.last.eq(self.i.p.last),
                packer.i.valid.eq(self.i.valid),
                packer.o.ready.eq(self.o.ready),
            ]
        first = packers[0]  # all packers are in the same state
        m.d.comb += [
            self.i.ready.eq(first.i.ready),
            self.o.valid.eq(first.o.valid),
            self.o.p.last.eq(first.o.p.last),
            self.o.p.beat.eq(Cat(packer.o.p.beat for packer in packers)),
        ]
        return m
