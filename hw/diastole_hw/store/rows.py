"""Rows of floats on their way out: one write request per row, and its words packed into beats."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.bus.services import request_layout, write_beat_layout
from diastole_hw.place import place
from diastole_hw.plan.plan import MAX_ELEMENT_BITS, Plan
from diastole_hw.registers import data_register
from diastole_hw.schedule.tokens import span_layout
from diastole_hw.stream.fifo import StreamFifo
from diastole_sim.spec.check import require_choice
from diastole_sim.spec.command_table import ADDRESS_BITS

FLOAT_BYTES = 4


def _part(spans: stream.Interface, *names: str) -> data.StructLayout:
    """Some members of a span."""
    return data.StructLayout({name: spans.p[name].shape() for name in names})


class EmitRows(wiring.Component):
    """Write rows of B-float vectors, which come in words of several. Floats beyond a row's end are
    zeros, or not written at all.

    Where a vector is shorter than a beat (32 B < D), a row may start inside a beat; only bytes of
    its own vectors are enabled. Otherwise a row starts on a beat and its last beat is filled up.
    Where there are two ports to memory, a word may have two beats; a row starts on a beat then.
    Requests run ahead of the beats, which come in the same order; neither waits for the other.

    Timing: one beat per cycle, or one word per cycle where that is slower; one idle cycle per span.
    One request per cycle. Requests are combinational from registers; ``beats`` are so from
    ``words``, and ``words.ready`` from ``beats.ready``. Two spans wait at most.

    Parameters
    ----------
    plan : Plan
        B and D.
    vectors : int
        Of a word: 1, or a power of two of which the ports together have as many in a beat.
    stride : int
        Rows from one that is written to the next: 1, or 2 where another port writes those between.

    Members
    -------
    pitch : In(MAX_ELEMENT_BITS + 3)
        Bytes from one row of the result to the next, whole beats. Stable while ``busy``.
    spans : In(stream of span_layout(plan))
        At least one float, vector and row. A row of several words begins in a beat where a word
        may, at a multiple of ``vectors`` * B floats; one of a single word ends in its beat.
    words : In(stream of ``vectors`` * B times unsigned(32))
        Of every span its rows, one after the other: words of ``vectors`` of its vectors, and in the
        last one what is left, lowest.
    requests : Out(stream of request_layout())
        ``repeat`` of each span.
    beats : Out(stream of write_beat_layout(plan.data_width))
    busy : Out(1)
        A span is here whose requests or vectors are not all through.

    None of what is asked for is checked, but ValueError for words that beats have no room for.
    """

    spans: stream.Interface
    words: stream.Interface
    requests: stream.Interface
    beats: stream.Interface

    def __init__(self, plan: Plan, *, vectors: int = 1, stride: int = 1):
        most = plan.ports * plan.data_width
        fits = [1 << k for k in range(6) if 32 * plan.block << k <= most]
        require_choice("vectors", vectors, tuple(sorted({1, *fits})))
        require_choice("stride", stride, (1, 2))
        self.plan, self.vectors, self.stride = plan, vectors, stride
        floats = data.ArrayLayout(unsigned(32), vectors * plan.block)
        super().__init__(
            {
                "pitch": In(MAX_ELEMENT_BITS + 3),
                "spans": In(stream.Signature(span_layout(plan))),
                "words": In(stream.Signature(floats)),
                "requests": Out(stream.Signature(request_layout())),
                "beats": Out(stream.Signature(write_beat_layout(plan.data_width))),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        asks = StreamFifo(_part(self.spans, "addr", "cols", "repeat"), 2)
        packs = StreamFifo(self._packed_layout, 2)
        m.submodules.asks = place(asks, platform)
        m.submodules.packs = place(packs, platform)
        m.d.comb += [
            self.spans.ready.eq(asks.i.ready & packs.i.ready),
            *(asks.i.p[name].eq(self.spans.p[name]) for name in asks.i.p.shape().members),
            *(packs.i.p[name].eq(self.spans.p[name]) for name in packs.i.p.shape().members),
            asks.i.valid.eq(self.spans.valid & packs.i.ready),
            packs.i.valid.eq(self.spans.valid & asks.i.ready),
            self.busy.eq(self.spans.valid | asks.o.valid | packs.o.valid),
        ]
        self._ask(m, asks.o)
        self._rows(m, packs.o)
        return m

    @property
    def _packed_layout(self) -> data.StructLayout:
        """What is asked of a span while its words come: of its address where it begins in a beat,
        if that may be anywhere."""
        sizes = _part(self.spans, "cols", "vectors", "repeat")
        beat = self.plan.data_width
        joins = 32 * self.plan.block < beat >= 32 * self.vectors * self.plan.block
        return data.StructLayout(
            sizes.members | ({"addr": unsigned(exact_log2(self.plan.beat_bytes))} if joins else {})
        )

    def _ask(self, m, spans):
        """A request for every row that is written; the span leaves with its last one."""
        plan, span = self.plan, spans.p
        row = Signal.like(span.repeat, name="ask_row")
        ahead = Signal(ADDRESS_BITS)  # of the row, from the span's first
        addr = Signal(ADDRESS_BITS)
        step = self.pitch if self.stride == 1 else self.pitch << 1
        beat_mask = plan.beat_bytes - 1
        shift = plan.beat_bytes.bit_length() - 1
        first = addr & beat_mask
        m.d.comb += [
            addr.eq(span.addr + ahead),
            self.requests.p.addr.eq(addr & ~beat_mask),
            self.requests.p.beats.eq((first + span.cols * FLOAT_BYTES + beat_mask) >> shift),
            self.requests.valid.eq(spans.valid),
            spans.ready.eq(self.requests.ready & (row == span.repeat - 1)),
        ]
        with m.If(self.requests.valid & self.requests.ready):
            m.d.sync += [row.eq(row + 1), ahead.eq(ahead + step)]
            with m.If(spans.ready):
                m.d.sync += [row.eq(0), ahead.eq(0)]

    def _rows(self, m, spans):
        """Words to beats."""
        plan, lanes = self.plan, self.vectors * self.plan.block
        span = data_register(self._packed_layout)
        row = Signal.like(span.repeat, name="row")
        vector = Signal.like(span.vectors, name="vector")  # of the row, the word's first
        left = Signal.like(span.cols, name="left")  # floats of the row that are still to come
        masked = Signal(32 * lanes)
        floats = [Mux(lane < left, self.words.payload[lane], 0) for lane in range(lanes)]
        taken = Signal()  # the word leaves
        last_word = Signal()
        ends = Signal()
        m.d.comb += [
            masked.eq(Cat(*floats)),
            last_word.eq(vector + self.vectors >= span.vectors),
            self.words.ready.eq(taken),
            spans.ready.eq(taken & ends),
        ]
        with m.FSM():
            with m.State("SPAN"):
                m.d.sync += [span.eq(spans.payload), row.eq(0), vector.eq(0), left.eq(spans.p.cols)]
                with m.If(spans.valid):
                    m.next = "ROWS"
            with m.State("ROWS"):
                m.d.comb += ends.eq(last_word & (row == span.repeat - 1))
                here = [(span.vectors - vector > k) for k in range(1, self.vectors)]
                present = Cat(Const(1, 1), *here)
                if 32 * plan.block >= plan.data_width:
                    self._split(m, masked, left, taken)
                elif 32 * lanes > plan.data_width:
                    self._split(m, masked, left, taken, present)
                else:
                    self._join(m, span, masked, present, last_word, taken)
                with m.If(taken):
                    m.d.sync += [vector.eq(vector + self.vectors), left.eq(left - lanes)]
                    with m.If(last_word):
                        m.d.sync += [vector.eq(0), row.eq(row + 1), left.eq(span.cols)]
                    with m.If(ends):
                        m.next = "SPAN"

    def _split(self, m, masked, left, taken, here=None):
        """A word is one or more beats; those without a float of the row are left out. ``here``:
        which of the word's vectors the row has, where a beat has several."""
        plan, beat = self.plan, self.beats.p
        parts = len(masked) // plan.data_width
        floats = plan.data_width // 32
        part = Signal(range(max(parts, 2)))
        last = Signal()
        m.d.comb += [
            last.eq((part == parts - 1) | (left <= (part + 1) * floats)),
            beat.data.eq(masked.word_select(part, plan.data_width)),
            beat.strb.eq(~0 if here is None else self._strobes(here, part)),
            self.beats.valid.eq(self.words.valid),
            taken.eq(self.words.valid & self.beats.ready & last),
        ]
        with m.If(self.beats.valid & self.beats.ready):
            m.d.sync += part.eq(Mux(last, 0, part + 1))

    def _strobes(self, here, part):
        """Of the vectors that the row has."""
        bytes_ = FLOAT_BYTES * self.plan.block
        return Cat(bit.replicate(bytes_) for bit in here).word_select(part, self.plan.beat_bytes)

    def _join(self, m, span, masked, here, last_word, taken):
        """Several vectors make a beat; the first of a row stands where its address says. ``here``:
        which of the word's vectors the row has."""
        plan, beat = self.plan, self.beats.p
        parts = plan.data_width // (32 * plan.block)
        bytes_ = FLOAT_BYTES * plan.block
        part = Signal(range(parts))  # of the beat, where the word begins
        offset = Signal(range(parts))
        slots = Cat(bit.replicate(bytes_) for bit in here)
        held = Signal(plan.data_width)
        strobes = Signal(plan.beat_bytes)
        filled = Signal.like(held, name="filled")
        enabled = Signal.like(strobes, name="enabled")
        whole = Signal()
        m.d.comb += [
            part.eq((span.addr >> (bytes_.bit_length() - 1)) + offset),
            filled.eq(held | (masked << (part * (8 * bytes_)))),
            enabled.eq(strobes | (slots << (part * bytes_))),
            whole.eq((part == parts - self.vectors) | last_word),
            beat.data.eq(filled),
            beat.strb.eq(enabled),
            self.beats.valid.eq(self.words.valid & whole),
            taken.eq(self.words.valid & (~whole | self.beats.ready)),
        ]
        with m.If(taken):
            m.d.sync += [offset.eq(offset + self.vectors), held.eq(filled), strobes.eq(enabled)]
            with m.If(whole):
                m.d.sync += [held.eq(0), strobes.eq(0)]
            with m.If(last_word):
                m.d.sync += offset.eq(0)
