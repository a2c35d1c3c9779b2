"""The store unit: drains finished tiles of sums, makes them floats, and writes them to memory."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.services import request_layout, write_beat_layout
from diastole_hw.memory.accumulators import SumsReadSignature
from diastole_hw.memory.maxima import drain_entries, drain_signature, scale_exponent
from diastole_hw.place import place
from diastole_hw.plan.plan import SUM_UNITS, Plan
from diastole_hw.plan.uses import Mode
from diastole_hw.ports import of_ports, per_port
from diastole_hw.schedule.tokens import LENGTH, PRODUCT, RESULT, drained_layout, span_layout
from diastole_hw.store.deal import EmitPorts
from diastole_hw.store.drain_walk import DrainWalk, operands, turns
from diastole_hw.store.float_lanes import FloatLanes
from diastole_hw.store.rows import EmitRows
from diastole_hw.store.turn import TurnTile
from diastole_hw.stream.fifo import StreamFifo
from diastole_sim.spec.formats import EXPONENT_BIAS, NVFP4, SIGNIFICAND_FRACTION
from diastole_sim.spec.numerics import CLASS_NAMES

EXPONENTS = PRODUCT["exponents"].shape
# Where scales are numbers of their own: both exponents' offsets, and the fraction bits of their
# two significands.
SCALE_OFFSET = 2 * NVFP4.scale_offset + 2 * SIGNIFICAND_FRACTION


class Drain(wiring.Component):
    """Drain one direction's output tiles: walk, floats, turning where columns come, rows.

    Timing: V_d vectors of B sums per cycle (:meth:`diastole_hw.plan.plan.Plan.drain_vectors`; where
    columns come, as many as :func:`diastole_hw.store.turn.column_vectors` says) while ``beats``
    takes them, but for the idle cycles that :class:`diastole_hw.store.drain_walk.DrainWalk` has per
    tile, and :class:`diastole_hw.store.rows.EmitRows` per span. A word that is read in cycle t is
    in a beat from t + 1 + ``ToFloat.latency`` on; where columns come, the rows of a word are asked
    for when all columns have been read, 3 cycles later at the earliest.

    Parameters
    ----------
    plan : Plan
    north : bool
        The direction.

    Members
    -------
    mode : In(Mode)
        Stable while ``busy``, as ``exponents`` and ``result``.
    exponents : In(EXPONENTS)
        By class: what its groups' exponents are relative to; read where groups have scales.
    result : In(RESULT)
    lanes_outermost : In(1)
        Its tiles come column by column.
    t_step, units : In(LENGTH), In(range(SUM_UNITS))
        Blocks of a T tile; units of sums that a tile takes.
    tiles : In(stream of drained_layout(plan, turned=turns(plan, north=north)))
        Tiles whose sums are complete, in the order that the walk asks for.
    freed : Out(1)
        A tile's sums have been read: a pulse for each.
    busy : Out(1)
        A tile is here, or some of its floats.
    read : Out(SumsReadSignature(plan, ports, V_d))
        The accumulators' words.
    lookup : Out(drain_signature(plan, direction))
        The maxima that bound a word, looked up with ``read``.
    overflow : Out(1)
        High in the cycles in which a vector with a result that is too large waits to be taken.
    requests : Out(stream of request_layout())
    beats : Out(stream of write_beat_layout(plan.data_width))
        Of every request, in their order; neither stream waits for the other.
    requests_1, beats_1
        Likewise, where there is a second port to memory: every second row of a span.
    stalled : Out(1)
        A word could be read, and the bus did not take what is before it.
    """

    result: data.View
    read: wiring.PureInterface
    tiles: stream.Interface
    requests: stream.Interface
    beats: stream.Interface
    lookup: wiring.PureInterface

    def __init__(self, plan: Plan, *, north: bool):
        self.plan, self.north = plan, north
        ports = plan.cols if north else plan.rows
        self.vectors = plan.drain_vectors(north=north)
        self.direction = "north" if north else "east"
        beats = stream.Signature(write_beat_layout(plan.data_width))
        super().__init__(
            {
                "mode": In(Mode),
                "exponents": In(EXPONENTS),
                "result": In(RESULT),
                "lanes_outermost": In(1),
                "t_step": In(LENGTH),
                "units": In(range(SUM_UNITS)),
                "tiles": In(
                    stream.Signature(drained_layout(plan, turned=turns(plan, north=north)))
                ),
                "freed": Out(1),
                "busy": Out(1),
                "read": Out(SumsReadSignature(plan, ports, self.vectors)),
                "overflow": Out(1),
            }
            | per_port("requests", Out(stream.Signature(request_layout())), plan.ports)
            | per_port("beats", Out(beats), plan.ports)
            | {"stalled": Out(1), "lookup": Out(drain_signature(plan, self.direction))}
        )

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        walk = DrainWalk(plan, north=self.north)
        floats = FloatLanes(
            lanes=self.vectors * plan.block,
            sum_bits=plan.accumulator_bits,
            vectors=self.vectors,
            bounds=drain_entries(plan, self.direction)["held"].count,
            poisonable=plan.poison,
        )
        spans = StreamFifo(span_layout(plan), 2)
        kind = EmitRows if plan.ports == 1 else EmitPorts
        emit = kind(plan, vectors=self.vectors)
        units = {"walk": walk, "floats": floats, "spans": spans, "emit": emit}
        for name, unit in units.items():
            m.submodules[name] = place(unit, platform)
        wiring.connect(m, wiring.flipped(self.tiles), walk.tiles)
        wiring.connect(m, walk.spans, spans.i)
        for name in ("requests", "beats"):
            outer, inner = (of_ports(unit, name, plan.ports) for unit in (self, emit))
            for mine, its in zip(outer, inner, strict=True):
                wiring.connect(m, wiring.flipped(mine), its)
        m.d.comb += [
            walk.mode.eq(self.mode),
            walk.result.eq(self.result),
            walk.lanes_outermost.eq(self.lanes_outermost),
            walk.t_step.eq(self.t_step),
            walk.units.eq(self.units),
            walk.advance.eq(floats.advance),
            self.freed.eq(walk.freed),
            self.read.en.eq(Mux(floats.advance, walk.read_valid, 0)),
            self.read.port.eq(walk.read_port),
            self.read.addr.eq(walk.read_addr),
            self.lookup.enable.eq(self.read.en.any()),
            self.lookup.stream.index.eq(walk.index.stream),
            self.lookup.held.index.eq(walk.index.held),
            floats.read_valid.eq(walk.read_valid),
            floats.sums.eq(Cat(word.sums for word in self.read.data)),
            floats.stream.eq(scale_exponent(plan, self.lookup.stream.value[0])),
            emit.pitch.eq(self.result.pitch),
            self.overflow.eq(floats.overflow),
            self.stalled.eq(walk.read_valid.any() & ~floats.advance),
        ]
        if self.vectors > 1:
            m.d.comb += self.read.wrapped_addr.eq(walk.read_wrapped_addr)
        for lane, value in enumerate(self.lookup.held.value):
            m.d.comb += floats.held[lane].eq(scale_exponent(plan, value))
        if plan.poison:
            m.d.comb += floats.poison.eq(Cat(word.poison for word in self.read.data))
        self._offset(m, floats.offset)
        self._turn(m, platform, spans.o, floats.o, emit)
        # What turns has its span in front of the memory, or, in the next cycle, behind it.
        m.d.comb += self.busy.eq(self.tiles.valid | floats.busy | spans.o.valid | emit.busy)
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

    def _turn(self, m, platform, spans, floats, emit):
        """Between floats and rows."""
        words = emit.words
        if not turns(self.plan, north=self.north):
            wiring.connect(m, spans, emit.spans)
            wiring.connect(m, floats, words)
            return
        turn = TurnTile(self.plan)
        m.submodules.turn = place(turn, platform)
        turned = Signal()
        m.d.comb += [
            turned.eq(self.mode == Mode.FUSED),
            Cat(turn.columns.payload).eq(Cat(floats.payload)),  # of its first vectors
            turn.columns.valid.eq(floats.valid & turned),
            turn.spans_in.payload.eq(spans.payload),
            turn.spans_in.valid.eq(spans.valid & turned),
            turn.words.ready.eq(words.ready),
            turn.spans.ready.eq(emit.spans.ready),
            words.valid.eq(Mux(turned, turn.words.valid, floats.valid)),
            words.payload.eq(Mux(turned, turn.words.payload.as_value(), floats.payload.as_value())),
            floats.ready.eq(Mux(turned, turn.columns.ready, words.ready)),
            emit.spans.valid.eq(Mux(turned, turn.spans.valid, spans.valid)),
            emit.spans.payload.eq(Mux(turned, turn.spans.p.as_value(), spans.p.as_value())),
            spans.ready.eq(Mux(turned, turn.spans_in.ready, emit.spans.ready)),
        ]
