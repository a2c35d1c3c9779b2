"""Cut requests of any length into bursts that AXI4 allows and that stay inside a window."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.bus.services import owned_request_layout, owner_tag_layout
from diastole_hw.carry_save import sum_of_three
from diastole_hw.data_registers import data_register
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.image import DATA_WIDTHS
from diastole_sim.spec.require import require_choice
from diastole_sim.spec.sizes.queues import BURST_BEATS

BURST = data.StructLayout(
    {
        "addr": unsigned(ADDRESS_BITS),
        "len": unsigned(8),
        "last": 1,  # of its request
        "owner_tag": owner_tag_layout(),
    }
)


class BurstSplitter(wiring.Component):
    """Cut requests into INCR bursts of 1 to 64 beats, none across a multiple of 64 beats.

    A burst that is not wholly in [base, limit) is not output: ``outside`` is high instead, until
    ``clear``. The bursts of a request cover every beat of the request once, in ascending order.

    Timing: 1 burst per cycle, the first in the cycle after its request; no cycle is lost between
    requests. ``o.valid`` and ``outside`` are functions of registers, window and ``stop``.

    Parameters
    ----------
    data_width : int
        Bits of a beat (32, 64, 128, 256 or 512).

    Members
    -------
    i : In(stream of owned_request_layout())
        First byte and number of beats, at least 1, not checked. The address is treated as a
        multiple of the beat: lower bits are ignored.
    o : Out(stream of BURST)
        Burst as in araddr and arlen (``len`` is the number of beats less 1), whether the burst is
        the last of its request, and the owner of the request. The owner is also valid with
        ``outside``.
    base, limit : In(40)
        Window: first byte, and 1 past the last byte. Must stay stable from the cycle in which a
        request is accepted until the request is done.
    stop : In(1)
        Output no bursts and accept no requests.
    clear : In(1)
        Forget the request.
    outside : Out(1)
        High if the next burst is not in the window.
    busy : Out(1)
        High while there is a request.

    ValueError if ``data_width`` is none of these.
    """

    i: stream.Interface
    o: stream.Interface

    def __init__(self, *, data_width: int):
        require_choice("data_width", data_width, DATA_WIDTHS)
        self.data_width = data_width
        super().__init__(
            {
                "i": In(stream.Signature(owned_request_layout())),
                "o": Out(stream.Signature(BURST)),
                "base": In(ADDRESS_BITS),
                "limit": In(ADDRESS_BITS),
                "stop": In(1),
                "clear": In(1),
                "outside": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        low = exact_log2(self.data_width // 8)  # bits of the byte address within a beat
        in_burst = exact_log2(BURST_BEATS)
        # Place of the next beat within its group of 64 beats, and the number of the group.
        place_ = data_register(in_burst, name="place")
        group = data_register(ADDRESS_BITS - low - in_burst)
        # Place of the request's last beat within its group, and the number of groups up to that
        # group.
        end = data_register(in_burst)
        further = data_register(len(self.i.p.beats) + 1 - in_burst)
        last = data_register()  # the next burst is the last of its request
        begins = data_register()  # the request begins in the window
        fits = data_register()  # the next burst ends in the window
        owner_tag = data_register(owner_tag_layout())
        accepted = Signal()
        burst_accepted = Signal()
        inside = Signal()
        until = Mux(last, end, BURST_BEATS - 1)
        m.d.comb += [
            inside.eq(begins & fits),
            self.outside.eq(self.busy & ~inside),
            self.o.valid.eq(self.busy & inside & ~self.stop),
            self.o.p.addr.eq(Cat(Const(0, low), place_, group)),
            self.o.p.len.eq((until - place_)[:in_burst]),
            self.o.p.last.eq(last),
            self.o.p.owner_tag.eq(owner_tag),
            accepted.eq(self.i.valid & self.i.ready),
            burst_accepted.eq(self.o.valid & self.o.ready),
            self.i.ready.eq(~self.stop & (~self.busy | (burst_accepted & last))),
        ]
        # Properties of the next burst are computed while this burst is output. After a last burst
        # the next burst is the first of the offered request, and its properties matter only if a
        # request is offered.
        loads = ~self.busy | last
        first = self.i.p.addr[low:]
        next_group = Signal.like(group)
        next_last = Signal()
        next_end = Signal.like(end)
        ends = Signal(in_burst + len(further))
        m.d.comb += [
            ends.eq(first[:in_burst] + self.i.p.beats - 1),
            next_group.eq(Mux(loads, first[in_burst:], group + 1)),
            next_last.eq(Mux(loads, ends < BURST_BEATS, further == 1)),
            next_end.eq(Mux(loads, ends[:in_burst], end)),
        ]
        limit_place = self.limit[low:][:in_burst]
        limit_group = self.limit[low + in_burst :]
        # A burst that ends in the same 64 beats as the window: the burst fits if the difference of
        # both ends, less 1, is below 0.
        beats = Cat(self.i.p.beats, Const(0, 2))
        beyond = sum_of_three(
            beats, first[:in_burst], Cat(~limit_place, Const(-1, len(further) + 1))
        )
        near = Mux(loads, beyond[-1], (further == 1) & (end < limit_place))
        with m.If(burst_accepted | accepted):
            m.d.sync += [
                group.eq(next_group),
                last.eq(next_last),
                end.eq(next_end),
                fits.eq((next_group < limit_group) | ((next_group == limit_group) & near)),
                place_.eq(Mux(loads, first[:in_burst], 0)),
                further.eq(Mux(loads, ends[in_burst:], further - 1)),
                self.busy.eq(accepted | ~last),
            ]
        with m.If(accepted):
            m.d.sync += [
                begins.eq(Cat(Const(0, low), first) >= self.base),
                owner_tag.eq(self.i.p.owner_tag),
            ]
        with m.If(self.clear):
            m.d.sync += self.busy.eq(0)
        return m
