"""The store unit: drains finished tiles of sums, makes them floats, and writes them to memory."""

from amaranth.hdl import Array, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole.bus.service import request_layout, write_beat_layout
from diastole.control.descriptors import RESULT, Mode, chunk_layout
from diastole.control.emit_rows import EmitRows, span_layout
from diastole.convert.to_float import ToFloat
from diastole.emit.place import place
from diastole.memory.accumulators import sums_layout
from diastole.memory.maxima import lookup_layout
from diastole.plan import ADDRESS_BITS, Plan, pow2ceil
from diastole.stream.fifo import StreamFifo
from diastole.stream.turn import Turn

X, W, DY = range(3)


class Drain(wiring.Component):
    """Drain the sums of one direction's output tiles, row by row, or turned block by block.

    ``tiles`` brings the descriptor of a tile whose sums are complete. The rows of the result are
    the vectors of the tile; in the fused pass the north drain has columns of dX, which it turns.
    ``freed`` says that a bank is free again.

    Timing: B sums per cycle while ``beats`` takes them; stalls otherwise.

    Parameters: ``north``: which direction; ``ports`` of the accumulators.
    """

    def __init__(self, plan: Plan, *, north: bool):
        self.plan, self.north = plan, north
        self.ports = plan.cols if north else plan.rows
        lookup = lookup_layout(plan.maxima_depth, plan.beat_bytes)
        super().__init__(
            {
                "mode": In(Mode),
                "result": In(RESULT),
                "tiles": In(stream.Signature(chunk_layout(plan))),
                "freed": Out(1),
                "busy": Out(1),
                "read_en": Out(1),
                "read_port": Out(range(max(self.ports, 2))),
                "read_addr": Out(range(2 * plan.half_words)),
                "read_data": In(sums_layout(plan, plan.accumulator_bits)),
                "stream_index": Out(lookup),
                "held_index": Out(lookup),
                "stream_value": In(8),
                "held_value": In(8),
                "overflow": Out(1),
                "requests": Out(stream.Signature(request_layout())),
                "beats": Out(stream.Signature(write_beat_layout(plan.data_width))),
                "stalled": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        emit = EmitRows(plan)
        m.submodules.emit = place(emit, platform)
        wiring.connect(m, wiring.flipped(self.requests), emit.requests)
        wiring.connect(m, wiring.flipped(self.beats), emit.beats)
        spans = StreamFifo(span_layout(plan), 4)
        m.submodules.spans = place(spans, platform)
        wiring.connect(m, spans.o, emit.spans)

        turned = Signal()
        if self.north:
            m.d.comb += turned.eq(self.mode == Mode.FUSED)
        advance = Signal()
        reading = Signal()
        self._walk(m, spans.i, turned, advance, reading)
        vectors = self._pipeline(m, platform, advance, reading)

        m.d.comb += emit.pitch.eq(self.result.pitch)
        if self.north:
            turn = Turn(side=plan.block, width=32)
            m.submodules.turn = place(turn, platform)
            m.d.comb += [
                turn.i.payload.eq(vectors.payload),
                turn.i.valid.eq(vectors.valid & turned),
                turn.o.ready.eq(emit.vectors.ready & turned),
                emit.vectors.valid.eq(Mux(turned, turn.o.valid, vectors.valid)),
                emit.vectors.payload.eq(Mux(turned, turn.o.payload, vectors.payload)),
                vectors.ready.eq(Mux(turned, turn.i.ready, emit.vectors.ready)),
                self.busy.eq(
                    self.tiles.valid | vectors.busy | turn.level | spans.o.valid | emit.busy
                ),
            ]
        else:
            m.d.comb += [
                emit.vectors.valid.eq(vectors.valid),
                emit.vectors.payload.eq(vectors.payload),
                vectors.ready.eq(emit.vectors.ready),
                self.busy.eq(self.tiles.valid | vectors.busy | spans.o.valid | emit.busy),
            ]
        m.d.comb += self.stalled.eq(reading & ~advance)
        return m

    def _walk(self, m, spans, turned, advance, reading):
        """Addresses of the sums of one tile, in the order in which the result's rows need them."""
        plan = self.plan
        tile = self.tiles.p
        t = Signal(range(plan.tile_words + 1))
        inner = Signal.like(tile.l_blocks, name="inner")
        # Rows: t outermost, blocks of lanes inside. Turned: ports, blocks of t, vectors of a block.
        port = Signal(range(max(self.ports, 2)))
        group = Signal(range(plan.half_words + 1))
        half = Signal()
        row_addr = Signal(ADDRESS_BITS)
        started = Signal()
        last_read = Signal()
        words = self._tile_words()
        unit = self._t_index(t)
        last_inner = Signal()
        last_t = Signal()
        ends = Signal()
        span_due = Signal()
        m.d.comb += reading.eq(self.tiles.valid & started & (~span_due | spans.ready))

        # The bank is free when the pipeline has taken its last word from the memory's output.
        with m.If(advance):
            m.d.sync += last_read.eq(self.tiles.ready)

        with m.If(self.tiles.valid & ~started):
            m.d.sync += [started.eq(1), t.eq(0), inner.eq(0), port.eq(0), group.eq(0)]
            self._start_tile(m, tile, turned, row_addr, words)
        m.d.comb += [
            self.read_port.eq(port),
            self.read_addr.eq(half * plan.half_words + group * words + t),
            self.read_en.eq(reading & advance),
            self.tiles.ready.eq(reading & advance & ends),
            self.freed.eq(last_read & advance),
        ]
        block_t = t & (plan.block - 1)
        with m.If(~turned):
            m.d.comb += [
                last_inner.eq(inner == tile.l_blocks - 1),
                last_t.eq(t == tile.t_count - 1),
                ends.eq(last_inner & last_t),
                span_due.eq((t == 0) & (inner == 0)),
            ]
        with m.Else():  # t runs to the end of its last block; what is beyond is masked later
            m.d.comb += [
                last_inner.eq(port == tile.c_blocks - 1),
                last_t.eq(unit == tile.t_blocks - 1),
                ends.eq(last_inner & last_t & (block_t == plan.block - 1)),
                span_due.eq(block_t == 0),
            ]
        with m.If(self.read_en):
            with m.If(~turned):
                m.d.sync += [inner.eq(inner + 1), port.eq(port + 1)]
                with m.If(port == self.ports - 1):
                    m.d.sync += [port.eq(0), group.eq(group + 1)]
                with m.If(last_inner):
                    m.d.sync += [inner.eq(0), port.eq(0), group.eq(0), t.eq(t + 1)]
            with m.Else():
                m.d.sync += t.eq(t + 1)
                with m.If(last_t & (block_t == plan.block - 1)):
                    m.d.sync += [t.eq(0), port.eq(port + 1)]
                    m.d.sync += row_addr.eq(row_addr + (self.result.pitch << plan.log_block))
            with m.If(ends):
                m.d.sync += [started.eq(0), half.eq(~half)]
        due = started & span_due & advance
        self._span(m, spans, tile, turned, row_addr, unit, port, due)
        self._lookups(m, tile, turned, unit, inner, port)

    def _tile_words(self):
        plan = self.plan
        if not plan.in_place:
            return plan.tile_words
        return Mux(self.mode == Mode.FUSED, plan.fused_tile_words, plan.tile_words)

    def _t_index(self, t):
        """Block of the tile that vector t belongs to."""
        return t >> self.plan.log_block

    def _start_tile(self, m, tile, turned, row_addr, words):
        """The address of the tile's first row, from that of the tile before."""
        pitch = self.result.pitch
        with m.If(turned):
            with m.If(tile.c0 == 0):
                m.d.sync += row_addr.eq(self.result.base)
        with m.Elif(tile.t0 == 0):
            m.d.sync += row_addr.eq(self.result.base)
        with m.Elif(tile.l0 == 0):
            m.d.sync += row_addr.eq(row_addr + pitch * words)

    def _span(self, m, spans, tile, turned, row_addr, unit, port, due):
        plan = self.plan
        first_col = Signal(len(tile.l0) + plan.log_block, name="first_col")
        first_row = Signal(len(tile.l0) + plan.log_block, name="first_row")
        cols = Signal.like(first_col, name="cols")
        rows = Signal.like(first_row, name="rows")
        most_cols = Signal.like(first_col)
        span = spans.p
        m.d.comb += [
            first_col.eq(Mux(turned, tile.t0 + unit, tile.l0) << plan.log_block),
            first_row.eq((tile.c0 + port) << plan.log_block),
            cols.eq(self.result.cols - first_col),
            rows.eq(self.result.rows - first_row),
            most_cols.eq(Mux(turned, plan.block, tile.l_blocks << plan.log_block)),
            spans.valid.eq(self.tiles.valid & due),
            span.addr.eq(row_addr + (first_col << 2)),
            span.cols.eq(Mux(cols < most_cols, cols, most_cols)),
            span.vectors.eq(Mux(turned, 1, tile.l_blocks)),
            span.repeat.eq(Mux(turned, Mux(rows < plan.block, rows, plan.block), tile.t_count)),
            span.whole.eq(Mux(turned, plan.block, tile.t_count)),
        ]

    def _lookups(self, m, tile, turned, unit, inner, port):
        plan = self.plan
        bytes_, shift = plan.beat_bytes, plan.beat_bytes.bit_length() - 1
        fused = self.mode == Mode.FUSED
        stream_entry = Signal(16)
        held_entry = Signal(16)
        held_slot = Mux(fused, 0, tile.tile * pow2ceil(plan.held_maxima_words))
        held_first = Mux(fused, 0, tile.l0 & (bytes_ - 1))
        m.d.comb += [
            stream_entry.eq((tile.t0 & (bytes_ - 1)) + unit),
            held_entry.eq(Mux(turned, tile.c0 + port, held_first + inner)),
            self.stream_index.word.eq(
                tile.tile * pow2ceil(plan.stream_maxima_words) + (stream_entry >> shift)
            ),
            self.stream_index.byte.eq(stream_entry),
            self.held_index.word.eq(held_slot + (held_entry >> shift)),
            self.held_index.byte.eq(held_entry),
        ]

    def _pipeline(self, m, platform, advance, reading):
        """Memory, then ToFloat on B lanes; all stages move together, or none."""
        plan = self.plan
        lanes = [ToFloat(sum_bits=plan.accumulator_bits, scale_bits=12) for _ in range(plan.block)]
        depth = 1 + lanes[0].latency
        valids = [reading] + [Signal(name=f"valid_{k}") for k in range(1, depth + 1)]
        for before, after in zip(valids, valids[1:], strict=False):
            with m.If(advance):
                m.d.sync += after.eq(before)
        scale = Signal(signed(12))
        m.d.comb += scale.eq(self.stream_value + self.held_value - self._offset(m))
        vectors = _Vectors(plan, valids)
        overflows = []
        for number, lane in enumerate(lanes):
            m.submodules[f"to_float_{number}"] = place(lane, platform)
            m.d.comb += [
                lane.enable.eq(advance),
                lane.sum.eq(self.read_data[number]),
                lane.scale.eq(scale),
                vectors.payload[number].eq(lane.result),
            ]
            overflows.append(lane.overflow)
        overflow = Signal(plan.block, name="overflow_lanes")
        for number, bit in enumerate(overflows):
            m.d.comb += overflow[number].eq(bit)
        m.d.comb += [
            vectors.busy.eq(sum(valids) != 0),
            vectors.valid.eq(valids[-1]),
            advance.eq(~valids[-1] | vectors.ready),
            self.overflow.eq(valids[-1] & (overflow != 0)),
        ]
        return vectors

    def _offset(self, m):
        """254 + F + (mA - 1) + (mB - 1): biases, fraction bits and mantissas of the operands."""
        plan = self.plan
        x, w, dy = plan.mantissas
        pairs = {Mode.FORWARD: x + w, Mode.DX: w + dy, Mode.DW: x + dy}
        pairs[Mode.FUSED] = w + dy if self.north else x + dy
        offset = Signal(10, name="offset")
        table = [254 + plan.fraction + pairs[mode] - 2 for mode in Mode]
        m.d.comb += offset.eq(Array(table)[self.mode.as_value()])
        return offset


class _Vectors:
    """The pipeline's output: a stream in all but its ``busy``."""

    def __init__(self, plan: Plan, valids):
        self.payload = Signal(data.ArrayLayout(unsigned(32), plan.block), name="floats")
        self.valid = Signal(name="floats_valid")
        self.ready = Signal(name="floats_ready")
        self.busy = Signal(name="floats_busy")
