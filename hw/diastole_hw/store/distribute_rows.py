"""Distribute rows of results to the ports to memory, alternately."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.services import request_layout, write_beat_layout
from diastole_hw.plan.plan import Plan
from diastole_hw.ports import any_port, of_ports, per_port, port_name
from diastole_hw.schedule.tokens import span_layout
from diastole_hw.store.emit_rows import EmitRows
from diastole_hw.stream.credit import Credit
from diastole_hw.stream.fifo import StreamFifo
from diastole_hw.successor import is_successor
from diastole_sim.spec.image import PITCH_BITS


class DistributeRows(wiring.Component):
    """Distribute the rows of spans to two ports: rows with even numbers to port 0, rows with odd
    numbers to port 1.

    A port receives a span for its rows, whose first row is the first or the second of the original
    span. Port 1 receives none of a span with a single row.

    Timing: 1 word per cycle. ``words_0`` and ``words_1`` are combinational from ``words``, and
    ``words.ready`` from their ready signals. A span is accepted when every port with rows of the
    span accepts its part; words of the span are accepted from the next cycle on. At most two spans
    wait.

    Parameters
    ----------
    plan : Plan
    vectors : int
        Vectors of a word.

    Members
    -------
    pitch : In(PITCH_BITS)
        Bytes from a row to the next.
    spans : In(stream of span_layout(plan))
    words : In(stream of ``vectors`` * B times unsigned(32))
        Rows of every span, one after another, in whole words.
    spans_0, spans_1 : Out(stream of span_layout(plan))
    words_0, words_1 : Out(streams like ``words``)
    begins : Out(2)
        Bit per port: the accepted word is the first word of a row of the port.
    """

    spans: stream.Interface
    words: stream.Interface

    def __init__(self, plan: Plan, *, vectors: int):
        self.plan, self.vectors = plan, vectors
        words = stream.Signature(data.ArrayLayout(unsigned(32), vectors * plan.block))
        spans = stream.Signature(span_layout(plan))
        outs = {f"spans_{port}": Out(spans) for port in range(2)}
        outs |= {f"words_{port}": Out(words) for port in range(2)}
        super().__init__(
            {
                "pitch": In(PITCH_BITS),
                "spans": In(spans),
                "words": In(words),
                "begins": Out(2),
            }
            | outs
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.counted = counted = StreamFifo(span_layout(self.plan), 2)
        self._spans(m, counted.i)
        self._words(m, counted.o)
        return m

    def _spans(self, m, counted):
        """Pass a span to both ports and to the counter of words, in one cycle."""
        span, even, odd = self.spans.p, self.spans_0, self.spans_1
        both_ports = Signal()
        space = Signal()
        m.d.comb += [
            both_ports.eq(span.repeat > 1),
            space.eq(counted.ready & even.ready & (~both_ports | odd.ready)),
            self.spans.ready.eq(space),
            counted.valid.eq(self.spans.valid & space),
            even.valid.eq(self.spans.valid & space),
            odd.valid.eq(self.spans.valid & space & both_ports),
        ]
        for port in (counted, even, odd):
            m.d.comb += port.payload.eq(self.spans.payload)
        m.d.comb += [
            even.p.repeat.eq((span.repeat + 1) >> 1),
            odd.p.repeat.eq(span.repeat >> 1),
            odd.p.addr.eq(span.addr + self.pitch),
        ]

    def _words(self, m, spans):
        """Pass every row whole to its port."""
        span, even, odd = spans.p, self.words_0, self.words_1
        row = Signal.like(span.repeat, name="row")
        vector = Signal.like(span.vectors, name="vector")
        moves = Signal()
        last_word = Signal()
        ends = Signal()
        is_odd = row[0]
        m.d.comb += [
            even.payload.eq(self.words.payload),
            odd.payload.eq(self.words.payload),
            even.valid.eq(self.words.valid & spans.valid & ~is_odd),
            odd.valid.eq(self.words.valid & spans.valid & is_odd),
            self.words.ready.eq(spans.valid & Mux(is_odd, odd.ready, even.ready)),
            moves.eq(self.words.valid & self.words.ready),
            last_word.eq(vector + self.vectors >= span.vectors),
            ends.eq(last_word & is_successor(span.repeat, row)),
            spans.ready.eq(moves & ends),
            self.begins.eq(Mux(moves & (vector == 0), Cat(~is_odd, is_odd), 0)),
        ]
        with m.If(moves):
            m.d.sync += vector.eq(vector + self.vectors)
            with m.If(last_word):
                m.d.sync += [vector.eq(0), row.eq(Mux(ends, 0, row + 1))]


class EmitPorts(wiring.Component):
    """Write rows of B-float vectors through two ports to memory, as
    :class:`diastole_hw.store.emit_rows.EmitRows` does through one port. A port writes every second
    row of a span.

    A row is requested when its first word has arrived. The port that requested then receives the
    rest of the row, whatever the second port does: words arrive in order, and the words of this row
    are next.

    Timing: as ``EmitRows`` for each port. A word waits in a queue and can leave from the next cycle
    on (1 cycle later if the queue is a memory). The queue holds half of the longest row, up to 128
    words: so 1 word per cycle may arrive where a port accepts a word in every second cycle.

    Parameters
    ----------
    plan : Plan
    vectors : int
        Vectors of a word, as in ``EmitRows``.

    Members
    -------
    pitch, spans, words
        Members as in ``EmitRows``.
    requests, requests_1 : Out(stream of request_layout())
    beats, beats_1 : Out(stream of write_beat_layout(plan.data_width))
        Beats of every request, in order.
    busy : Out(1)
        There is a span whose requests or vectors have not all passed.
    """

    spans: stream.Interface
    words: stream.Interface

    def __init__(self, plan: Plan, *, vectors: int):
        self.plan, self.vectors = plan, vectors
        floats = data.ArrayLayout(unsigned(32), vectors * plan.block)
        beats = stream.Signature(write_beat_layout(plan.data_width))
        super().__init__(
            {
                "pitch": In(PITCH_BITS),
                "spans": In(stream.Signature(span_layout(plan))),
                "words": In(stream.Signature(floats)),
                "busy": Out(1),
            }
            | per_port("requests", Out(stream.Signature(request_layout())), 2)
            | per_port("beats", Out(beats), 2)
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.distribute = distribute = DistributeRows(self.plan, vectors=self.vectors)
        wiring.connect(m, wiring.flipped(self.spans), distribute.spans)
        wiring.connect(m, wiring.flipped(self.words), distribute.words)
        m.d.comb += distribute.pitch.eq(self.pitch)
        busy = [self.spans.valid]
        for port in range(2):
            busy.append(self._port(m, distribute, port))
        m.d.comb += self.busy.eq(any_port(busy))
        return m

    def _port(self, m, distribute, port):
        """Add the queue and the writer for the rows of a port. Return whether the port has rows."""
        emit = EmitRows(self.plan, vectors=self.vectors, stride=2)
        most = self.plan.queued_words(self.vectors)
        queue = StreamFifo(self.words.payload.shape(), most)
        begun = Credit(most=most)  # rows whose first word arrived, not yet requested
        for name, unit in {"emit": emit, "queue": queue, "begun": begun}.items():
            m.submodules[port_name(name, port)] = unit
        requests, beats = (of_ports(self, name, 2)[port] for name in ("requests", "beats"))
        wiring.connect(m, getattr(distribute, f"spans_{port}"), emit.spans)
        wiring.connect(m, getattr(distribute, f"words_{port}"), queue.i)
        wiring.connect(m, queue.o, emit.words)
        wiring.connect(m, wiring.flipped(beats), emit.beats)
        m.d.comb += [
            emit.pitch.eq(self.pitch),
            begun.take.eq(distribute.begins[port]),
            begun.give.eq(requests.valid & requests.ready),
            requests.payload.eq(emit.requests.payload),
            requests.valid.eq(emit.requests.valid & ~begun.empty),
            emit.requests.ready.eq(requests.ready & ~begun.empty),
        ]
        m.d.sync += Assert(~begun.take | ~begun.full, "more rows begun than words wait")
        return emit.busy
