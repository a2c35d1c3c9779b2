"""The order in which an output tile's sums leave the accumulators, and where their rows go."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole.control.descriptors import RESULT, chunk_layout
from diastole.control.emit_rows import span_layout
from diastole.memory.maxima import OF_DIRECTION, lookup_layout, maxima_entries
from diastole.plan import ADDRESS_BITS, Plan, pow2ceil
from diastole.uses import DY, PRODUCTS, Mode, W, X


def operands(plan: Plan, *, north: bool) -> dict[Mode, tuple[int, int]]:
    """By mode that has sums in this direction: the class that streams, and the one that is held."""
    uses = {mode: plan.use(mode) for mode in PRODUCTS}
    found = {mode: (use.stream, use.held) for mode, use in uses.items() if use.north == north}
    if plan.fused:
        found[Mode.FUSED] = (W if north else X, DY)
    return found


def drain_lookups(plan: Plan, *, north: bool) -> dict[str, int]:
    """How many maxima the drain of a direction gets of what streams, and of what is held."""
    names = OF_DIRECTION["north" if north else "east"]
    entries = [maxima_entries(plan, name, "drain") for name in names]
    return dict(zip(("stream", "held"), entries, strict=True))


class DrainWalk(wiring.Component):
    """Read every sum of a tile once, word by word, with the maxima that bound it.

    *By rows*: the tile's vectors are rows of the result; t outermost, blocks of lanes inside, and
    one span for the tile. *Turned* (the north side of the fused pass): its vectors are columns of
    dX; ports outermost, then blocks of t, then the vectors of a block, and one span per block.

    Timing: one word per cycle while ``advance``; ``read_valid`` says that one is read. ``freed``
    pulses when the memory's output has been taken for the last time.

    Parameters: ``north``, the direction: whether tiles may be turned, and how many ports there are.
    """

    tiles: stream.Interface
    spans: stream.Interface
    result: data.View

    def __init__(self, plan: Plan, *, north: bool):
        self.plan, self.north = plan, north
        self.ports = plan.cols if north else plan.rows
        lookups = {
            f"{part}_index": Out(lookup_layout(plan, entries))
            for part, entries in drain_lookups(plan, north=north).items()
        }
        super().__init__(
            {
                "mode": In(Mode),
                "result": In(RESULT),
                "tiles": In(stream.Signature(chunk_layout(plan))),
                "spans": Out(stream.Signature(span_layout(plan))),
                "advance": In(1),
                "read_valid": Out(1),
                "read_port": Out(range(max(self.ports, 2))),
                "read_addr": Out(range(2 * plan.half_words)),
                "freed": Out(1),
            }
            | lookups
        )

    def elaborate(self, platform):
        m = Module()
        plan, tile = self.plan, self.tiles.p
        self._turned = Signal(name="turned")
        if self._turns:
            m.d.comb += self._turned.eq(self.mode == Mode.FUSED)
        self._t = Signal(range(plan.tile_words + 1), name="t")
        self._lane = Signal.like(tile.l_blocks, name="lane")
        self._port = Signal(range(max(self.ports, 2)), name="port")
        self._group = Signal(range(plan.half_words + 1), name="group")
        self._row_addr = Signal(ADDRESS_BITS, name="row_addr")
        self._ends = Signal(name="ends")  # the last word of the tile
        started = Signal(name="started")
        span_due = Signal(name="span_due")
        half = Signal(name="half")
        last_read = Signal(name="last_read")
        steps = Signal(name="steps")

        with m.If(self.tiles.valid & ~started):
            m.d.sync += started.eq(1)
            self._start(m)
        m.d.comb += [
            self.read_valid.eq(self.tiles.valid & started & (~span_due | self.spans.ready)),
            steps.eq(self.read_valid & self.advance),
            self.read_port.eq(self._port),
            self.read_addr.eq(half * plan.half_words + self._group * self._tile_words() + self._t),
            self.spans.valid.eq(self.tiles.valid & started & span_due & self.advance),
            self.tiles.ready.eq(steps & self._ends),
            self.freed.eq(last_read & self.advance),
        ]
        with m.If(self.advance):
            m.d.sync += last_read.eq(self.tiles.ready)
        if self._turns:
            with m.If(self._turned):
                self._by_blocks(m, span_due, steps)
            with m.Else():
                self._by_rows(m, span_due, steps)
        else:
            self._by_rows(m, span_due, steps)
        with m.If(steps & self._ends):
            m.d.sync += [started.eq(0), half.eq(~half)]
        self._span(m)
        self._lookups(m)
        return m

    @property
    def _turns(self) -> bool:
        return self.north and self.plan.fused

    @property
    def _t_block(self):
        """Block of the tile that vector t belongs to."""
        return self._t >> self.plan.log_block

    def _tile_words(self):
        plan = self.plan
        if not plan.fused:
            return plan.tile_words
        return Mux(self.mode == Mode.FUSED, plan.fused_tile_words, plan.tile_words)

    def _start(self, m):
        """First word of a tile; the address of its first row follows from the tile before."""
        tile, base, pitch = self.tiles.p, self.result.base, self.result.pitch
        m.d.sync += [self._t.eq(0), self._lane.eq(0), self._port.eq(0), self._group.eq(0)]
        first = Mux(self._turned, tile.c0 == 0, tile.t0 == 0)
        with m.If(first):
            m.d.sync += self._row_addr.eq(base)
        with m.Elif(~self._turned & (tile.l0 == 0)):
            m.d.sync += self._row_addr.eq(self._row_addr + pitch * self._tile_words())

    def _by_rows(self, m, span_due, steps):
        tile, t, lane, port, group = self.tiles.p, self._t, self._lane, self._port, self._group
        last_lane = lane == tile.l_blocks - 1
        m.d.comb += [
            self._ends.eq(last_lane & (t == tile.t_count - 1)),
            span_due.eq((t == 0) & (lane == 0)),
        ]
        with m.If(steps):
            m.d.sync += [lane.eq(lane + 1), port.eq(port + 1)]
            with m.If(port == self.ports - 1):
                m.d.sync += [port.eq(0), group.eq(group + 1)]
            with m.If(last_lane):
                m.d.sync += [lane.eq(0), port.eq(0), group.eq(0), t.eq(t + 1)]

    def _by_blocks(self, m, span_due, steps):
        """t runs to the end of its last block; what is beyond is masked later."""
        plan, tile, t, port = self.plan, self.tiles.p, self._t, self._port
        in_block = t & (plan.block - 1)
        last_t = (self._t_block == tile.t_blocks - 1) & (in_block == plan.block - 1)
        m.d.comb += [
            self._ends.eq((port == tile.c_blocks - 1) & last_t),
            span_due.eq(in_block == 0),
        ]
        with m.If(steps):
            m.d.sync += t.eq(t + 1)
            with m.If(last_t):
                m.d.sync += [t.eq(0), port.eq(port + 1)]
                m.d.sync += self._row_addr.eq(
                    self._row_addr + (self.result.pitch << plan.log_block)
                )

    def _span(self, m):
        plan, tile, span, turned = self.plan, self.tiles.p, self.spans.p, self._turned
        bits = len(tile.l0) + plan.log_block
        first_col = Signal(bits, name="first_col")
        first_row = Signal(bits, name="first_row")
        cols = Signal(bits, name="cols")
        rows = Signal(bits, name="rows")
        most_cols = Signal(bits, name="most_cols")
        m.d.comb += [
            first_col.eq(Mux(turned, tile.t0 + self._t_block, tile.l0) << plan.log_block),
            first_row.eq((tile.c0 + self._port) << plan.log_block),
            cols.eq(self.result.cols - first_col),
            rows.eq(self.result.rows - first_row),
            most_cols.eq(Mux(turned, plan.block, tile.l_blocks << plan.log_block)),
            span.addr.eq(self._row_addr + (first_col << 2)),
            span.cols.eq(Mux(cols < most_cols, cols, most_cols)),
            span.vectors.eq(Mux(turned, 1, tile.l_blocks)),
            span.repeat.eq(Mux(turned, Mux(rows < plan.block, rows, plan.block), tile.t_count)),
            span.whole.eq(Mux(turned, plan.block, tile.t_count)),
        ]

    def _lookups(self, m):
        """The maxima of the word's vector, or block of t, and of its block of lanes."""
        plan, tile, turned = self.plan, self.tiles.p, self._turned
        fused = Const(0, 1)  # which keeps the maxima of all of dY, from 0 on
        if plan.fused:
            fused = self.mode == Mode.FUSED
        stream_by_row, held_by_row = (self._by_row(m, part) for part in ("stream", "held"))
        bytes_, log_block = plan.beat_bytes, plan.log_block
        stream_entry = Signal(16, name="stream_entry")
        held_entry = Signal(16, name="held_entry")
        stream_slot = tile.tile * pow2ceil(plan.stream_maxima_words)
        held_slot = Mux(fused, 0, tile.tile * pow2ceil(plan.held_maxima_words))
        held_first = Mux(fused, 0, tile.l0 & (bytes_ - 1))
        m.d.comb += [
            stream_entry.eq((tile.t0 & (bytes_ - 1)) + self._t_block),
            held_entry.eq(Mux(turned, tile.c0 + self._port, held_first + self._lane)),
        ]
        with m.If(stream_by_row):
            m.d.comb += stream_entry.eq(((tile.t0 << log_block) & (bytes_ - 1)) + self._t)
        with m.If(held_by_row):  # never in the fused pass
            first = (tile.l0 << log_block) & (bytes_ - 1)
            m.d.comb += held_entry.eq(first + (self._lane << log_block))
        for index, slot, entry in (
            (self.stream_index, stream_slot, stream_entry),
            (self.held_index, held_slot, held_entry),
        ):
            m.d.comb += [
                index.word.eq(slot + (entry >> exact_log2(bytes_))),
                index.byte.eq(entry),
            ]
        if "by_row" in self.held_index.shape().members:
            m.d.comb += self.held_index.by_row.eq(held_by_row)

    def _by_row(self, m, part):
        """Whether the class of the mode at hand has a maximum per row of elements."""
        plan = self.plan
        place_ = ("stream", "held").index(part)
        modes = operands(plan, north=self.north)
        grouped = {mode for mode, classes in modes.items() if plan.grouped(classes[place_])}
        if grouped in (set(), set(modes)):
            return Const(int(bool(grouped)), 1)
        by_row = Signal(name=f"{part}_by_row")
        with m.Switch(self.mode):
            with m.Case(*grouped):
                m.d.comb += by_row.eq(1)
        return by_row
