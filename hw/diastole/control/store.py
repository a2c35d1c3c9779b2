"""The store unit: drains finished tiles of sums, makes them floats, and writes them to memory."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole.bus.service import request_layout, write_beat_layout
from diastole.control.descriptors import PRODUCT, RESULT, chunk_layout
from diastole.control.drain_walk import DrainWalk, drain_lookups, operands
from diastole.control.emit_rows import EmitRows, span_layout
from diastole.convert.float_lanes import FloatLanes
from diastole.emit.place import place
from diastole.memory.accumulators import sums_layout
from diastole.memory.maxima import lookup_layout, scale_exponent, values_layout
from diastole.plan import Plan
from diastole.stream.fifo import StreamFifo
from diastole.stream.turn import Turn
from diastole.uses import Mode
from diastole_sim.formats import EXPONENT_BIAS, SIGNIFICAND_FRACTION
from diastole_sim.numerics import CLASS_NAMES

EXPONENTS = PRODUCT["exponents"].shape
# Where scales are numbers of their own (NVFP4): twice the bias of their exponents, less the 2 of an
# element's largest exponent; and the fraction bits of their two significands.
SCALE_OFFSET = 2 * (7 - 2) + 2 * SIGNIFICAND_FRACTION


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
        self.entries = drain_lookups(plan, north=north)
        lookups = {}
        for part, entries in self.entries.items():
            lookups[f"{part}_index"] = Out(lookup_layout(plan, entries))
            lookups[f"{part}_value"] = In(values_layout(entries))
        super().__init__(
            {
                "mode": In(Mode),
                "exponents": In(EXPONENTS),
                "result": In(RESULT),
                "tiles": In(stream.Signature(chunk_layout(plan))),
                "freed": Out(1),
                "busy": Out(1),
                "read_en": Out(1),
                "read_port": Out(range(max(ports, 2))),
                "read_addr": Out(range(2 * plan.half_words)),
                "read_data": In(sums_layout(plan, plan.accumulator_bits)),
                "overflow": Out(1),
                "requests": Out(stream.Signature(request_layout())),
                "beats": Out(stream.Signature(write_beat_layout(plan.data_width))),
                "stalled": Out(1),
            }
            | lookups
        )

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        walk = DrainWalk(plan, north=self.north)
        floats = FloatLanes(
            lanes=plan.block,
            sum_bits=plan.accumulator_bits,
            bounds=self.entries["held"],
            poisonable=plan.poison,
        )
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
            floats.sums.eq(self.read_data.sums),
            floats.stream.eq(scale_exponent(plan, self.stream_value[0])),
            emit.pitch.eq(self.result.pitch),
            self.overflow.eq(floats.overflow),
            self.stalled.eq(walk.read_valid & ~floats.advance),
        ]
        for lane, value in enumerate(self.held_value):
            m.d.comb += floats.held[lane].eq(scale_exponent(plan, value))
        if plan.poison:
            m.d.comb += floats.poison.eq(self.read_data.poison)
        self._offset(m, floats.offset)
        turning = self._turn(m, platform, floats.o, emit.vectors)
        waiting = self.tiles.valid | floats.busy | spans.o.valid
        m.d.comb += self.busy.eq(waiting | turning | emit.busy)
        return m

    def _offset(self, m, offset):
        """By mode: what is in the sum of two stored exponents beside a sum's scale."""
        plan = self.plan
        by_mode = {}
        for mode, (streamed, held) in operands(plan, north=self.north).items():
            width = plan.numerics.product_bits(CLASS_NAMES[streamed], CLASS_NAMES[held])
            by_mode[mode] = 2 * EXPONENT_BIAS + plan.fraction + width - 2
            if plan.significands:
                fixed = SCALE_OFFSET + plan.fraction + width - 2
                by_mode[mode] = fixed - self.exponents[streamed] - self.exponents[held]
        table = [by_mode.get(mode, 0) for mode in Mode]
        m.d.comb += offset.eq(Array(table)[self.mode.as_value()])

    def _turn(self, m, platform, floats, vectors):
        """Between floats and rows; returns whether anything is in the turning array."""
        if not (self.north and self.plan.fused):
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
