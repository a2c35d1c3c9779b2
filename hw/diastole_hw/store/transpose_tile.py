"""Transpose floats in a memory: columns of a piece of a result are written, rows are read."""

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
    """Return the number of vectors of a column that leave the north accumulators per cycle in the
    fused pass: the largest power of two that divides the columns of cells, at most V_d."""
    return min(plan.drain_vectors(north=True), plan.cols & -plan.cols)


WAITING = 4
"""Number of words that wait behind the memory, where the memory has an output register. The
decision to read is made beside the memory, and does not depend on the reader of the words."""


def columns_layout(plan: Plan) -> data.StructLayout:
    """Return the layout of a column, with as many floats as a word of rows, and a valid bit."""
    floats = data.ArrayLayout(unsigned(32), plan.drain_vectors(north=True) * plan.block)
    return data.StructLayout({"valid": 1, "floats": floats})


def piece_floats(plan: Plan) -> int:
    """Return the number of floats of a transposed row that leave at once: a beat of floats if words
    are longer and go to a single port, else a word."""
    word = plan.drain_vectors(north=True) * plan.block
    return min(word, plan.data_width // 32) if plan.ports == 1 else word


class TransposeTile(wiring.Component):
    """Transpose pieces of a result, one after another: a piece arrives as columns and leaves as
    rows.

    A piece has the rows of its span (``repeat``), at most L = v * B (v as in
    :func:`column_vectors`), and its ``cols`` as columns, at most the columns of a k tile. Float (r,
    c) of a piece stands in bank r xor (c modulo F) of V_d * B banks, with F = :func:`piece_floats`.
    So the floats of a column are in different banks, and F neighbouring floats of a row too. Pieces
    are written while earlier pieces are read: there are :data:`TRANSPOSED_PIECES` places.

    Timing: a span is accepted when there is a free place for its piece. Its columns may arrive from
    the next cycle on, 1 per cycle, and no column waits. The span is output in the cycle after its
    last column. The first word of the piece follows at the earliest 2 cycles later, when the span
    has been accepted; then 1 word per cycle. The place is free 1 cycle after its last word is read;
    the last word is read in the cycle in which the preceding word is accepted. Where memories have
    an output register, words are output 2 cycles later, and up to :data:`WAITING` words are read
    ahead. Valid and ready signals are functions of registers.

    Parameters
    ----------
    plan : Plan
        Plan of a machine with a fused pass.

    Members
    -------
    spans_in : In(stream of span_layout(plan))
        A span per piece.
    columns : In(columns_layout(plan))
        Columns of the accepted spans, one after another. Only the first L floats are used, and only
        floats within the rows of the span.
    spans : Out(stream of span_layout(plan))
        Spans of ``spans_in``.
    words : Out(stream of F times unsigned(32))
        Rows of every span, in as many words as ``cols`` needs; floats beyond the end of a row are
        undefined.
    busy : Out(1)
        There are pieces, accepted and not read to their end.
    """

    spans_in: stream.Interface
    columns: data.View
    spans: stream.Interface
    words: stream.Interface

    def __init__(self, plan: Plan):
        self.plan = plan
        self.rows = column_vectors(plan) * plan.block
        self.lanes = plan.drain_vectors(north=True) * plan.block
        self.word_floats = piece_floats(plan)
        self.bank_rows = min(
            self.rows, self.word_floats
        )  # rows per bank, for the columns of a word
        self.row_words = max(1, plan.fused_tile_words // self.word_floats)
        words = data.ArrayLayout(unsigned(32), self.word_floats)
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
        accepted = Credit(most=TRANSPOSED_PIECES)
        complete = Credit(
            most=TRANSPOSED_PIECES
        )  # all columns have arrived, the span has not been output
        output_spans = Credit(
            most=TRANSPOSED_PIECES
        )  # the span has been output, the words have not
        for name, credit in {
            "accepted": accepted,
            "complete": complete,
            "output_spans": output_spans,
        }.items():
            m.submodules[name] = credit
        banks = []
        for number in range(self.lanes):
            ram = Ram(width=32, depth=TRANSPOSED_PIECES * self.bank_rows * self.row_words)
            m.submodules[f"bank_{number}"] = ram
            banks.append(ram)
        m.d.comb += self.busy.eq(~accepted.empty)
        at = self._accept(m, accepted)

        def span_fields(name, place_, fields):
            """Return fields of the span at a place, from a memory of the accepted spans."""
            m.submodules[f"spans_of_{name}"] = ram = DistributedRam(
                width=fields.size, depth=TRANSPOSED_PIECES
            )
            values = (self.spans_in.p[field] for field in fields.members)
            m.d.comb += [
                ram.write_en.eq(accepted.take),
                ram.write_addr.eq(at),
                ram.write_data.eq(Cat(Value.cast(value) for value in values)),
                ram.read_addr.eq(place_),
            ]
            return fields(ram.read_data)

        self._write(m, banks, span_fields, accepted, complete)
        self._output_spans(m, span_fields, complete, output_spans)
        self._read(m, banks, span_fields, output_spans, accepted)
        return m

    def _fields(self, *names: str) -> data.StructLayout:
        """Return the layout of some fields of a span."""
        span = span_layout(self.plan).members
        return data.StructLayout({name: span[name] for name in names})

    @staticmethod
    def _place(m, name, after):
        """Return the number of a place, which advances after a cycle with ``after``."""
        at = Signal(range(TRANSPOSED_PIECES), name=f"{name}_place")
        with m.If(after):
            m.d.sync += at.eq(Mux(at == TRANSPOSED_PIECES - 1, 0, at + 1))
        return at

    def _address(self, place_, row, word):
        """Return the address of a word of a row in a bank."""
        low = exact_log2(self.row_words)
        return Cat(word[:low], row[: exact_log2(self.bank_rows)], place_)

    @staticmethod
    def _permuted(m, floats, number, name):
        """Return ``floats`` with the float of number n at n xor ``number``."""
        for level, bit in enumerate(number):
            placed = Signal(
                data.ArrayLayout(unsigned(32), len(floats)), name=f"{name}_{1 << level}"
            )
            for n in range(len(floats)):
                m.d.comb += placed[n].eq(Mux(bit, floats[n ^ (1 << level)], floats[n]))
            floats = placed
        return floats

    def _accept(self, m, accepted):
        """Accept a span when there is a free place. Return the place of the next span."""
        m.d.comb += [
            self.spans_in.ready.eq(~accepted.full),
            accepted.take.eq(self.spans_in.valid & self.spans_in.ready),
        ]
        return self._place(m, "accepted", accepted.take)

    def _write(self, m, banks, span_fields, accepted, complete):
        """Write columns, one place after another."""
        column = Signal(range(self.plan.fused_tile_words + 1))
        arrives = self.columns.valid
        last = Signal(name="last_column")
        m.d.comb += complete.take.eq(arrives & last)
        at = self._place(m, "written", complete.take)
        m.d.comb += last.eq(column == span_fields("columns", at, self._fields("cols")).cols - 1)
        m.d.sync += Assert(~arrives | ~accepted.empty, "a column of no piece")
        within = column[: exact_log2(self.word_floats)]
        placed = self._permuted(m, self.columns.floats, within, "placed")
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

    def _output_spans(self, m, span_fields, complete, output_spans):
        """Output a span as soon as its piece is complete."""
        leaves = Signal(name="span_leaves")
        m.d.comb += [
            self.spans.valid.eq(~complete.empty),
            leaves.eq(self.spans.valid & self.spans.ready),
            complete.give.eq(leaves),
            output_spans.take.eq(leaves),
        ]
        at = self._place(m, "output_spans", leaves)
        span = span_fields("rows", at, span_layout(self.plan))
        m.d.comb += Value.cast(self.spans.payload).eq(Value.cast(span))

    def _read(self, m, banks, span_fields, output_spans, accepted):
        """Read words of the rows whose span has been output."""
        row = Signal(range(max(self.rows, 2)), name="read_row")
        word = Signal(range(max(self.row_words, 2)), name="read_word")
        read_valid = Signal()  # the banks output a word
        first = data_register(range(max(self.lanes, 2)))  # bank of the word's first float
        log_word_floats = exact_log2(self.word_floats)
        moves = Signal(name="word_moves")
        reads = Signal()
        last_word, last = Signal(), Signal(name="last_word_of_piece")
        m.d.comb += [output_spans.give.eq(last), accepted.give.eq(last)]
        at = self._place(m, "read", last)
        span = span_fields("words", at, self._fields("repeat", "cols"))
        m.d.comb += [
            reads.eq(~output_spans.empty & (~read_valid | moves)),
            last_word.eq(((word + 1) << log_word_floats) >= span.cols),
            last.eq(reads & last_word & is_successor(span.repeat, row)),
        ]
        for ram in banks:
            m.d.comb += [
                ram.read_en.eq(reads),
                ram.read_addr.eq(self._address(at, row, word)),
            ]
        floats = Signal(self.words.payload.shape(), name="read_floats")
        for n in range(self.word_floats):
            group = Array(bank.read_data for bank in banks[n :: self.word_floats])
            m.d.comb += floats[n].eq(group[first >> log_word_floats])
        self._output_words(m, floats, first[:log_word_floats], read_valid, moves)
        with m.If(moves):
            m.d.sync += read_valid.eq(0)
        with m.If(reads):
            m.d.sync += [read_valid.eq(1), first.eq(row), word.eq(word + 1)]
            with m.If(last_word):
                m.d.sync += [word.eq(0), row.eq(row + 1)]
            with m.If(last):
                m.d.sync += row.eq(0)

    def _output_words(self, m, floats, first, read_valid, moves):
        """Output the word at the banks' outputs if ``read_valid``, with float n at n xor ``first``.
        ``moves`` is high when the word is accepted."""
        words = self.words
        if not self.plan.output_register:
            m.d.comb += [
                words.payload.eq(self._permuted(m, floats, first, "transposed")),
                words.valid.eq(read_valid),
                moves.eq(words.ready),
            ]
            return
        m.submodules.read_words = queue = StreamFifo(words.payload.shape(), WAITING, quick=True)
        waiting_word = data_register(words.payload.shape(), name="waiting_word")
        waiting_first = data_register(len(first), name="waiting_first")
        with m.If(moves):
            m.d.sync += [
                queue.i.valid.eq(read_valid),
                waiting_word.eq(floats),
                waiting_first.eq(first),
            ]
        m.d.comb += [
            queue.i.payload.eq(self._permuted(m, waiting_word, waiting_first, "transposed")),
            moves.eq(queue.i.ready),
        ]
        wiring.connect(m, queue.o, wiring.flipped(words))
