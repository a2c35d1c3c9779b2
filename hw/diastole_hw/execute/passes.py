"""The execute unit: passes of the array, back to back, over the chunks that are loaded."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.tokens import chunk_layout, pass_layout

BANKS = wiring.Signature({"free": In(1), "take": Out(1)})
"""Accumulator banks of one direction: one is free; one is taken, in the cycle in which the first
pass that adds into it is. Who counts them is the store unit."""


class PassWalk(wiring.Component):
    """Cut chunks into passes: contraction slices outermost, groups of lanes inside.

    In a product an output tile takes a bank of its direction with its first pass, and is done with
    its last. In the fused pass dW's tile does so to the east; to the north every slice of the
    contraction, which is a chunk, takes a bank of its own. A pass that opens a bank waits until one
    is free.

    Halves alternate, and go on from one product to the next: those of the scratchpads with every
    chunk (in the fused pass the west's with every tile, and what is held has none), those of the
    accumulators with every ``done_east`` and ``done_north``. A machine of one direction ignores
    ``north``, one without a fused pass ``fused``.

    Timing: one pass per cycle. ``passes`` is combinational from ``chunks``, its ``valid`` from
    ``free`` too; ``take`` and ``chunks.ready`` are from ``passes.ready`` besides: a chunk leaves
    with its last pass.

    Members
    -------
    north, fused : In(1), In(1)
        A product from west to north; the fused pass, with ``north`` 0. Stable from the first chunk
        of a product to the last.
    chunks : In(stream of chunk_layout(plan))
        At least one block along the contraction and the lanes, and one vector; in the fused pass
        at most one slice of the contraction. Not checked.
    passes : Out(stream of pass_layout(plan))
        ``rows_valid`` and ``cols_valid``: blocks of the slice that the chunk has. The addresses and
        ``fresh`` of a direction that is not used mean nothing.
    tile : Out(chunk_layout(plan))
        The chunk whose pass is shown.
    banks : Out({"east": Out(BANKS), "north": Out(BANKS)})
    wait_accumulator : Out(1)
        There is a pass, and no free bank for it.
    """

    chunks: stream.Interface
    passes: stream.Interface

    def __init__(self, plan: Plan):
        self.plan = plan
        super().__init__(
            {
                "north": In(1),  # from west to north alone
                "fused": In(1),
                "chunks": In(stream.Signature(chunk_layout(plan))),
                "passes": Out(stream.Signature(pass_layout(plan))),
                "tile": Out(chunk_layout(plan)),  # the chunk whose pass is shown
                "banks": Out(wiring.Signature({"east": Out(BANKS), "north": Out(BANKS)})),
                "wait_accumulator": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan, chunk, out = self.plan, self.chunks.p, self.passes.p
        banks = self.banks
        fused = self.fused if plan.fused else Const(0, 1)
        north = self.north if plan.east and plan.north else Const(int(plan.north), 1)

        # Along the contraction: slices of cols (rows if north); along the lanes: the other way.
        side_c = Mux(north, plan.rows, plan.cols)
        side_l = Mux(north, plan.cols, plan.rows)
        slice_ = Signal(range(plan.groups + 1))
        group = Signal(range(plan.half_words + 1))
        c_left = Signal.like(chunk.c_blocks, name="c_left")
        l_left = Signal.like(chunk.l_blocks, name="l_left")
        c_done = Signal.like(chunk.c_blocks, name="c_done")
        l_done = Signal.like(chunk.l_blocks, name="l_done")
        half = Signal()
        west_half = Signal()
        east_half = Signal()
        north_half = Signal()
        width = max(len(out.rows_valid), len(out.cols_valid))
        c_valid = Signal(width, name="c_valid")
        l_valid = Signal(width, name="l_valid")
        last_c = Signal()
        last_l = Signal()
        m.d.comb += [
            c_left.eq(chunk.c_blocks - c_done),
            l_left.eq(chunk.l_blocks - l_done),
            last_c.eq(c_left <= side_c),
            last_l.eq(l_left <= side_l),
            c_valid.eq(Mux(last_c, c_left, side_c)),
            l_valid.eq(Mux(last_l, l_left, side_l)),
        ]
        first_c = chunk.first & (slice_ == 0)
        self._addresses(m, fused, north, slice_, group, half, west_half, east_half, north_half)
        opens_east = Signal()
        opens_north = Signal()
        free = Signal()
        m.d.comb += [
            out.t_count.eq(chunk.t_count),
            out.rows_valid.eq(Mux(north, c_valid, l_valid)),
            out.cols_valid.eq(Mux(north, l_valid, c_valid)),
            out.use_east.eq(~north),
            out.use_north.eq(north | fused),
            out.fresh_east.eq(first_c),
            out.fresh_north.eq(Mux(fused, group == 0, first_c)),
            out.release.eq(last_c & last_l),
            out.done_east.eq(~north & chunk.last & last_c & last_l),
            out.done_north.eq(Mux(fused, last_l, north & chunk.last & last_c & last_l)),
            opens_east.eq(~north & first_c & (group == 0)),
            opens_north.eq(Mux(fused, group == 0, north & first_c & (group == 0))),
            free.eq((~opens_east | banks.east.free) & (~opens_north | banks.north.free)),
            self.passes.valid.eq(self.chunks.valid & free),
            self.wait_accumulator.eq(self.chunks.valid & ~free),
            self.tile.eq(self.chunks.payload),
        ]
        taken = Signal()
        m.d.comb += [
            taken.eq(self.passes.valid & self.passes.ready),
            banks.east.take.eq(taken & opens_east),
            banks.north.take.eq(taken & opens_north),
            self.chunks.ready.eq(taken & out.release),
        ]
        with m.If(taken):
            m.d.sync += [l_done.eq(l_done + side_l), group.eq(group + 1)]
            with m.If(out.done_north):
                m.d.sync += north_half.eq(~north_half)
            with m.If(last_l):
                m.d.sync += [l_done.eq(0), group.eq(0)]
                m.d.sync += [c_done.eq(c_done + side_c), slice_.eq(slice_ + 1)]
            with m.If(out.release):
                m.d.sync += [c_done.eq(0), slice_.eq(0), half.eq(~half)]
                with m.If(chunk.last):
                    m.d.sync += west_half.eq(~west_half)
            with m.If(out.done_east):
                m.d.sync += east_half.eq(~east_half)
        return m

    def _addresses(self, m, fused, north, slice_, group, half, west_half, east_half, north_half):
        plan, out, chunk = self.plan, self.passes.p, self.chunks.p
        pass_words = plan.rows * plan.block  # of one held bank
        by_row, by_col = Mux(north, group, slice_), Mux(north, slice_, group)
        held = half * plan.held_half_words + by_row * plan.held_stride + by_col * pass_words
        streamed = half * plan.half_words + slice_ * plan.tile_words
        east = east_half * plan.half_words + group * plan.tile_words
        m.d.comb += [
            out.held_addr.eq(held),
            out.south_addr.eq(streamed),
            out.west_addr.eq(streamed),
            out.east_addr.eq(east),
            out.north_addr.eq(north_half * plan.half_words + group * plan.tile_words),
        ]
        if plan.fused:
            with m.If(fused):
                words = plan.fused_tile_words
                m.d.comb += [
                    out.held_addr.eq(chunk.index * plan.fused_held_stride + group * pass_words),
                    out.south_addr.eq(half * plan.half_words),
                    out.west_addr.eq(west_half * plan.half_words + group * words),
                    out.east_addr.eq(east_half * plan.half_words + group * words),
                    out.north_addr.eq(north_half * plan.half_words),
                ]
