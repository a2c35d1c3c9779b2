"""The magnitudes that the vector unit keeps of a tensor over steps, in a scale slot."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_hw.vector.stream_layouts import WORD, VectorShape
from diastole_sim.spec.limits import SCALE_SLOTS, SlotWord

MAGNITUDE_BITS = WORD - 1


class ScaleSlots(wiring.Component):
    """Read the magnitudes of steps before from a scale slot, and note the magnitude of a conversion
    there, as :meth:`diastole_sim.golden.tables.Tables.magnitudes_before` and ``note_magnitude`` do.

    A slot's words are read one after the other. Where the conversion is of another step than the
    slot, each word moves one place on as the next one is read.

    Timing: ``done`` comes 1 + ``shape.slot_words`` cycles after ``start``; ``largest`` is there
    from the cycle after ``done`` until the next ``start``, which comes after ``note``.

    Parameters
    ----------
    shape : VectorShape
        Of a machine with tensor scales.

    Members
    -------
    start : In(1)
        A pulse: a conversion begins.
    slot, step : In(range(255)), In(32)
        Of the conversion; they must hold from ``start`` to ``note``.
    done : Out(1)
        A pulse.
    largest : Out(31)
        The largest magnitude of the steps before, as binary32 without a sign; 0: there is none.
    note, amax : In(1), In(31)
        A pulse: the conversion ends; the largest magnitude of its tensor.
    read_en, read_at, word : Out(1), Out(range(shape.slot_entries)), In(32)
        Of the table ``AMAX``; a word comes one cycle later.
    put_en, put_at, put : Out(1), Out(range(shape.slot_entries)), Out(32)
    """

    def __init__(self, shape: VectorShape):
        self.shape = shape
        at = Out(range(shape.slot_entries))
        super().__init__(
            {
                "start": In(1),
                "slot": In(range(SCALE_SLOTS)),
                "step": In(WORD),
                "done": Out(1),
                "largest": Out(MAGNITUDE_BITS),
                "note": In(1),
                "amax": In(MAGNITUDE_BITS),
                "read_en": Out(1),
                "read_at": at,
                "word": In(WORD),
                "put_en": Out(1),
                "put_at": at,
                "put": Out(WORD),
            }
        )

    def elaborate(self, platform):
        m = Module()
        words = self.shape.slot_words
        first = Signal.like(self.read_at, name="first")
        behind = Signal.like(self.read_at, name="behind")  # where the word at hand is
        count, busy = Signal(range(words + 1)), Signal()  # words that were asked for
        m.d.comb += [
            self.read_en.eq(busy & (count != words)),
            self.read_at.eq(first + count),
            self.done.eq(busy & (count == words)),
        ]
        m.d.sync += [busy.eq(self.start | (busy & ~self.done)), behind.eq(self.read_at)]
        with m.If(self.start):
            m.d.sync += [first.eq(self.slot * words), count.eq(0)]
        with m.Elif(busy):
            m.d.sync += count.eq(count + 1)
        m.d.sync += Assert(~busy | ~(self.start | self.note), "a slot is used while it is read")

        before = data_register(WORD, name="before")  # the word that takes the next one's place
        now = data_register(MAGNITUDE_BITS, name="now")  # the largest of this step so far
        other = data_register(name="other")  # the conversion is of another step than the slot
        moved = Signal(WORD)
        m.d.comb += [self.put_at.eq(behind), moved.eq(Mux(other, before, self.word))]
        with m.If(self.start):
            m.d.sync += self.largest.eq(0)
        with m.Elif(busy):
            with m.Switch(count):
                with m.Case(0):
                    pass
                with m.Case(SlotWord.LARGEST + 1):
                    m.d.sync += [before.eq(self.word), now.eq(self.word)]
                with m.Case(SlotWord.STEP + 1):
                    m.d.comb += [
                        self.put_en.eq(self.word != self.step),
                        self.put.eq(self.step),
                    ]
                    m.d.sync += other.eq(self.put_en)
                    with m.If(self.put_en):
                        m.d.sync += now.eq(0)
                with m.Default():
                    m.d.comb += [self.put_en.eq(other), self.put.eq(before)]
                    m.d.sync += before.eq(self.word)
                    with m.If(moved[:MAGNITUDE_BITS] > self.largest):
                        m.d.sync += self.largest.eq(moved)
        with m.If(self.note):
            m.d.comb += [
                self.put_en.eq(1),
                self.put_at.eq(first + SlotWord.LARGEST),
                self.put.eq(Mux(self.amax > now, self.amax, now)),
            ]
        return m
