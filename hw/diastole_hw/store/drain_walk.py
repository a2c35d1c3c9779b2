"""Walk over the sums of an output tile in the order in which they are read, and compute row
addresses."""

from dataclasses import dataclass

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.data_registers import data_register
from diastole_hw.memory.maxima import drain_entries, lookup_layout
from diastole_hw.plan.modes import PRODUCTS, Mode
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.sum_places import place_of_sums
from diastole_hw.schedule.tokens import RESULT, drained_layout, length_shapes, span_layout
from diastole_hw.store.transpose_tile import column_vectors
from diastole_hw.successor import is_successor
from diastole_hw.transfer.address import whole_beats
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.integers import pow2ceil
from diastole_sim.spec.sizes.array_sizes import SUM_MEMORIES, TILES_OF_SUMS
from diastole_sim.spec.sizes.uses import DY, W, X


def operands(plan: Plan, *, north: bool) -> dict[Mode, tuple[int, int]]:
    """Return, for every mode with sums in this direction, the streaming and the stationary
    class."""
    uses = {mode: plan.use(mode) for mode in PRODUCTS}
    classes = {
        mode: (use.stream, use.stationary) for mode, use in uses.items() if use.north == north
    }
    if plan.fused:
        classes[Mode.FUSED] = (W if north else X, DY)
    return classes


def transposes(plan: Plan, *, north: bool) -> bool:
    """Return whether a direction has tiles that are transposed: tiles of dX in the fused pass."""
    return north and plan.fused


@dataclass(frozen=True, kw_only=True)
class Cursor:
    """Position of the walk in its tile; all fields but ``ends`` are registers."""

    transposed: Signal  # the tile's vectors are columns of the result
    ends: Signal  # this is the last word of the tile
    last_word: Signal  # also the last word; undefined where words go by blocks
    t: Signal  # vector of the tile
    last_t: Signal  # it is the last vector of the tile
    lane: Signal  # block of lanes of the word's first vector; by rows only
    port: Signal  # port of the word's first vector
    sums: Signal  # word at which the lanes begin in the tile; by rows only
    lane_vector: Value  # vector of the word that is read; by blocks only
    row_addr: Signal  # of the tile's first row, or of its block's first row

    def t_block(self, plan: Plan):
        """Return the block of the tile to which vector t belongs."""
        return self.t >> plan.log_block


