"""From bus beats to vectors of a fixed number of bits: the gearbox in front of the scratchpads."""

from amaranth.hdl import Array, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_sim.spec.check import require_int


def run_layout(beats: int, vectors: int):
    """A run: its beats (at least what its vectors need), its vectors (at least one), the index of
    their width, a mark handed through."""
    return data.StructLayout(
        {
            "beats": range(beats + 1),
            "vectors": range(vectors + 1),
            "kind": unsigned(2),
            "mark": unsigned(1),
        }
    )


class Unpack(wiring.Component):
    """Cut a run of beats into vectors, lowest bits first; bits left over at its end are dropped.

    Timing: a run is taken in 1 cycle; from the next one on a beat per cycle, and a vector in each
    cycle after one in which its last bit came. A beat is taken while no more than the widest
    vector's bits are left when it comes: ``i.ready`` is combinational from ``o.ready``, ``o`` is a
    function of registers. Beats that hold nothing but padding follow the last vector, one per
    cycle; then the next run can be taken.

    Parameters
    ----------
    beat : int
        Bits of one (8 to 1024).
    vectors : tuple of int
        Bits of a vector by kind, 1 to 4 kinds.
    max_beats, max_vectors : int
        Of a run.

    Members
    -------
    run : In(stream of run_layout(max_beats, max_vectors))
    i : In(stream of unsigned(beat))
    o : Out(stream of {"bits": unsigned(max(vectors)), "kind": unsigned(2), "mark": unsigned(1)})
        Bits of a shorter vector stand lowest; those above it are anything.

    ValueError if ``beat`` or the number of kinds is out of range.
    """

    run: stream.Interface
    i: stream.Interface
    o: stream.Interface

    def __init__(self, *, beat: int, vectors: tuple[int, ...], max_beats: int, max_vectors: int):
        require_int("beat", beat, 8, 1024)
        require_int("len(vectors)", len(vectors), 1, 4)
        self.beat, self.vectors = beat, vectors
        self.max_beats, self.max_vectors = max_beats, max_vectors
        out = data.StructLayout(
            {"bits": unsigned(max(vectors)), "kind": unsigned(2), "mark": unsigned(1)}
        )
        super().__init__(
            {
                "run": In(stream.Signature(run_layout(max_beats, max_vectors))),
                "i": In(stream.Signature(unsigned(beat))),
                "o": Out(stream.Signature(out)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        widest = max(self.vectors)
        held = Signal(widest + self.beat)
        count = Signal(range(widest + self.beat + 1))
        beats = Signal(range(self.max_beats + 1))
        vectors = Signal(range(self.max_vectors + 1))
        kind = Signal(2)
        mark = Signal()
        width = Signal(range(widest + 1))
        padded = list(self.vectors) + [self.vectors[-1]] * (4 - len(self.vectors))
        m.d.comb += width.eq(Array(padded)[kind])

        with m.If(vectors == 0):
            m.d.comb += self.run.ready.eq(beats == 0)
            m.d.sync += [count.eq(0), held.eq(0)]
            with m.If(beats != 0):  # padding beats at the end of a run
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    m.d.sync += beats.eq(beats - 1)
            with m.Elif(self.run.valid):
                m.d.sync += [
                    beats.eq(self.run.p.beats),
                    vectors.eq(self.run.p.vectors),
                    kind.eq(self.run.p.kind),
                    mark.eq(self.run.p.mark),
                ]
        with m.Else():
            out = Signal()
            left = Signal.like(count)
            taken = Signal(widest + self.beat)
            m.d.comb += [
                self.o.valid.eq(count >= width),
                self.o.p.bits.eq(held),
                self.o.p.kind.eq(kind),
                self.o.p.mark.eq(mark),
                out.eq(self.o.valid & self.o.ready),
                left.eq(Mux(out, count - width, count)),
                taken.eq(Mux(out, self._shifted(held, kind), held)),
                self.i.ready.eq((beats != 0) & (left <= widest)),
            ]
            m.d.sync += [held.eq(taken), count.eq(left), vectors.eq(vectors - out)]
            with m.If(self.i.valid & self.i.ready):
                m.d.sync += [
                    held.eq(taken | (self.i.payload << left)),
                    count.eq(left + self.beat),
                    beats.eq(beats - 1),
                ]
        return m

    def _shifted(self, held, kind):
        """``held`` without its lowest vector, zeros entering on top."""
        shifted = held >> self.vectors[0]
        for index, width in enumerate(self.vectors[1:], 1):
            shifted = Mux(kind == index, held >> width, shifted)
        return shifted
