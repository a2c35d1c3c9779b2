"""Pack bytes side by side into beats."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.convert.image.pack import packed_layout
from diastole_hw.data_registers import data_register
from diastole_sim.spec.image import DATA_WIDTHS
from diastole_sim.spec.require import require_choice, require_int


class PackBytes(wiring.Component):
    """Pack bytes into beats, the first byte lowest; a group begins a new beat.

    Timing: 1 byte in per cycle while beats are accepted. A beat is output in the cycle after its
    last byte comes. ``o`` is registered; ``i.ready`` is combinational from ``o.ready``.

    Parameters
    ----------
    data_width : int
        Bits of a beat.
    most : int
        Most bytes of a group, if fewer than the bytes of a beat; at least 1.

    Members
    -------
    i : In(stream of {"byte": unsigned(8), "last": 1})
        ``last``: the byte is the last of its group.
    o : Out(stream of :func:`diastole_hw.convert.image.pack.packed_layout`)
        Zeros after the last byte of a group.

    ValueError for a width that no bus has, and if ``most`` is out of range.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, *, data_width: int, most: int | None = None):
        self.data_width = require_choice("data_width", data_width, DATA_WIDTHS)
        beat = data_width // 8
        self.most = beat if most is None else min(require_int("most", most, 1, 2**16), beat)
        byte = data.StructLayout({"byte": unsigned(8), "last": 1})
        super().__init__(
            {
                "i": In(stream.Signature(byte)),
                "o": Out(stream.Signature(packed_layout(data_width))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        size = self.data_width // 8
        count = Signal(range(self.most))  # bytes already in the beat
        packed = data_register(packed_layout(8 * self.most), name="packed")
        accepted = Signal()
        ends = Signal()
        m.d.comb += [
            self.o.p.beat.eq(packed.beat),
            self.o.p.last.eq(packed.last),
            self.i.ready.eq(~self.o.valid | self.o.ready),
            accepted.eq(self.i.valid & self.i.ready),
            ends.eq(self.i.p.last | (count == size - 1)),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(accepted):
            m.d.sync += [
                self.o.valid.eq(ends),
                packed.last.eq(self.i.p.last),
                count.eq(Mux(ends, 0, count + 1)),
            ]
            with m.If(count == 0):
                m.d.sync += packed.beat.eq(self.i.p.byte)
            with m.Else():
                m.d.sync += packed.beat.word_select(count, 8).eq(self.i.p.byte)
        return m
