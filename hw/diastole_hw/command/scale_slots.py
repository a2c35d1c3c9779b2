"""Keep the magnitudes of a tensor over several steps, in a scale slot of the vector unit."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_hw.vector.stream_layouts import WORD, VectorShape
from diastole_sim.spec.limits import SCALE_SLOTS, SlotWord

MAGNITUDE_BITS = WORD - 1


class ScaleSlots(wiring.Component):
    """Read the magnitudes of earlier steps from a scale slot, and note the magnitude of a
    conversion in the slot, as :meth:`diastole_sim.golden.tables.Tables.magnitudes_before` and
    ``note_magnitude`` do.

    The words of a slot are read one after another. If step of conversion and step of slot differ,
    each word moves on by one place while the next word is read.

    Timing: ``done`` is 1 + ``shape.slot_words`` cycles after ``start``. ``largest`` is valid from
    the cycle after ``done`` until the next ``start``, which must be after ``note``.

    Parameters
    ----------
    shape : VectorShape
        Sizes of the vector unit of a machine with tensor scales.

    Members
    -------
    start : In(1)
        Pulse: a conversion begins.
    slot, step : In(range(255)), In(32)
        Slot and step of the conversion; must stay stable from ``start`` to ``note``.
    done : Out(1)
        Pulse.
    largest : Out(31)
        Largest magnitude of the earlier steps, as binary32 without a sign; 0 if there is none.
    note, amax : In(1), In(31)
        Pulse at the end of the conversion, and the largest magnitude of its tensor.
    read_en, read_at, word : Out(1), Out(range(shape.slot_entries)), In(32)
        Read port of the table ``AMAX``; a word arrives 1 cycle after its address.
    put_en, put_at, put : Out(1), Out(range(shape.slot_entries)), Out(32)
        Write port of the table.
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
        behind = Signal.like(self.read_at, name="behind")  # address of the current word
        count, busy = Signal(range(words + 1)), Signal()  # number of requested words
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

        before = data_register(WORD, name="before")  # the word that moves to the next place
        now = data_register(MAGNITUDE_BITS, name="now")  # largest magnitude of this step yet
        other = data_register(name="other")  # conversion and slot are of different steps
        moved = Signal(WORD)
        m.d.comb += [self.put_at.eq(behind), moved.eq(Mux(other, before, self.word))]
        with m.If(self.start):
            m.d.sync += self.largest.eq(0)
        with m.Elif(busy):
            with m.Switch(count):
                # No word has arrived.
                with m.Case(0):
                    pass
                # The magnitude of the slot's latest step arrives.
                with m.Case(SlotWord.LARGEST + 1):
                    m.d.sync += [before.eq(self.word), now.eq(self.word)]
                # The latest step of the slot arrives.
                with m.Case(SlotWord.STEP + 1):
                    m.d.comb += [
                        self.put_en.eq(self.word != self.step),
                        self.put.eq(self.step),
                    ]
                    m.d.sync += other.eq(self.put_en)
                    with m.If(self.put_en):
                        m.d.sync += now.eq(0)
                # A magnitude of an earlier step arrives.
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
