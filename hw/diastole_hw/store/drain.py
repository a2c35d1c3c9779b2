"""Read finished tiles of sums of one direction, and write their floats to memory."""

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.services import request_layout, write_beat_layout
from diastole_hw.data_registers import data_register
from diastole_hw.memory.accumulators import SumsReadSignature
from diastole_hw.memory.maxima import drain_signature, scale_exponent
from diastole_hw.plan.modes import Mode
from diastole_hw.plan.plan import Plan
from diastole_hw.ports import of_ports, per_port
from diastole_hw.schedule.tokens import PRODUCT, RESULT, drained_layout, length_shapes
from diastole_hw.store.distribute_rows import EmitPorts
from diastole_hw.store.drain_walk import DrainWalk, operands, transposes
from diastole_hw.store.emit_rows import EmitRows
from diastole_hw.store.float_pipe import DrainedSignature
from diastole_hw.store.transpose_tile import TransposeTile, piece_floats
from diastole_sim.spec.formats import EXPONENT_BIAS, NVFP4, SIGNIFICAND_FRACTION
from diastole_sim.spec.numerics import CLASS_NAMES

EXPONENTS = PRODUCT["exponents"].shape
# Constants where group scales are numbers with a significand (NVFP4): the offsets of both
# exponents, and the fraction bits of both significands.
SCALE_OFFSET = 2 * NVFP4.scale_offset + 2 * SIGNIFICAND_FRACTION


