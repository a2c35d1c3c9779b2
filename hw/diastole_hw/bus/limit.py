"""Limit how far a reader may read ahead, because no later request overtakes a pending request."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.services import ReadSignature
from diastole_hw.carry_save import carry_save, sum_of_three
from diastole_hw.data_registers import data_register

MAX_BEATS = 32
"""Number of beats that may be outstanding when a request passes: more than the latency of most
memories."""
_SPARE_BITS = 25  # of ``spare``, a signed number of beats: more bits than all requests need
_ONES = Const(-1, _SPARE_BITS)


class ReadLimit(wiring.Component):
    """Pass requests and beats on. While ``limited``, pass a request only if at most
    :data:`MAX_BEATS` beats are outstanding.

    Timing: all combinational, but requested and received beats count from the next cycle on. A
    request that has been offered stays offered.

    Parameters
    ----------
    data_width : int
        Bits of a beat.

    Members
    -------
    source : In(ReadSignature(data_width))
        Reader that is limited.
    limited : In(1)
        High while other units read too.
    service : Out(ReadSignature(data_width))
    """

    source: wiring.PureInterface
    service: wiring.PureInterface

    def __init__(self, *, data_width: int):
        self.data_width = data_width
        super().__init__(
            {
                "source": In(ReadSignature(data_width)),
                "limited": In(1),
                "service": Out(ReadSignature(data_width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        source, service = self.source.requests, self.service.requests
        offered = Signal()
        open_ = Signal()
        requested = Signal()
        moved = Signal()
        # Number of beats that may still become outstanding, before the request of the previous
        # cycle is subtracted. That request, if accepted, is subtracted a cycle late: few gates wait
        # for its acceptance.
        spare = Signal(signed(_SPARE_BITS), init=MAX_BEATS)
        latest_requested = Signal()
        not_beats = data_register(len(source.p.beats))
        not_latest = Signal(_SPARE_BITS)
        not_next = Signal(_SPARE_BITS)
        # Whether the number of outstanding beats is too large if the request of the previous cycle
        # was accepted. If the request was not accepted, the sign of ``spare`` tells: no addition
        # precedes the offer of a request.
        many_with_latest = data_register()
        one_more = Cat(~moved, moved)  # transferred beats, plus carry-in 1 of a subtraction
        m.d.comb += [
            not_latest.eq(Mux(latest_requested, Cat(not_beats, _ONES)[:_SPARE_BITS], _ONES)),
            not_next.eq(Cat(~source.p.beats, _ONES)[:_SPARE_BITS]),
            open_.eq(offered | ~self.limited | ~Mux(latest_requested, many_with_latest, spare[-1])),
            service.valid.eq(source.valid & open_),
            service.payload.eq(source.payload),
            source.ready.eq(service.ready & open_),
            requested.eq(service.valid & service.ready),
            moved.eq(self.service.beats.valid & self.service.beats.ready),
        ]
        left = sum_of_three(spare.as_unsigned(), not_latest, one_more)
        halves, carries = carry_save(spare.as_unsigned(), not_latest, not_next)
        left_with_next = sum_of_three(halves, Cat(Const(1, 1), carries), one_more)
        m.d.sync += [
            offered.eq(service.valid & ~service.ready),
            latest_requested.eq(requested),
            not_beats.eq(~source.p.beats),
            spare.eq(left),
            many_with_latest.eq(left_with_next[-1]),
        ]
        wiring.connect(m, wiring.flipped(self.service.beats), wiring.flipped(self.source.beats))
        return m
