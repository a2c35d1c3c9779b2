"""A memory in which floats turn: columns of a piece of a result go in, its rows come out."""

from amaranth.hdl import Array, Assert, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.data_registers import data_register
from diastole_hw.memory.distributed_ram import DistributedRam
from diastole_hw.memory.ram import Ram
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.tokens import span_layout
from diastole_hw.stream.credit import Credit
from diastole_hw.stream.fifo import StreamFifo
from diastole_hw.successor import is_successor
from diastole_sim.spec.sizes.queues import TRANSPOSED_PIECES


def column_vectors(plan: Plan) -> int:
    """Vectors of a column that leave the north accumulators in a cycle, in the fused pass: of as
    many ports that a slice is a whole number of them, at most V_d."""
    return min(plan.drain_vectors(north=True), plan.cols & -plan.cols)


WAITING = 4
"""Words that wait behind the memory where it has a register there: whether one is read is decided
beside it, not by who takes words."""


def columns_layout(plan: Plan) -> data.StructLayout:
    """A column, with as many floats as a word of rows; whether there is one."""
    floats = data.ArrayLayout(unsigned(32), plan.drain_vectors(north=True) * plan.block)
    return data.StructLayout({"valid": 1, "floats": floats})


def piece_floats(plan: Plan) -> int:
    """Floats of a turned row that leave at once: a beat of them where words are longer and go to
    one port; a word else."""
    word = plan.drain_vectors(north=True) * plan.block
    return min(word, plan.data_width // 32) if plan.ports == 1 else word


class TurnTile(wiring.Component):
    """Turn pieces of a result, one after the other: each comes as columns and leaves as rows.

    A piece has the rows of its span (``repeat``), at most L = v * B (v as of
    :func:`column_vectors`), and its ``cols`` as columns, at most those of a k tile. Its float (r,
    c) stands in bank r xor (c modulo F) of V_d * B, with F = :func:`piece_floats`: so a column's
    floats are in as many banks, and so are F neighbouring ones of a row. Pieces enter while others
    leave: there are :data:`TRANSPOSED_PIECES` places.

    Timing: a span is taken where there is a place for its piece; its columns may come from the next
    cycle on, one per cycle, and none is held up. The span is shown in the cycle after that of its
    last column, the piece's first word at the earliest 2 cycles later, when the span has been
    taken; then one word per cycle. The place is free 1 cycle after its last word is read, which is
    the one in which the word before is taken. Where memories have a register behind them, words
    come two cycles later, and up to :data:`WAITING` are read ahead of that. Valid and ready
    signals are functions of registers.

    Parameters
    ----------
    plan : Plan
        Of a machine with a fused pass.

    Members
    -------
    spans_in : In(stream of span_layout(plan))
        One for each piece.
    columns : In(columns_layout(plan))
        Those of the spans that were taken, one after the other; only the first L floats mean
        something, and of these those within the span's rows.
    spans : Out(stream of span_layout(plan))
        The same spans.
    words : Out(stream of F times unsigned(32))
        The rows of each span, of as many words as have room for its ``cols``; beyond the row's end
        they may be anything.
    busy : Out(1)
        There are pieces, taken and not read to their end.
    """

    spans_in: stream.Interface
    columns: data.View
    spans: stream.Interface
    words: stream.Interface

    def __init__(self, plan: Plan):
        self.plan = plan
        self.rows = column_vectors(plan) * plan.block
        self.lanes = plan.drain_vectors(north=True) * plan.block
        self.shown = piece_floats(plan)
        self.bank_rows = min(self.rows, self.shown)  # that have floats of a word's columns in one
        self.row_words = max(1, plan.fused_tile_words // self.shown)
        words = data.ArrayLayout(unsigned(32), self.shown)
        super().__init__(
            {
                "spans_in": In(stream.Signature(span_layout(plan))),
                "columns": In(columns_layout(plan)),
                "spans": Out(stream.Signature(span_layout(plan))),
                "words": Out(stream.Signature(words)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        taken = Credit(most=TRANSPOSED_PIECES)
        whole = Credit(most=TRANSPOSED_PIECES)  # all columns are here, the span has not left
        told = Credit(most=TRANSPOSED_PIECES)  # the span has left, words have not
        for name, credit in {"taken": taken, "whole": whole, "told": told}.items():
            m.submodules[name] = credit
        banks = []
        for number in range(self.lanes):
            ram = Ram(width=32, depth=TRANSPOSED_PIECES * self.bank_rows * self.row_words)
            m.submodules[f"bank_{number}"] = ram
            banks.append(ram)
        m.d.comb += self.busy.eq(~taken.empty)
        at = self._take(m, taken)

        def kept(name, place_, fields):
            """Of the spans that were taken, for who is at that of a place."""
            m.submodules[f"spans_of_{name}"] = ram = DistributedRam(
                width=fields.size, depth=TRANSPOSED_PIECES
            )
            values = (self.spans_in.p[field] for field in fields.members)
            m.d.comb += [
                ram.write_en.eq(taken.take),
                ram.write_addr.eq(at),
                ram.write_data.eq(Cat(Value.cast(value) for value in values)),
                ram.read_addr.eq(place_),
            ]
            return fields(ram.read_data)

        self._write(m, banks, kept, taken, whole)
        self._tell(m, kept, whole, told)
        self._read(m, banks, kept, told, taken)
        return m

    def _fields(self, *names: str) -> data.StructLayout:
        """Some of a span."""
        span = span_layout(self.plan).members
        return data.StructLayout({name: span[name] for name in names})

    @staticmethod
    def _place(m, name, after):
        """A number of a place, that goes on in a cycle with ``after``."""
        at = Signal(range(TRANSPOSED_PIECES), name=f"{name}_place")
        with m.If(after):
            m.d.sync += at.eq(Mux(at == TRANSPOSED_PIECES - 1, 0, at + 1))
        return at

    def _address(self, place_, row, word):
        """In a bank, of a row's word."""
        low = exact_log2(self.row_words)
        return Cat(word[:low], row[: exact_log2(self.bank_rows)], place_)

    @staticmethod
    def _exchanged(m, floats, number, name):
        """``floats`` with the one of number n at n xor ``number``."""
        for level, bit in enumerate(number):
            placed = Signal(
                data.ArrayLayout(unsigned(32), len(floats)), name=f"{name}_{1 << level}"
            )
            for n in range(len(floats)):
                m.d.comb += placed[n].eq(Mux(bit, floats[n ^ (1 << level)], floats[n]))
            floats = placed
        return floats

    def _take(self, m, taken):
        """Spans, where there is a place; returns which one is next."""
        m.d.comb += [
            self.spans_in.ready.eq(~taken.full),
            taken.take.eq(self.spans_in.valid & self.spans_in.ready),
        ]
        return self._place(m, "taken", taken.take)

    def _write(self, m, banks, kept, taken, whole):
        """Columns, into one place after the other."""
        column = Signal(range(self.plan.fused_tile_words + 1))
        arrives = self.columns.valid
        last = Signal(name="last_column")
        m.d.comb += whole.take.eq(arrives & last)
        at = self._place(m, "written", whole.take)
        m.d.comb += last.eq(column == kept("columns", at, self._fields("cols")).cols - 1)
        m.d.sync += Assert(~arrives | ~taken.empty, "a column of no piece")
        within = column[: exact_log2(self.shown)]
        placed = self._exchanged(m, self.columns.floats, within, "placed")
        for number, ram in enumerate(banks):
            row = Signal(range(max(self.lanes, 2)), name=f"row_{number}")
            m.d.comb += [
                row.eq(number ^ within),
                ram.write_en.eq(arrives & (row < self.rows)),
                ram.write_addr.eq(self._address(at, row, column >> len(within))),
                ram.write_data.eq(placed[number]),
            ]
        with m.If(arrives):
            m.d.sync += column.eq(Mux(last, 0, column + 1))

    def _tell(self, m, kept, whole, told):
        """The spans, as soon as their pieces are whole."""
        leaves = Signal(name="span_leaves")
        m.d.comb += [
            self.spans.valid.eq(~whole.empty),
            leaves.eq(self.spans.valid & self.spans.ready),
            whole.give.eq(leaves),
            told.take.eq(leaves),
        ]
        at = self._place(m, "told", leaves)
        span = kept("rows", at, span_layout(self.plan))
        m.d.comb += Value.cast(self.spans.payload).eq(Value.cast(span))

    def _read(self, m, banks, kept, told, taken):
        """Words of the rows whose span has left."""
        row = Signal(range(max(self.rows, 2)), name="read_row")
        word = Signal(range(max(self.row_words, 2)), name="read_word")
        shown = Signal()  # the banks show a word
        first = data_register(range(max(self.lanes, 2)))  # bank in which its first float is
        log_shown = exact_log2(self.shown)
        moves = Signal(name="word_moves")
        reads = Signal()
        last_word, last = Signal(), Signal(name="last_word_of_piece")
        m.d.comb += [told.give.eq(last), taken.give.eq(last)]
        at = self._place(m, "read", last)
        span = kept("words", at, self._fields("repeat", "cols"))
        m.d.comb += [
            reads.eq(~told.empty & (~shown | moves)),
            last_word.eq(((word + 1) << log_shown) >= span.cols),
            last.eq(reads & last_word & is_successor(span.repeat, row)),
        ]
        for ram in banks:
            m.d.comb += [
                ram.read_en.eq(reads),
                ram.read_addr.eq(self._address(at, row, word)),
            ]
        floats = Signal(self.words.payload.shape(), name="read_floats")
        for n in range(self.shown):
            group = Array(bank.read_data for bank in banks[n :: self.shown])
            m.d.comb += floats[n].eq(group[first >> log_shown])
        self._show(m, floats, first[:log_shown], shown, moves)
        with m.If(moves):
            m.d.sync += shown.eq(0)
        with m.If(reads):
            m.d.sync += [shown.eq(1), first.eq(row), word.eq(word + 1)]
            with m.If(last_word):
                m.d.sync += [word.eq(0), row.eq(row + 1)]
            with m.If(last):
                m.d.sync += row.eq(0)

    def _show(self, m, floats, first, shown, moves):
        """The word that the banks show if ``shown``, its float n at n xor ``first``, which
        ``moves`` on."""
        words = self.words
        if not self.plan.output_register:
            m.d.comb += [
                words.payload.eq(self._exchanged(m, floats, first, "turned")),
                words.valid.eq(shown),
                moves.eq(words.ready),
            ]
            return
        m.submodules.shown_words = queue = StreamFifo(words.payload.shape(), WAITING, quick=True)
        kept = data_register(words.payload.shape(), name="kept_word")
        kept_first = data_register(len(first), name="kept_first")
        with m.If(moves):
            m.d.sync += [queue.i.valid.eq(shown), kept.eq(floats), kept_first.eq(first)]
        m.d.comb += [
            queue.i.payload.eq(self._exchanged(m, kept, kept_first, "turned")),
            moves.eq(queue.i.ready),
        ]
        wiring.connect(m, queue.o, wiring.flipped(words))
