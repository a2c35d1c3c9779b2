"""The store unit: drains finished tiles of sums, makes them floats, and writes them to memory."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole.bus.service import request_layout, write_beat_layout
from diastole.control.descriptors import RESULT, Mode, chunk_layout
from diastole.control.drain_walk import DrainWalk
from diastole.control.emit_rows import EmitRows, span_layout
from diastole.convert.float_lanes import FloatLanes
from diastole.emit.place import place
from diastole.memory.accumulators import sums_layout
from diastole.memory.maxima import lookup_layout
from diastole.plan import Plan
from diastole.stream.fifo import StreamFifo
from diastole.stream.turn import Turn
from diastole_sim.formats import EXPONENT_BIAS


class Drain(wiring.Component):
    """Drain one direction's output tiles: walk, floats, turning where columns come, rows.

    ``tiles`` brings the descriptor of a tile whose sums are complete; ``freed`` says that its bank
    is free again. ``overflow`` is high in the cycles in which a result is too large. ``stalled``: a
    word could be read, and the bus did not take what is before it.

    Timing: B sums per cycle while ``beats`` takes them.

    Parameters: ``north``, the direction.
    """

    result: data.View
    tiles: stream.Interface
    requests: stream.Interface
    beats: stream.Interface

    def __init__(self, plan: Plan, *, north: bool):
        self.plan, self.north = plan, north
        ports = plan.cols if north else plan.rows
        lookup = lookup_layout(plan.maxima_depth, plan.beat_bytes)
        super().__init__(
            {
                "mode": In(Mode),
                "result": In(RESULT),
                "tiles": In(stream.Signature(chunk_layout(plan))),
                "freed": Out(1),
                "busy": Out(1),
                "read_en": Out(1),
                "read_port": Out(range(max(ports, 2))),
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
        walk = DrainWalk(plan, north=self.north)
        floats = FloatLanes(lanes=plan.block, sum_bits=plan.accumulator_bits)
        spans = StreamFifo(span_layout(plan), 4)
        emit = EmitRows(plan)
        units = {"walk": walk, "floats": floats, "spans": spans, "emit": emit}
        for name, unit in units.items():
            m.submodules[name] = place(unit, platform)
        wiring.connect(m, wiring.flipped(self.tiles), walk.tiles)
        wiring.connect(m, walk.spans, spans.i)
        wiring.connect(m, spans.o, emit.spans)
        wiring.connect(m, wiring.flipped(self.requests), emit.requests)
        wiring.connect(m, wiring.flipped(self.beats), emit.beats)
        m.d.comb += [
            walk.mode.eq(self.mode),
            walk.result.eq(self.result),
            walk.advance.eq(floats.advance),
            self.freed.eq(walk.freed),
            self.read_en.eq(walk.read_valid & floats.advance),
            self.read_port.eq(walk.read_port),
            self.read_addr.eq(walk.read_addr),
            self.stream_index.eq(walk.stream_index),
            self.held_index.eq(walk.held_index),
            floats.read_valid.eq(walk.read_valid),
            floats.sums.eq(self.read_data),
            floats.maxima[0].eq(self.stream_value),
            floats.maxima[1].eq(self.held_value),
            floats.offset.eq(Array(self._offsets())[self.mode.as_value()]),
            emit.pitch.eq(self.result.pitch),
            self.overflow.eq(floats.overflow),
            self.stalled.eq(walk.read_valid & ~floats.advance),
        ]
        turning = self._turn(m, platform, floats.o, emit.vectors)
        waiting = self.tiles.valid | floats.busy | spans.o.valid
        m.d.comb += self.busy.eq(waiting | turning | emit.busy)
        return m

    def _offsets(self) -> list[int]:
        """By mode: what is in the sum of two stored exponents beside a sum's scale."""
        plan = self.plan
        x, w, dy = (f.point for f in plan.formats)
        points = {Mode.FORWARD: x + w, Mode.DX: w + dy, Mode.DW: x + dy}
        points[Mode.FUSED] = w + dy if self.north else x + dy
        return [2 * EXPONENT_BIAS + plan.fraction + points[mode] for mode in Mode]

    def _turn(self, m, platform, floats, vectors):
        """Between floats and rows; returns whether anything is in the turning array."""
        if not self.north:
            wiring.connect(m, floats, vectors)
            return 0
        turn = Turn(side=self.plan.block, width=32)
        m.submodules.turn = place(turn, platform)
        turned = Signal()
        m.d.comb += [
            turned.eq(self.mode == Mode.FUSED),
            turn.i.payload.eq(floats.payload),
            turn.i.valid.eq(floats.valid & turned),
            turn.o.ready.eq(vectors.ready & turned),
            vectors.valid.eq(Mux(turned, turn.o.valid, floats.valid)),
            vectors.payload.eq(Mux(turned, turn.o.payload, floats.payload)),
            floats.ready.eq(Mux(turned, turn.i.ready, vectors.ready)),
        ]
        return turn.level
