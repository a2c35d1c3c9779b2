"""A memory in which floats turn: columns of a piece of a result go in, its rows come out."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.memory.ram import Ram
from diastole_hw.place import place
from diastole_hw.plan.plan import Plan
from diastole_hw.registers import data_register
from diastole_hw.schedule.tokens import span_layout


def column_vectors(plan: Plan) -> int:
    """Vectors of a column that leave the north accumulators in a cycle, in the fused pass: of as
    many ports that a slice is a whole number of them, at most V_d."""
    return min(plan.drain_vectors(north=True), plan.cols & -plan.cols)


class TurnTile(wiring.Component):
    """Turn pieces of a result, one after the other: each comes as columns and leaves as rows.

    A piece has the rows of its span (``repeat``), at most L = v * B (v as of
    :func:`column_vectors`), and its ``cols`` as columns, at most those of a k tile. Its float (r,
    c) stands in bank (r + c) modulo the lanes of a word, V_d * B: so a column's floats are in as
    many banks, and so are neighbouring ones of a row. One piece enters while another leaves.

    Timing: one column per cycle in, one word per cycle out. A piece's span is shown in the cycle
    after that of its last column, its first word at the earliest 2 cycles later, when the span has
    been taken. A piece is taken in while the other half is full, and goes with its last word but
    one; so at most 2 cycles are lost for each. ``spans_in`` leaves with the piece's last column.
    Valid and ready signals are functions of registers, but ``spans_in.ready`` is of
    ``columns.valid`` too, and ``columns.ready`` of ``spans_in.valid``.

    Parameters
    ----------
    plan : Plan
        Of a machine with a fused pass.

    Members
    -------
    spans_in : In(stream of span_layout(plan))
        One for each piece; ``repeat`` and ``whole`` are alike.
    columns : In(stream of L times unsigned(32))
        Those of the span at hand, one after the other; beyond its rows they may be anything.
    spans : Out(stream of span_layout(plan))
        The same spans.
    words : Out(stream of V_d * B times unsigned(32))
        The rows of each span, of as many words as have room for ``vectors``; beyond the row's end
        they may be anything.
    """

    spans_in: stream.Interface
    columns: stream.Interface
    spans: stream.Interface
    words: stream.Interface

    def __init__(self, plan: Plan):
        self.plan = plan
        self.rows = column_vectors(plan) * plan.block
        self.lanes = plan.drain_vectors(north=True) * plan.block
        self.row_words = max(1, plan.fused_tile_words // self.lanes)
        super().__init__(
            {
                "spans_in": In(stream.Signature(span_layout(plan))),
                "columns": In(stream.Signature(data.ArrayLayout(unsigned(32), self.rows))),
                "spans": Out(stream.Signature(span_layout(plan))),
                "words": Out(stream.Signature(data.ArrayLayout(unsigned(32), self.lanes))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pieces = [data_register(span_layout(self.plan), name=f"piece_{half}") for half in range(2)]
        full = Signal(2)  # by half: its piece is here whole
        told = Signal(2)  # its span has left
        banks = []
        for number in range(self.lanes):
            ram = Ram(width=32, depth=2 * self.rows * self.row_words)
            m.submodules[f"bank_{number}"] = place(ram, platform)
            banks.append(ram)
        self._write(m, banks, pieces, full)
        self._tell(m, pieces, full, told)
        self._read(m, banks, pieces, full, told)
        return m

    def _address(self, half, row, word):
        """In a bank, of a row's word."""
        low = exact_log2(self.row_words)
        return Cat(word[:low], row[: exact_log2(self.rows)], half)

    def _turned_by(self, m, floats, distance, name):
        """``floats`` with number n at (n + distance) modulo the lanes, a power of two."""
        for level in range(exact_log2(self.lanes)):
            turned = Signal(32 * self.lanes, name=f"{name}_{1 << level}")
            moved = floats.rotate_left(32 << level)
            m.d.comb += turned.eq(Mux(distance.bit_select(level, 1), moved, floats))
            floats = turned
        return floats

    def _write(self, m, banks, pieces, full):
        """Columns, into one half after the other."""
        half = Signal(name="write_half")
        column = Signal(range(self.plan.fused_tile_words + 1))
        spans, columns = self.spans_in, self.columns
        room = ~full.bit_select(half, 1)
        taken = Signal(name="column_taken")
        last = Signal(name="last_column")
        m.d.comb += [
            columns.ready.eq(spans.valid & room),
            taken.eq(columns.valid & columns.ready),
            last.eq(column == spans.p.cols - 1),
            spans.ready.eq(taken & last),
        ]
        floats = Signal(32 * self.lanes)
        m.d.comb += floats.eq(Value.cast(columns.payload))
        placed = self._turned_by(m, floats, column, "placed")
        for number, ram in enumerate(banks):
            row = Signal(range(max(self.lanes, 2)), name=f"row_{number}")
            word = column >> exact_log2(self.lanes)
            m.d.comb += [
                row.eq((number - column) & (self.lanes - 1)),
                ram.write_en.eq(taken & (row < self.rows)),
                ram.write_addr.eq(self._address(half, row, word)),
                ram.write_data.eq(placed.word_select(number, 32)),
            ]
        with m.If(taken):
            m.d.sync += column.eq(column + 1)
            with m.If(last):
                m.d.sync += [column.eq(0), half.eq(~half), full.bit_select(half, 1).eq(1)]
                with m.Switch(half):
                    for number, piece in enumerate(pieces):
                        with m.Case(number):
                            m.d.sync += piece.eq(spans.payload)

    def _tell(self, m, pieces, full, told):
        """The spans, as soon as their pieces are whole."""
        half = Signal(name="told_half")
        m.d.comb += [
            self.spans.valid.eq((full & ~told).bit_select(half, 1)),
            self.spans.payload.eq(Mux(half, pieces[1].as_value(), pieces[0].as_value())),
        ]
        with m.If(self.spans.valid & self.spans.ready):
            m.d.sync += [half.eq(~half), told.bit_select(half, 1).eq(1)]

    def _read(self, m, banks, pieces, full, told):
        """Words of the rows whose span has left."""
        half = Signal(name="read_half")
        row = Signal(range(max(self.rows, 2)), name="read_row")
        word = Signal(range(max(self.row_words, 2)), name="read_word")
        shown = Signal()  # the banks show a word
        first = Signal(range(max(self.lanes, 2)))  # bank in which its first float is
        back = Signal.like(first, name="back")
        vectors = self.plan.drain_vectors(north=True)
        rows = Array(piece.repeat for piece in pieces)[half]
        count = Array(piece.vectors for piece in pieces)[half]
        reads = Signal()
        last_word = Signal()
        m.d.comb += [
            reads.eq(told.bit_select(half, 1) & (~shown | self.words.ready)),
            last_word.eq(((word + 1) << exact_log2(vectors)) >= count),
            self.words.valid.eq(shown),
        ]
        for ram in banks:
            m.d.comb += [
                ram.read_en.eq(reads),
                ram.read_addr.eq(self._address(half, row, word)),
            ]
        m.d.comb += back.eq(-first)
        floats = Signal(32 * self.lanes, name="read_floats")
        m.d.comb += floats.eq(Cat(ram.read_data for ram in banks))
        m.d.comb += Value.cast(self.words.payload).eq(self._turned_by(m, floats, back, "turned"))
        with m.If(self.words.ready):
            m.d.sync += shown.eq(0)
        with m.If(reads):
            m.d.sync += [shown.eq(1), first.eq(row), word.eq(word + 1)]
            with m.If(last_word):
                m.d.sync += [word.eq(0), row.eq(row + 1)]
                with m.If(row == rows - 1):
                    m.d.sync += [row.eq(0), half.eq(~half)]
                    m.d.sync += [full.bit_select(half, 1).eq(0), told.bit_select(half, 1).eq(0)]