class DrainWalk(wiring.Component):
    """Read every sum of a tile once, word by word, with the maxima that bound the word.

    *By rows*: the vectors of the tile are parts of rows of the result. The loop over t is
    outermost, blocks of lanes are inside, and there is one span per tile. A word is V_d vectors
    (:meth:`diastole_hw.plan.plan.Plan.drain_vectors`) of neighbouring blocks of lanes, and so of
    neighbouring ports; the last word of a row may have fewer.

    *Transposed* (the north side of the fused pass): the vectors are parts of columns of dX. A word
    is as many vectors as :func:`diastole_hw.store.transpose_tile.column_vectors` returns, of
    neighbouring ports. The loop over ports is outermost, t inside, and there is one span for the
    rows of a word.

    *By blocks* (``chained``): rows of blocks are outermost, then blocks of lanes, then the B rows
    of a block. A word is one vector, a row of a block. Rows beyond the tile are added, so that
    every block has B rows: ``padding`` is high, and nothing is to be read. There are no spans.

    The address of a row follows from the preceding tile. The tiles of a result must therefore
    arrive from its corner on, without gaps: first tiles side by side, or, if transposed or with
    ``lanes_outermost``, first tiles below each other. Tiles stand in the accumulators as
    :func:`diastole_hw.schedule.sum_places.place_of_sums` says, tiles of one result behind tiles of
    another.

    Timing: a tile waits 1 cycle, and as long as its memory is ``used_by_sums``. Then a word is read
    in every cycle in which ``read_valid`` is not 0 and ``granted`` is high, and the tile leaves
    with its last word. A word that begins a span waits for ``spans.ready``; the span is output with
    the word. ``freed`` is high for 1 cycle, the cycle after the last word: the bank of the tile may
    be overwritten.

    Parameters
    ----------
    plan : Plan
    north : bool
        Direction: selects whether tiles may be transposed, and the number of ports.

    Members
    -------
    mode : In(Mode)
        Mode with sums in this direction, not checked. Stable while there are tiles, and in the
        cycle before; ``result`` also.
    result : In(RESULT)
    lanes_outermost : In(1)
        Stable as ``mode``; 0 where tiles are transposed, not checked.
    chained : In(1)
        Stable as ``mode``; 0 where tiles are transposed, not checked. Exists in a machine with a
        vector unit.
    t_step, whole : In(length_shapes(plan)["t_step"]), In(1)
        Stable as ``mode``: blocks of a T tile, and whether a tile takes a whole memory of sums.
    used_by_sums : In(SUM_MEMORIES)
        Member of :class:`diastole_hw.memory.accumulators.SumsReadSignature`.
    tiles : In(stream of drained_layout(plan, transposed=transposes(plan, north=north)))
    spans : Out(stream of span_layout(plan))
    granted : In(1)
        A requested word is read.
    read_valid : Out(V_d)
        Vectors of the word: bit k for port ``read_port`` + k, modulo the ports.
    read_port, read_addr : Out(range(max(ports, 2))), Out(range(plan.sum_words))
    read_wrapped_addr : Out(range(plan.sum_words))
        Members of :class:`diastole_hw.memory.accumulators.SumsReadSignature`; the last one exists
        if V_d > 1.
    padding : Out(1)
        The word is beyond the tile, but counts as if it were read; exists with ``chained``.
    last_part : Out(range(plan.word_parts))
        Number of the last part of the word with a float of the result, valid with ``read_valid``; 0
        bits wide if a word has a single part.
    freed : Out(1)
    index : Out({"stream": Out(lookup_layout(plan, entries["stream"])), "stationary": ...})
        Places of the maxima that bound the word, valid with ``read_valid``. For the stationary
        operand: from the block of the first vector on, maxima of as many blocks as a word has
        vectors. ``entries`` as in :func:`diastole_hw.memory.maxima.drain_entries`.
    """

    tiles: stream.Interface
    spans: stream.Interface
    result: data.View
    index: wiring.PureInterface
    chained: Signal
    padding: Signal

    def __init__(self, plan: Plan, *, north: bool):
        self.plan, self.north = plan, north
        self.ports = plan.cols if north else plan.rows
        self.vectors = plan.drain_vectors(north=north)
        self.transposes = transposes(plan, north=north)
        self.column_vectors = column_vectors(plan) if self.transposes else 1
        entries = drain_entries(plan, "north" if north else "east")
        self.chains = plan.vector is not None
        indices = {role: Out(lookup_layout(plan, count)) for role, count in entries.items()}
        super().__init__(
            {
                "mode": In(Mode),
                "result": In(RESULT),
                "lanes_outermost": In(1),
                "t_step": In(length_shapes(plan)["t_step"]),
                "whole": In(1),
                "used_by_sums": In(SUM_MEMORIES),
                "tiles": In(
                    stream.Signature(drained_layout(plan, transposed=transposes(plan, north=north)))
                ),
                "spans": Out(stream.Signature(span_layout(plan))),
                "granted": In(1),
                "read_valid": Out(self.vectors),
                "read_port": Out(range(max(self.ports, 2))),
                "read_addr": Out(range(plan.sum_words)),
                "freed": Out(1),
                "index": Out(wiring.Signature(indices)),
            }
            | ({"read_wrapped_addr": Out(range(plan.sum_words))} if self.vectors > 1 else {})
            | ({"chained": In(1), "padding": Out(1)} if self.chains else {})
            | {"last_part": Out(range(plan.word_parts))}
        )

    def elaborate(self, platform):
        m = Module()
        plan, tile = self.plan, self.tiles.p
        at = Cursor(
            transposed=data_register(name="transposed"),
            ends=Signal(name="ends"),
            last_word=data_register(name="last_word"),
            t=data_register(range(plan.tile_words + 1), name="t"),
            last_t=data_register(name="last_t"),
            lane=data_register(tile.l_blocks.shape(), name="lane"),
            port=data_register(range(max(self.ports, 2)), name="port"),
            sums=data_register(range(plan.tile_sums), name="sums"),
            lane_vector=data_register(range(self.vectors), name="lane_vector")
            if self.chains and self.vectors > 1
            else Const(0, 1),
            row_addr=data_register(ADDRESS_BITS, name="row_addr"),
        )
        started = Signal()
        span_due = Signal()  # the current word is the first word of a span
        number = Signal(range(TILES_OF_SUMS))  # number of the tile
        last_read = Signal()
        steps = Signal()

        m.d.sync += started.eq(self.tiles.valid & ~self.tiles.ready)
        with m.If(self.tiles.valid & ~started):
            m.d.sync += span_due.eq(~self.chained if self.chains else 1)
            self._start(m, at)
        available = Signal()
        reads = Signal()
        m.d.comb += [
            # A tile that was begun stays until its last word is read.
            available.eq(started & ~self.used_by_sums.bit_select(number[0], 1)),
            reads.eq(available & (~span_due | self.spans.ready)),
            steps.eq(reads & self.granted),
            self.read_valid.eq(Mux(reads, self._present(at), 0)),
            self.read_port.eq(at.port),
            self.read_addr.eq(self._addr(number, at.sums + at.t)),
            self.spans.valid.eq(available & span_due & self.granted),
            self.tiles.ready.eq((reads & at.ends) & self.granted),
            self.freed.eq(last_read),
        ]
        m.d.sync += Assert(~started | self.tiles.valid, "a tile went that was begun")
        m.d.sync += last_read.eq(self.tiles.ready)
        self._move(m, at, span_due, steps)
        with m.If(self.tiles.ready):
            m.d.sync += number.eq(number + 1)
        if self.vectors > 1:
            behind = at.sums + self._tile_words()
            m.d.comb += self.read_wrapped_addr.eq(self._addr(number, behind + at.t))
        self._span(m, at)
        self._lookups(m, at)
        return m

    def _move(self, m, at, span_due, steps):
        """Advance to the next word, in the order of the current result."""
        arguments = (m, at, span_due, steps)
        if self.transposes:
            with m.If(at.transposed):
                self._by_columns(*arguments)
        if self.chains:
            with m.Elif(self.chained) if self.transposes else m.If(self.chained):
                self._by_blocks(m, at, steps)
        if self.transposes or self.chains:
            with m.Else():
                self._by_rows(*arguments)
        else:
            self._by_rows(*arguments)

    def _present(self, at):
        """Return the vectors of the word, as a bit mask."""
        tile = self.tiles.p
        most = Mux(at.transposed, self.column_vectors, self.vectors)
        left = Mux(at.transposed, self._of_columns("c_blocks") - at.port, tile.l_blocks - at.lane)
        present = Cat(Const(1, 1), *((left > k) & (most > k) for k in range(1, self.vectors)))
        if not self.chains or self.vectors == 1:
            return present
        return Mux(self.chained, (1 << at.lane_vector)[: self.vectors], present)

    def _tile_words(self):
        """Return the number of vectors of a T tile. Vectors of the next lanes of a port begin
        behind them."""
        return self.t_step << self.plan.log_block

    def _of_columns(self, name: str):
        """Return a field that only tiles of a direction with transposed tiles have; else 0."""
        return self.tiles.p[name] if self.transposes else Const(0, 1)

    def _block(self, at):
        """Return the block of the first vector, for a transposed tile, which begins with a
        slice."""
        first, ports = self._of_columns("c0"), self.plan.cols
        if not self.transposes or ports & (ports - 1):
            return first + at.port
        return Cat(at.port[: exact_log2(ports)], first[exact_log2(ports) :])

    def _addr(self, number, word):
        """Return the address of a word of the tile in the memories of a port."""
        return place_of_sums(self.plan, number, self.whole, word)

    def _start(self, m, at):
        """Begin with the first word of a tile; the address of its first row follows from the
        preceding tile."""
        tile, base = self.tiles.p, self.result.base
        m.d.sync += [*self._first_t(at), *self._first_lanes(at)]
        of_row = Mux(at.transposed, self._one_column(), self._one_word())
        m.d.sync += at.last_word.eq((tile.t_count == 1) & of_row)
        if self.chains and self.vectors > 1:
            m.d.sync += at.lane_vector.eq(0)
        first = Mux(at.transposed, self._of_columns("first_c"), tile.first_t)
        below = tile.first_l | self.lanes_outermost
        with m.If(first):
            m.d.sync += at.row_addr.eq(self._whole(base))
        with m.Elif(~at.transposed & below):
            m.d.sync += at.row_addr.eq(self._whole(at.row_addr + self.result.tile_pitch))

    def _whole(self, address):
        return whole_beats(address, self.plan.beat_bytes)

    def _by_rows(self, m, at, span_due, steps):
        tile, lane = self.tiles.p, at.lane
        last_lane = lane + self.vectors >= tile.l_blocks
        m.d.comb += at.ends.eq(at.last_word)
        with m.If(steps):
            m.d.sync += span_due.eq(0)
            self._next_lanes(m, at)
            m.d.sync += at.last_word.eq(at.last_t & (lane + 2 * self.vectors >= tile.l_blocks))
            with m.If(last_lane):
                m.d.sync += [*self._first_lanes(at), *self._next_t(at)]
                m.d.sync += at.last_word.eq(self._next_is_last_t(at) & self._one_word())

    def _one_word(self):
        """Return whether a row has a single word."""
        return self.tiles.p.l_blocks <= self.vectors

    def _one_column(self):
        """Return whether the transposed tile has no words but the current column."""
        return self._of_columns("c_blocks") <= self.column_vectors

    def _next_lanes(self, m, at):
        """Advance to the lanes of the next ports."""
        port, before_wrap = at.port, self.ports - self.vectors
        wraps = port >= before_wrap if before_wrap else Const(1, 1)
        m.d.sync += [at.lane.eq(at.lane + self.vectors), port.eq(port + self.vectors)]
        with m.If(wraps):
            m.d.sync += [port.eq(port - before_wrap), at.sums.eq(at.sums + self._tile_words())]

    def _first_t(self, at):
        return [at.t.eq(0), at.last_t.eq(self.tiles.p.t_count == 1)]

    def _next_t(self, at):
        return [at.t.eq(at.t + 1), at.last_t.eq(self._next_is_last_t(at))]

    def _next_is_last_t(self, at):
        return is_successor(self.tiles.p.t_count, at.t + 1)

    @staticmethod
    def _first_lanes(at):
        return [at.lane.eq(0), at.port.eq(0), at.sums.eq(0)]

    def _by_blocks(self, m, at, steps):
        """Read every row of a block, then the next block. The walk goes through the lanes of as
        many blocks as a word by rows has vectors, before it advances to the next ports."""
        tile, log = self.tiles.p, self.plan.log_block
        last_row = at.t[:log].all() if log else Const(1, 1)
        last_lane = at.lane + at.lane_vector + 1 >= tile.l_blocks
        next_ports = at.lane_vector.all() if self.vectors > 1 else Const(1, 1)
        m.d.comb += [
            at.ends.eq(last_row & last_lane & (at.t[log:] == (tile.t_count - 1)[log:])),
            self.padding.eq(at.t >= tile.t_count),
        ]
        with m.If(steps):
            m.d.sync += at.t.eq(at.t + 1)
            with m.If(last_row & last_lane):
                m.d.sync += self._first_lanes(at)
            with m.Elif(last_row):
                m.d.sync += at.t.eq(Cat(Const(0, log), at.t[log:]))
                with m.If(next_ports):
                    self._next_lanes(m, at)
            if self.vectors > 1:
                with m.If(last_row):
                    m.d.sync += at.lane_vector.eq(Mux(last_lane, 0, at.lane_vector + 1))

    def _by_columns(self, m, at, span_due, steps):
        tile, port, step = self.tiles.p, at.port, self.column_vectors
        last = port + step >= tile.c_blocks
        m.d.comb += at.ends.eq(at.last_word)
        with m.If(steps):
            m.d.sync += [*self._next_t(at), span_due.eq(at.last_t)]
            m.d.sync += at.last_word.eq(last & self._next_is_last_t(at))
            with m.If(at.last_t):
                next_is_last = port + 2 * step >= tile.c_blocks
                m.d.sync += at.last_word.eq(next_is_last & (tile.t_count == 1))
                m.d.sync += [*self._first_t(at), port.eq(port + step)]
                rows = exact_log2(step) + self.plan.log_block
                m.d.sync += at.row_addr.eq(self._whole(at.row_addr + (self.result.pitch << rows)))

    def _span(self, m, at):
        plan, tile, span, transposed = self.plan, self.tiles.p, self.spans.p, at.transposed
        bits = len(tile.l0) + plan.log_block
        first_col = Signal(bits, name="first_col")
        first_row = Signal(bits, name="first_row")
        cols = Signal(bits, name="cols")
        rows = Signal(bits, name="rows")
        most_cols = Signal(bits, name="most_cols")
        most_rows = self.column_vectors * plan.block
        few = data_register(name="few_cols")  # of the previous cycle, with an equal tile
        m.d.sync += few.eq(cols < most_cols)
        m.d.comb += [
            first_col.eq(Mux(transposed, tile.t0, tile.l0) << plan.log_block),
            first_row.eq(self._block(at) << plan.log_block),
            cols.eq(self.result.cols - first_col),
            rows.eq(self.result.rows - first_row),
            most_cols.eq(Mux(transposed, tile.t_count, tile.l_blocks << plan.log_block)),
            span.addr.eq(at.row_addr + (first_col << 2)),
            span.cols.eq(Mux(few, cols, most_cols)),
            span.vectors.eq(Mux(transposed, self._of_columns("t_blocks"), tile.l_blocks)),
            span.repeat.eq(Mux(transposed, Mux(rows < most_rows, rows, most_rows), tile.t_count)),
        ]
        if plan.word_parts > 1:
            row_ends = (at.lane + 1 == tile.l_blocks) & few  # else with the last float of the block
            last = Signal(plan.log_block, name="last_float")
            m.d.comb += [
                last.eq(Mux(row_ends, self.result.cols - 1, plan.block - 1)),
                self.last_part.eq(last[plan.log_block - len(self.last_part) :]),
            ]

    def _lookups(self, m, at):
        """Compute the places of the maxima: of the word's vector, or block of t, and of its block
        of lanes."""
        plan, tile, transposed = self.plan, self.tiles.p, at.transposed
        fused = Const(0, 1)  # the fused pass keeps the maxima of all of dY, from 0 on
        if plan.fused:  # 1 cycle late: modes are stable before tiles arrive
            fused = at.transposed if self.transposes else data_register(name="fused")
            m.d.sync += fused.eq(self.mode == Mode.FUSED)
        stream_by_row, stationary_by_row = (
            self._by_row(m, part) for part in ("stream", "stationary")
        )
        bytes_, log_block = plan.beat_bytes, plan.log_block
        stream_entry = Signal(16, name="stream_entry")
        stationary_entry = Signal(16, name="stationary_entry")
        stream_slot = tile.tile * pow2ceil(plan.stream_maxima_words)
        stationary_slot = Mux(fused, 0, tile.tile * pow2ceil(plan.stationary_maxima_words))
        stationary_first = Mux(fused, 0, tile.l0 & (bytes_ - 1))
        m.d.comb += [
            stream_entry.eq((tile.t0 & (bytes_ - 1)) + at.t_block(plan)),
            stationary_entry.eq(Mux(transposed, self._block(at), stationary_first + at.lane)),
        ]
        with m.If(stream_by_row):
            m.d.comb += stream_entry.eq(((tile.t0 << log_block) & (bytes_ - 1)) + at.t)
        with m.If(stationary_by_row):  # never in the fused pass
            first = (tile.l0 << log_block) & (bytes_ - 1)
            m.d.comb += stationary_entry.eq(first + (at.lane << log_block))
        for index, slot, entry in (
            (self.index.stream, stream_slot, stream_entry),
            (self.index.stationary, stationary_slot, stationary_entry),
        ):
            m.d.comb += [
                index.word.eq(slot + (entry >> exact_log2(bytes_))),
                index.byte.eq(entry),
            ]
        if "by_row" in self.index.stationary.shape().members:
            m.d.comb += self.index.stationary.by_row.eq(stationary_by_row)

    def _by_row(self, m, part):
        """Return whether the class of the current mode has a maximum per row of elements."""
        plan = self.plan
        place_ = ("stream", "stationary").index(part)
        modes = operands(plan, north=self.north)
        grouped = {mode for mode, classes in modes.items() if plan.grouped(classes[place_])}
        if grouped in (set(), set(modes)):
            return Const(int(bool(grouped)), 1)
        by_row = Signal(name=f"{part}_by_row")
        with m.Switch(self.mode):
            with m.Case(*grouped):
                m.d.comb += by_row.eq(1)
        return by_row
