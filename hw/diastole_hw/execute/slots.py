"""Run the slots of passes: stream vectors while the blocks of the next pass are loaded."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.tokens import pass_layout, slot_layout, stationary_read_layout
from diastole_hw.successor import is_successor

_STATIONARY = ("stationary_addr", "rows_valid", "cols_valid")


def streamed_layout(plan: Plan) -> data.StructLayout:
    """Return the layout of the members of a pass that are needed while the pass streams."""
    members = pass_layout(plan).members.items()
    return data.StructLayout({name: shape for name, shape in members if name not in _STATIONARY})


class PassRun(wiring.Component):
    """Run passes: stream the vectors of a pass while the blocks of the next pass are loaded.

    A pass is a series of slots with the same stationary blocks, R x C in the array. A pass streams
    ``t_count`` vectors to the east, if the pass uses the east direction, then ``t_count`` vectors
    to the north, if the pass uses the north direction. The blocks of a pass are R B stationary
    words, in the order of rows and of indices.

    Timing: a pass with n slots costs max(n, R B, ``plan.shortest_pass``) cycles. A pass follows its
    predecessor without a bubble if the pass was accepted R B cycles before the predecessor ends. A
    reset counts as a short predecessor. ``slot`` and ``stationary`` are registers. ``slot.swap``
    comes one cycle before the first vector of a pass and after the last stationary word of the
    pass. The first stationary word of the next pass comes with ``slot.swap`` at the earliest, and
    the following words come one per cycle. ``passes.ready`` is a function of registers only. Two
    passes may be inside: the pass that streams and the pass that is loaded.

    Members
    -------
    passes : In(stream of pass_layout(plan))
        ``t_count`` is at least 1, and at least one direction is used. Not checked.
    slot : Out(slot_layout(plan))
        ``done_east`` and ``done_north`` come with the last vector of the direction, ``frees`` with
        the last vector of the pass. While ``valid`` is 0, only ``swap``, ``frees``, ``done_east``
        and ``done_north`` have a meaning.
    stationary : Out(stationary_read_layout(plan))
    busy : Out(1)
        A pass is inside. The last slot is output one cycle after the last cycle of ``busy``.
    starved : Out(1)
        No pass is inside: the inverse of ``busy``.
    """

    passes: stream.Interface

    def __init__(self, plan: Plan):
        self.plan = plan
        super().__init__(
            {
                "passes": In(stream.Signature(pass_layout(plan))),
                "slot": Out(slot_layout(plan)),
                "stationary": Out(stationary_read_layout(plan)),
                "busy": Out(1),
                "starved": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        loading = Signal()
        loaded = Signal()
        next_pass = data_register(streamed_layout(plan))
        current_pass = data_register(streamed_layout(plan))
        row = Signal(range(max(plan.rows, 2)))
        index = Signal(range(max(plan.block, 2)))
        running = Signal()
        north = Signal()
        t = Signal(range(plan.tile_words + 1))
        age = Signal(range(plan.shortest_pass + 1))
        swap = Signal()
        last_t = Signal()
        ends = Signal()

        # Load: accept a pass and read its stationary words.
        # The first word is read in the cycle of the swap, when the shadow blocks become free.
        starts = Signal()
        last_word = Signal()
        offered, stationary = self.passes.p, self.stationary
        m.d.comb += [
            self.passes.ready.eq(~loading & (~loaded | swap)),
            starts.eq(self.passes.valid & self.passes.ready),
            last_word.eq((row == plan.rows - 1) & (index == plan.block - 1)),
        ]
        with m.If(starts):
            m.d.sync += [next_pass[name].eq(offered[name]) for name in next_pass.shape().members]
            m.d.sync += [
                stationary.rows_valid.eq(offered.rows_valid),
                stationary.cols_valid.eq(offered.cols_valid),
            ]
            m.d.sync += loading.eq(1)
        with m.If(starts | loading):
            m.d.sync += index.eq(index + 1)
            with m.If(index == plan.block - 1):
                m.d.sync += [index.eq(0), row.eq(row + 1)]
            with m.If(last_word):
                m.d.sync += [loading.eq(0), loaded.eq(1), row.eq(0), index.eq(0)]
        m.d.sync += [
            stationary.valid.eq(starts | loading),
            stationary.addr.eq(Mux(loading, stationary.addr + 1, offered.stationary_addr)),
            stationary.row.eq(row),
            stationary.index.eq(index),
        ]

        # Stream: swap the blocks, then count the vectors of the pass in each direction.
        m.d.comb += [
            last_t.eq(is_successor(current_pass.t_count, t)),
            ends.eq(running & last_t & (north | ~current_pass.use_north)),
            swap.eq(loaded & ((~running | ends) & (age == plan.shortest_pass))),
            self.busy.eq(loading | loaded | running),
            self.starved.eq(~running & ~loaded & ~loading),
        ]
        with m.If(age != plan.shortest_pass):
            m.d.sync += age.eq(age + 1)
        with m.If(running):
            m.d.sync += t.eq(t + 1)
            with m.If(last_t):
                m.d.sync += [t.eq(0), north.eq(1)]
            with m.If(ends):
                m.d.sync += running.eq(0)
        with m.If(swap):
            m.d.sync += [current_pass.eq(next_pass), running.eq(1), t.eq(0), age.eq(1)]
            m.d.sync += loaded.eq((starts | loading) & last_word)
            m.d.sync += north.eq(~next_pass.use_east)
        slot = self.slot
        m.d.sync += [slot.valid.eq(running), slot.direction.eq(north), slot.swap.eq(swap)]
        self._places(m, current_pass, t, last_t, running, north, ends)
        return m

    def _places(self, m, current_pass, t, last_t, running, north, ends):
        """Drive the slot's read addresses, address of sums, and flags of the end."""
        slot = self.slot
        m.d.sync += [
            slot.south_addr.eq(current_pass.south_addr + t),
            slot.west_addr.eq(current_pass.west_addr + t),
            slot.sum_addr.eq(Mux(north, current_pass.north_addr, current_pass.east_addr) + t),
            slot.fresh.eq(Mux(north, current_pass.fresh_north, current_pass.fresh_east)),
            slot.frees.eq(Mux(ends, current_pass.frees, 0)),
            slot.done_east.eq(running & ~north & last_t & current_pass.done_east),
            slot.done_north.eq(running & north & last_t & current_pass.done_north),
        ]
        if self.plan.floats:
            m.d.sync += [
                slot[name].eq(
                    Mux(north, current_pass[f"{name}_north"], current_pass[f"{name}_east"])
                )
                for name in ("begins", "ends")
            ]
