"""Write rows of floats to memory: issue one write request per row, and pack words into beats."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.bus.services import request_layout, write_beat_layout
from diastole_hw.data_registers import data_register
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.tokens import span_layout
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.image import PITCH_BITS
from diastole_sim.spec.require import require_choice

FLOAT_BYTES = 4


class EmitRows(wiring.Component):
    """Write rows of B-float vectors, which arrive in words of one or several vectors. Floats beyond
    the end of a row are written as zeros, or not written at all.

    Where a vector is shorter than a beat (32 B < D), a row may start inside a beat; only bytes of
    its own vectors are enabled. Otherwise a row starts on a beat and its last beat is filled up.
    With two ports to memory, a word may have two beats; a row starts on a beat then. Requests run
    ahead of the beats, in equal order; neither stream waits for the other.

    Timing: 1 beat per cycle, or 1 word per cycle if words are slower; 1 idle cycle per span. 1
    request per cycle. Requests are combinational from registers; ``beats`` are combinational from
    ``words``, and ``words.ready`` from ``beats.ready``. At most one span waits; its requests may
    run ahead of the beats of the preceding span.

    Parameters
    ----------
    plan : Plan
        Plan with B and D.
    vectors : int
        Vectors of a word: 1, or a power of two for which a word fits in one beat of all ports
        together.
    stride : int
        Distance of the written rows: 1, or 2 where another port writes the rows between.
    transposes : bool
        Whether ``transposed`` and ``pieces`` exist; only where words have several beats.

    Members
    -------
    pitch : In(PITCH_BITS)
        Bytes from a row of the result to the next, whole beats. Stable while ``busy``.
    spans : In(stream of span_layout(plan))
        At least one float, vector and row. A row of several words begins in a beat where a word
        may, at a multiple of ``vectors`` * B floats; a row of a single word ends in its beat.
    words : In(stream of ``vectors`` * B times unsigned(32))
        Rows of every span, one after another, in words of ``vectors`` vectors. The last word has
        the remaining vectors, lowest.
    transposed : In(1)
        Floats are read from ``pieces`` instead. Stable while ``busy``.
    pieces : In(stream of D / 32 times unsigned(32))
        Rows of every span, one after another, in beats; beats without a float are left out.
    requests : Out(stream of request_layout())
        ``repeat`` requests per span.
    beats : Out(stream of write_beat_layout(plan.data_width))
    busy : Out(1)
        There is a span whose requests or vectors have not all passed.

    Requirements on members are not checked. ValueError for words that do not fit in the beats.
    """

    spans: stream.Interface
    words: stream.Interface
    requests: stream.Interface
    beats: stream.Interface
    transposed: Signal
    pieces: stream.Interface

    def __init__(self, plan: Plan, *, vectors: int = 1, stride: int = 1, transposes: bool = False):
        most = plan.ports * plan.data_width
        fits = [1 << k for k in range(6) if 32 * plan.block << k <= most]
        require_choice("vectors", vectors, tuple(sorted({1, *fits})))
        require_choice("stride", stride, (1, 2))
        self.plan, self.vectors, self.stride, self.transposes = plan, vectors, stride, transposes
        floats = data.ArrayLayout(unsigned(32), vectors * plan.block)
        self.splits = 32 * plan.block >= plan.data_width or 32 * floats.length > plan.data_width
        beat = data.ArrayLayout(unsigned(32), plan.data_width // 32)
        transposed = {"transposed": In(1), "pieces": In(stream.Signature(beat))}
        super().__init__(
            {
                "pitch": In(PITCH_BITS),
                "spans": In(stream.Signature(span_layout(plan))),
                "words": In(stream.Signature(floats)),
                "requests": Out(stream.Signature(request_layout())),
                "beats": Out(stream.Signature(write_beat_layout(plan.data_width))),
                "busy": Out(1),
            }
            | (transposed if transposes else {})
        )

    @property
    def _granule(self) -> int:
        """Number of lowest address bits that are zero: rows begin with a beat, or with a vector."""
        return exact_log2(self.plan.beat_bytes if self.splits else FLOAT_BYTES * self.plan.block)

    def _register(self, name: str, member: str):
        """Return a register for a number of a span."""
        return data_register(self.spans.p[member].shape(), name=name)

    def elaborate(self, platform):
        m = Module()
        waits = {"unrequested": Signal(name="unrequested"), "unpacked": Signal(name="unpacked")}
        addr = data_register(ADDRESS_BITS - self._granule, name="waiting_addr")
        cols, repeat = (self._register(f"waiting_{name}", name) for name in ("cols", "repeat"))
        free = ~Cat(waits.values()).any()
        requesting = self._request(m, waits["unrequested"], addr, cols, repeat)
        packs = self._pack(m, waits["unpacked"], addr, cols, repeat)
        m.d.comb += [
            self.spans.ready.eq(free),
            self.busy.eq(self.spans.valid | ~free | requesting | packs),
        ]
        with m.If(self.spans.valid & free):
            m.d.sync += [wait.eq(1) for wait in waits.values()]
        with m.If(free):
            m.d.sync += [
                addr.eq(self.spans.p.addr >> self._granule),
                cols.eq(self.spans.p.cols),
                repeat.eq(self.spans.p.repeat),
            ]
        return m

    def _request(self, m, waits, waiting, cols, repeat):
        """Issue a request for every row to write. The waiting span is accepted with the last
        request of the current span. Return whether there is a current span."""
        plan, request = self.plan, self.requests.p
        requesting = Signal()
        addr = data_register(waiting.shape(), name="addr")
        beats = data_register(
            range((FLOAT_BYTES << len(cols)) // plan.beat_bytes + 2), name="requested"
        )
        rows = self._register("rows_to_request", "repeat")
        last = Signal(name="last_request")
        in_beat = exact_log2(plan.beat_bytes) - self._granule
        step = self.pitch if self.stride == 1 else self.pitch << 1
        from_beat = Cat(Const(0, self._granule), waiting[:in_beat]) + cols * FLOAT_BYTES
        m.d.comb += [
            last.eq(rows == 1),
            request.addr.eq(Cat(Const(0, self._granule + in_beat), addr[in_beat:])),
            request.beats.eq(beats),
            self.requests.valid.eq(requesting),
        ]
        with m.If(requesting & self.requests.ready):
            m.d.sync += [addr.eq(addr + (step >> self._granule)), rows.eq(rows - 1)]
            m.d.sync += requesting.eq(~last)
        with m.If(waits & (~requesting | (last & self.requests.ready))):
            m.d.sync += [waits.eq(0), requesting.eq(1), addr.eq(waiting), rows.eq(repeat)]
            m.d.sync += beats.eq((from_beat + plan.beat_bytes - 1) >> exact_log2(plan.beat_bytes))
        return requesting

    def _pack(self, m, waits, addr, waiting, repeat):
        """Pack words into beats. The waiting span is accepted when there is no current span. Return
        whether there is a current span."""
        packs = Signal()
        cols, left, rows = (
            self._register(name, member)
            for name, member in {"cols": "cols", "left": "cols", "rows": "repeat"}.items()
        )
        moves = Signal()  # the floats of a beat, or of a word, pass
        unit = self.plan.data_width // 32 if self.splits else self.vectors * self.plan.block
        # Whether the row ends with this beat, and which of its floats belong to the row. Both are
        # computed a cycle ahead, because many gates depend on them.
        row_ends = data_register(name="row_ends")
        owned = data_register(unit, name="owned")
        size = exact_log2(unit)
        with m.If(moves):
            m.d.sync += [left.eq(left - unit), row_ends.eq(left <= 2 * unit)]
            m.d.sync += owned.eq(self._first(unit, left, all_if=left[size + 1 :].any()))
            with m.If(row_ends):
                m.d.sync += [left.eq(cols), row_ends.eq(cols <= unit)]
                m.d.sync += owned.eq(self._first(unit, cols, all_if=cols[size:].any()))
                m.d.sync += [rows.eq(rows - 1), packs.eq(rows != 1)]
        with m.If(waits & ~packs):
            m.d.sync += [waits.eq(0), packs.eq(1), row_ends.eq(waiting <= unit)]
            m.d.sync += owned.eq(self._first(unit, waiting, all_if=waiting[size:].any()))
            m.d.sync += [cols.eq(waiting), left.eq(waiting), rows.eq(repeat)]
        if self.splits:
            self._split(m, packs, owned, row_ends, moves)
        else:
            self._join(m, packs, addr, waits & ~packs, owned, row_ends, moves)
        return packs

    @staticmethod
    def _first(unit, count, *, all_if):
        """Return ones for the first floats of a unit: for the rest of ``count`` beyond whole units,
        or for all."""
        some = ~(Const((1 << unit) - 1, unit) << count[: exact_log2(unit)])[:unit]
        return some | all_if.replicate(unit)

    @staticmethod
    def _masked(floats, owned):
        """Return the floats with zeros beyond the end of the row."""
        return Cat(Mux(owns, value, 0) for owns, value in zip(owned, floats, strict=True))

    def _slots(self, owned, count):
        """Return the byte strobes of the first ``count`` vectors, set for vectors that the row
        has."""
        block = self.plan.block
        return Cat(owned[k * block].replicate(FLOAT_BYTES * block) for k in range(count))

    def _split(self, m, packs, owned, row_ends, moves):
        """Split a word into one or more beats. Beats without a float of the row are left out."""
        plan, beat = self.plan, self.beats.p
        floats = plan.data_width // 32
        parts = self.vectors * plan.block // floats
        part = Signal(range(max(parts, 2)))
        word_ends = Signal()
        source = [self.words.payload[n::floats][part] for n in range(floats)]
        valid, ready = self.words.valid, word_ends
        if self.transposes:
            source = [
                Mux(self.transposed, self.pieces.payload[n], source[n]) for n in range(floats)
            ]
            valid = Mux(self.transposed, self.pieces.valid, valid)
            ready = word_ends & ~self.transposed
            m.d.comb += self.pieces.ready.eq(moves & self.transposed)
        m.d.comb += [
            word_ends.eq((part == parts - 1) | row_ends),
            beat.data.eq(self._masked(source, owned)),
            beat.strb.eq(self._slots(owned, floats // plan.block) if floats > plan.block else ~0),
            self.beats.valid.eq(packs & valid),
            moves.eq(self.beats.valid & self.beats.ready),
            self.words.ready.eq(moves & ready),
        ]
        with m.If(moves):
            m.d.sync += part.eq(Mux(word_ends, 0, part + 1))

    def _join(self, m, packs, addr, begins, owned, row_ends, moves):
        """Join several vectors into a beat. The first vector of a row stands where the row's
        address says."""
        plan, beat = self.plan, self.beats.p
        parts = plan.data_width // (32 * plan.block)
        bytes_ = FLOAT_BYTES * plan.block
        first = data_register(range(parts), name="first_part")
        part = data_register(range(parts), name="part")  # place of the word in the beat
        masked = self._masked(list(self.words.payload), owned)
        joined = Signal(plan.data_width)
        strobes = Signal(plan.beat_bytes)
        filled = Signal.like(joined, name="filled")
        enabled = Signal.like(strobes, name="enabled")
        whole = Signal()
        m.d.comb += [
            filled.eq(joined | (masked << (part * (8 * bytes_)))),
            enabled.eq(strobes | (self._slots(owned, self.vectors) << (part * bytes_))),
            whole.eq((part == parts - self.vectors) | row_ends),
            beat.data.eq(filled),
            beat.strb.eq(enabled),
            self.beats.valid.eq(packs & self.words.valid & whole),
            moves.eq(packs & self.words.valid & (~whole | self.beats.ready)),
            self.words.ready.eq(moves),
        ]
        with m.If(moves):
            m.d.sync += [part.eq(part + self.vectors), joined.eq(filled), strobes.eq(enabled)]
            with m.If(whole):
                m.d.sync += [joined.eq(0), strobes.eq(0)]
            with m.If(row_ends):
                m.d.sync += part.eq(first)
        with m.If(begins):
            m.d.sync += [first.eq(addr), part.eq(addr)]