class Drain(wiring.Component):
    """Drain the output tiles of one direction: walk, convert to floats, transpose columns, write
    rows.

    A ``chained`` result is passed on block by block instead, and nothing is written. Rows of blocks
    of a tile ascend, blocks in a row of blocks ascend, and a block is passed as its B rows. Rows
    and lanes beyond the result are undefined.

    Timing: V_d vectors of B sums per cycle (:meth:`diastole_hw.plan.plan.Plan.drain_vectors`; for
    columns, as many as :func:`diastole_hw.store.transpose_tile.column_vectors` returns) while
    ``floats`` grants them. :class:`diastole_hw.store.drain_walk.DrainWalk` adds idle cycles per
    tile, and
    :class:`diastole_hw.store.emit_rows.EmitRows` per span. Columns are read when there is a free
    place for their piece (:class:`diastole_hw.store.transpose_tile.TransposeTile`); the rows of the
    piece are requested when all its rows are complete. A word of a row is read when its span waits
    to be written. A chained result takes a cycle per row of a block, and 1 idle cycle per tile.

    Parameters
    ----------
    plan : Plan
    north : bool
        Direction.

    Members
    -------
    mode : In(Mode)
        Stable from the cycle before a tile arrives, while ``busy``; ``exponents`` and ``result``
        also.
    exponents : In(EXPONENTS)
        By class, the exponent that group exponents are relative to; read where groups have scales.
    result : In(RESULT)
    lanes_outermost : In(1)
        The tiles of the result arrive column by column.
    t_step, whole : In(length_shapes(plan)["t_step"]), In(1)
        Blocks of a T tile; whether a tile takes a whole memory of sums.
    chained : In(1)
        Stable as ``mode``; 0 where tiles are transposed, not checked. ``chained`` and ``chain``
        exist in a machine with a vector unit.
    chain : Out(stream of B times unsigned(32))
        Rows of blocks.
    tiles : In(stream of drained_layout(plan, transposed=transposes(plan, north=north)))
        Tiles whose sums are complete, in the order of the walk.
    freed : Out(1)
        Pulse for every tile: its sums have been read.
    busy : Out(1)
        There is a tile, or floats of a tile.
    read : Out(SumsReadSignature(plan, ports, V_d))
        Words of the accumulators.
    lookup : Out(drain_signature(plan, direction))
        Maxima that bound a word, looked up with ``read``.
    floats : Out(DrainedSignature(plan, north=north))
        Lanes that convert words to floats.
    requests : Out(stream of request_layout())
    beats : Out(stream of write_beat_layout(plan.data_width))
        Beats of every request, in order; neither stream waits for the other.
    requests_1, beats_1
        Members of a second port to memory, if there is one: every second row of a span.
    stalled : Out(1)
        A word could be read, but the bus, or the reader of the chain, did not accept earlier data.
    """

    result: data.View
    read: wiring.PureInterface
    tiles: stream.Interface
    requests: stream.Interface
    beats: stream.Interface
    lookup: wiring.PureInterface
    floats: wiring.PureInterface
    chained: Signal
    chain: stream.Interface

    def __init__(self, plan: Plan, *, north: bool):
        self.plan, self.north = plan, north
        ports = plan.cols if north else plan.rows
        self.vectors = plan.drain_vectors(north=north)
        self.direction = "north" if north else "east"
        beats = stream.Signature(write_beat_layout(plan.data_width))
        row = data.ArrayLayout(unsigned(32), plan.block)
        chain = {"chained": In(1), "chain": Out(stream.Signature(row))}
        super().__init__(
            {
                "mode": In(Mode),
                "exponents": In(EXPONENTS),
                "result": In(RESULT),
                "lanes_outermost": In(1),
                "t_step": In(length_shapes(plan)["t_step"]),
                "whole": In(1),
                "tiles": In(
                    stream.Signature(drained_layout(plan, transposed=transposes(plan, north=north)))
                ),
                "freed": Out(1),
                "busy": Out(1),
                "read": Out(SumsReadSignature(plan, ports, self.vectors)),
                "lookup": Out(drain_signature(plan, self.direction)),
                "floats": Out(DrainedSignature(plan, north=north)),
                "stalled": Out(1),
            }
            | per_port("requests", Out(stream.Signature(request_layout())), plan.ports)
            | per_port("beats", Out(beats), plan.ports)
            | ({} if plan.vector is None else chain)
        )

    @property
    def _transposes_pieces(self) -> bool:
        """Return whether transposed rows are sent as parts of a word."""
        words = self.vectors * self.plan.block
        return transposes(self.plan, north=self.north) and piece_floats(self.plan) < words

    def elaborate(self, platform):
        m = Module()
        plan, floats = self.plan, self.floats
        walk = DrainWalk(plan, north=self.north)
        if plan.ports == 1:
            emit = EmitRows(plan, vectors=self.vectors, transposes=self._transposes_pieces)
        else:
            emit = EmitPorts(plan, vectors=self.vectors)
        m.submodules.walk = walk
        m.submodules.emit = emit
        wiring.connect(m, wiring.flipped(self.tiles), walk.tiles)
        for name in ("requests", "beats"):
            outer, inner = (of_ports(unit, name, plan.ports) for unit in (self, emit))
            for mine, its in zip(outer, inner, strict=True):
                wiring.connect(m, wiring.flipped(mine), its)
        m.d.comb += [
            walk.mode.eq(self.mode),
            walk.result.eq(self.result),
            walk.lanes_outermost.eq(self.lanes_outermost),
            walk.t_step.eq(self.t_step),
            walk.whole.eq(self.whole),
            walk.used_by_sums.eq(self.read.used_by_sums),
            walk.granted.eq(floats.may),
            self.freed.eq(walk.freed),
            self.read.en.eq(Mux(floats.may, walk.read_valid, 0)),
            self.read.port.eq(walk.read_port),
            self.read.addr.eq(walk.read_addr),
            self.lookup.enable.eq(floats.granted),
            self.lookup.stream.index.eq(walk.index.stream),
            self.lookup.stationary.index.eq(walk.index.stationary),
            floats.requested.eq(walk.read_valid),
            floats.sums.eq(Cat(word.sums for word in self.read.data)),
            floats.stream.eq(scale_exponent(plan, self.lookup.stream.value[0])),
            emit.pitch.eq(self.result.pitch),
            self.stalled.eq(walk.read_valid.any() & floats.full),
            self.busy.eq(self.tiles.valid | emit.busy),
        ]
        m.d.comb += floats.last_part.eq(walk.last_part)
        if self.vectors > 1:
            m.d.comb += self.read.wrapped_addr.eq(walk.read_wrapped_addr)
        for lane, value in enumerate(self.lookup.stationary.value):
            m.d.comb += floats.stationary[lane].eq(scale_exponent(plan, value))
        if plan.poison:
            m.d.comb += floats.poison.eq(Cat(word.poison for word in self.read.data))
        self._offset(m, floats.offset)
        if transposes(plan, north=self.north):
            self._transpose(m, walk.spans, emit)
        else:
            wiring.connect(m, walk.spans, emit.spans)
            wiring.connect(m, wiring.flipped(floats.rows), emit.words)
        if plan.vector is not None:
            self._chain(m, walk)
        return m

    def _chain(self, m, walk):
        """Output chained results as rows of blocks. Only one vector of a word is not zero, and an
        OR over the vectors selects this vector."""
        floats, words = self.floats, Value.cast(self.floats.rows.payload)
        vectors = [words.word_select(k, 32 * self.plan.block) for k in range(self.vectors)]
        m.d.comb += [
            walk.chained.eq(self.chained),
            self.chain.valid.eq(floats.rows.valid & self.chained),
            Value.cast(self.chain.payload).eq(reduce(or_, vectors)),
        ]
        with m.If(self.chained):  # without spans, no word is written as a row
            m.d.comb += floats.rows.ready.eq(self.chain.ready)
            with m.If(walk.padding):  # then the word is zero
                m.d.comb += self.read.en.eq(0)
            with m.If(floats.inside):
                m.d.comb += self.busy.eq(1)

    def _offset(self, m, offset):
        """Select by mode the offset: the amount by which the sum of two stored exponents exceeds
        the scale of a sum."""
        plan = self.plan
        by_mode = {}
        for mode, (streamed, stationary) in operands(plan, north=self.north).items():
            width = plan.numerics.product_bits(CLASS_NAMES[streamed], CLASS_NAMES[stationary])
            by_mode[mode] = 2 * EXPONENT_BIAS + plan.fraction + width - 2
            if plan.significands:
                fixed = SCALE_OFFSET + plan.fraction + width - 2
                by_mode[mode] = fixed - self.exponents[streamed] - self.exponents[stationary]
        table = [by_mode.get(mode, 0) for mode in Mode]
        m.d.comb += offset.eq(Array(table)[self.mode.as_value()])

    def _transpose(self, m, spans, emit):
        """Connect the memory that transposes columns, between floats and rows."""
        m.submodules.transpose_tile = transpose_tile = TransposeTile(self.plan)
        floats = self.floats
        transposed = data_register(name="transposed")
        m.d.sync += transposed.eq(self.mode == Mode.FUSED)
        m.d.comb += [
            floats.transposed.eq(transposed),
            transpose_tile.columns.eq(floats.columns),
            transpose_tile.spans_in.payload.eq(spans.payload),
            transpose_tile.spans_in.valid.eq(spans.valid & transposed),
            spans.ready.eq(Mux(transposed, transpose_tile.spans_in.ready, emit.spans.ready)),
            emit.spans.valid.eq(Mux(transposed, transpose_tile.spans.valid, spans.valid)),
            emit.spans.payload.eq(
                Mux(transposed, transpose_tile.spans.p.as_value(), spans.p.as_value())
            ),
            transpose_tile.spans.ready.eq(transposed & emit.spans.ready),
        ]
        if self._transposes_pieces:
            wiring.connect(m, transpose_tile.words, emit.pieces)
            wiring.connect(m, wiring.flipped(floats.rows), emit.words)
            m.d.comb += emit.transposed.eq(transposed)
        else:
            self._words_of_either(m, transposed, transpose_tile.words, emit.words)
        with m.If(transpose_tile.busy):
            m.d.comb += self.busy.eq(1)

    def _words_of_either(self, m, transposed, transpose_tile, words):
        """Select between transposed words and words of rows."""
        rows = self.floats.rows
        m.d.comb += [
            words.valid.eq(transpose_tile.valid | rows.valid),
            words.payload.eq(
                Mux(transposed, transpose_tile.payload.as_value(), rows.payload.as_value())
            ),
            transpose_tile.ready.eq(words.ready),
            rows.ready.eq(words.ready),
        ]
