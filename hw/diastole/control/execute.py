"""The execute unit: passes of the array, back to back, over the chunks that are loaded."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole.control.descriptors import chunk_layout
from diastole.plan import Plan

SHORTEST_PASS = 4  # cycles; the accumulators need 3 between two additions to the same word


def slot_layout(plan: Plan) -> data.StructLayout:
    """What one slot of the array does, before the skew of its ports."""
    return data.StructLayout(
        {
            "valid": 1,
            "direction": 1,  # 0 south to east, 1 west to north
            "swap": 1,  # the next slot is the first of a pass: the loaded blocks become active
            "south_addr": range(2 * plan.half_words),
            "west_addr": range(2 * plan.half_words),
            "sum_addr": range(2 * plan.half_words),
            "fresh": 1,  # first slice of its contraction: overwrite, do not add
            "release": 1,  # last slot that reads its chunk's half
            "done_east": 1,  # last slot of its output tile, per direction
            "done_north": 1,
        }
    )


def held_read_layout(plan: Plan) -> data.StructLayout:
    """One held word on its way to the load ports, before the skew."""
    return data.StructLayout(
        {
            "valid": 1,
            "addr": range(plan.held_words),
            "row": range(max(plan.rows, 2)),
            "index": range(max(plan.block, 2)),
            "rows_valid": range(plan.rows + 1),  # blocks of the slice that the tensor has
            "cols_valid": range(plan.cols + 1),
        }
    )


def pass_layout(plan: Plan) -> data.StructLayout:
    slot = slot_layout(plan).members
    held = held_read_layout(plan).members
    return data.StructLayout(
        {
            "t_count": range(plan.tile_words + 1),
            "held_addr": held["addr"],
            "rows_valid": held["rows_valid"],
            "cols_valid": held["cols_valid"],
            "south_addr": slot["south_addr"],
            "west_addr": slot["west_addr"],
            "east_addr": slot["sum_addr"],
            "north_addr": slot["sum_addr"],
            "fresh_east": 1,
            "fresh_north": 1,
            "use_east": 1,
            "use_north": 1,
            "release": 1,
            "done_east": 1,
            "done_north": 1,
        }
    )


class PassWalk(wiring.Component):
    """Cut chunks into passes: contraction slices outermost, groups of lanes inside.

    A pass waits for a free bank of accumulators before the first slice of an output tile; a tile's
    number of banks in use is counted by the store unit (``east_free``, ``north_free``; taken with
    ``take_east``, ``take_north``). Timing: one pass per cycle.
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
                "east_free": In(1),
                "north_free": In(1),
                "take_east": Out(1),
                "take_north": Out(1),
                "wait_accumulator": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan, chunk, out = self.plan, self.chunks.p, self.passes.p
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
            free.eq((~opens_east | self.east_free) & (~opens_north | self.north_free)),
            self.passes.valid.eq(self.chunks.valid & free),
            self.wait_accumulator.eq(self.chunks.valid & ~free),
            self.tile.eq(self.chunks.payload),
        ]
        taken = Signal()
        m.d.comb += [
            taken.eq(self.passes.valid & self.passes.ready),
            self.take_east.eq(taken & opens_east),
            self.take_north.eq(taken & opens_north),
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


class PassRun(wiring.Component):
    """Run passes: stream the vectors of one while the blocks of the next are loaded.

    A pass costs max(its slots, rows * B, 4) cycles and follows its predecessor without a bubble if
    it was ready rows * B cycles before. ``slot`` and ``held`` are registered.
    """

    passes: stream.Interface

    def __init__(self, plan: Plan):
        self.plan = plan
        super().__init__(
            {
                "passes": In(stream.Signature(pass_layout(plan))),
                "slot": Out(slot_layout(plan)),
                "held": Out(held_read_layout(plan)),
                "busy": Out(1),
                "starved": Out(1),  # no pass is streaming, and none is ready to load
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        words = plan.rows * plan.block
        loading = Signal()
        loaded = Signal()
        ahead = Signal(pass_layout(plan))
        now = Signal(pass_layout(plan))
        word = Signal(range(words + 1))
        row = Signal(range(max(plan.rows, 2)))
        index = Signal(range(max(plan.block, 2)))
        running = Signal()
        north = Signal()
        t = Signal(range(plan.tile_words + 1))
        age = Signal(range(SHORTEST_PASS + 1))
        swap = Signal()
        last_t = Signal()
        ends = Signal()

        # The first word is read in the cycle of the swap, when the shadow blocks become free.
        starts = Signal()
        last_word = Signal()
        source = Signal(pass_layout(plan))
        m.d.comb += [
            self.passes.ready.eq(~loading & (~loaded | swap)),
            starts.eq(self.passes.valid & self.passes.ready),
            source.eq(Mux(loading, ahead, self.passes.payload)),
            last_word.eq(word == words - 1),
        ]
        with m.If(starts):
            m.d.sync += [ahead.eq(self.passes.payload), loading.eq(1)]
        with m.If(starts | loading):
            m.d.sync += [word.eq(word + 1), index.eq(index + 1)]
            with m.If(index == plan.block - 1):
                m.d.sync += [index.eq(0), row.eq(row + 1)]
            with m.If(last_word):
                m.d.sync += [loading.eq(0), loaded.eq(1), word.eq(0), row.eq(0), index.eq(0)]
        m.d.sync += [
            self.held.valid.eq(starts | loading),
            self.held.addr.eq(source.held_addr + word),
            self.held.row.eq(row),
            self.held.index.eq(index),
            self.held.rows_valid.eq(source.rows_valid),
            self.held.cols_valid.eq(source.cols_valid),
        ]

        m.d.comb += [
            last_t.eq(t == now.t_count - 1),
            ends.eq(running & last_t & (north | ~now.use_north)),
            swap.eq(loaded & ((~running | ends) & (age == SHORTEST_PASS))),
            self.busy.eq(loading | loaded | running),
            self.starved.eq(~running & ~loaded & ~loading),
        ]
        with m.If(age != SHORTEST_PASS):
            m.d.sync += age.eq(age + 1)
        with m.If(running):
            m.d.sync += t.eq(t + 1)
            with m.If(last_t):
                m.d.sync += [t.eq(0), north.eq(1)]
            with m.If(ends):
                m.d.sync += running.eq(0)
        with m.If(swap):
            m.d.sync += [now.eq(ahead), running.eq(1), t.eq(0), age.eq(1)]
            m.d.sync += loaded.eq((starts | loading) & last_word)
            m.d.sync += north.eq(~ahead.use_east)
        self._slot(m, now, t, running, north, swap, ends)
        return m

    def _slot(self, m, now, t, running, north, swap, ends):
        slot = self.slot
        m.d.sync += [
            slot.valid.eq(running),
            slot.direction.eq(north),
            slot.swap.eq(swap),
            slot.south_addr.eq(now.south_addr + t),
            slot.west_addr.eq(now.west_addr + t),
            slot.sum_addr.eq(Mux(north, now.north_addr, now.east_addr) + t),
            slot.fresh.eq(Mux(north, now.fresh_north, now.fresh_east)),
            slot.release.eq(ends & now.release),
            slot.done_east.eq(running & ~north & (t == now.t_count - 1) & now.done_east),
            slot.done_north.eq(running & north & (t == now.t_count - 1) & now.done_north),
        ]
