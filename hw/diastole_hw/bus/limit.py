"""A reader that must not get far ahead: what was asked for cannot be overtaken."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.services import ReadSignature
from diastole_hw.registers import data_register

MOST_BEATS = 32
"""That may be on their way where a request is let through: more than a latency of most memories."""


class ReadLimit(wiring.Component):
    """Pass requests and beats on; while ``limited``, requests only if at most :data:`MOST_BEATS`
    are still to come.

    Timing: all combinational, but that what was asked for and has come counts from the next cycle
    on. A request that has been offered stays.

    Parameters
    ----------
    data_width : int
        Bits of a beat.

    Members
    -------
    source : In(ReadSignature(data_width))
        Who reads.
    limited : In(1)
        Others read too.
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
        asks, given = self.source.requests, self.service.requests
        coming = Signal(24)  # beats, without the latest
        offered = Signal()
        open_ = Signal()
        asked = Signal()
        # Those of the request of the cycle before, if it was taken: no request is added up as it
        # comes, and hardly anything waits for whether it is.
        latest = Signal(len(asks.p.beats))
        latest_asked = Signal()
        beats = data_register(len(latest))
        total = Signal.like(coming)
        moved = Signal()
        # Whether these, and these and the request of the cycle before, are more: nothing is added
        # up or compared before a request may be offered.
        many = Signal()
        many_with_latest = data_register()
        both = total + asks.p.beats
        m.d.comb += [
            latest.eq(Mux(latest_asked, beats, 0)),
            open_.eq(offered | ~self.limited | ~Mux(latest_asked, many_with_latest, many)),
            total.eq(coming + latest),
            given.valid.eq(asks.valid & open_),
            given.payload.eq(asks.payload),
            asks.ready.eq(given.ready & open_),
            asked.eq(given.valid & given.ready),
            moved.eq(self.service.beats.valid & self.service.beats.ready),
        ]
        m.d.sync += [
            offered.eq(given.valid & ~given.ready),
            latest_asked.eq(asked),
            beats.eq(asks.p.beats),
            coming.eq(total - moved),
        ]
        for flag, beats_to_come in ((many, total), (many_with_latest, both)):
            one_more = beats_to_come == MOST_BEATS + 1
            m.d.sync += flag.eq((beats_to_come > MOST_BEATS + 1) | (one_more & ~moved))
        wiring.connect(m, wiring.flipped(self.service.beats), wiring.flipped(self.source.beats))
        return m
