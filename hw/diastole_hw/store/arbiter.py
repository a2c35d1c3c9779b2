"""Two sources of results, one writer."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.services import owned_request_layout, write_beat_layout


class StoreArbiter(wiring.Component):
    """Merge two sources of write requests and beats; ``first`` goes before ``second``.

    A request passes at the earliest with the last beat of the one before it, and then its source
    alone gives beats, as many as it asked for. One that has been offered stays until it is taken.

    Timing: all combinational, one beat per cycle, and no cycle lost between requests that wait. A
    request's beats pass from the cycle after it.

    Parameters
    ----------
    data_width : int
        Bits of a beat.

    Members
    -------
    first_requests, second_requests : In(stream of owned_request_layout())
        An offer must stay until it is taken.
    first_beats, second_beats : In(stream of write_beat_layout(data_width))
    requests : Out(stream of owned_request_layout())
    beats : Out(stream of write_beat_layout(data_width))
    """

    def __init__(self, *, data_width: int):
        self.data_width = data_width
        requests = stream.Signature(owned_request_layout())
        beats = stream.Signature(write_beat_layout(data_width))
        super().__init__(
            {
                "first_requests": In(requests),
                "first_beats": In(beats),
                "second_requests": In(requests),
                "second_beats": In(beats),
                "requests": Out(requests),
                "beats": Out(beats),
            }
        )

    def elaborate(self, platform):
        m = Module()
        left = Signal(len(self.requests.p.beats))
        none = Signal(init=1)  # is left
        one = Signal()
        owner = Signal()
        chosen = Signal()  # 0 first, 1 second
        moves = self.beats.valid & self.beats.ready
        idle = Signal()  # or about to be
        offered = Signal()  # offered: second's request waits, and stays chosen
        m.d.comb += [
            idle.eq(none | (one & moves)),
            chosen.eq(offered | ~self.first_requests.valid),
        ]
        m.d.sync += offered.eq(self.requests.valid & ~self.requests.ready & chosen)
        sources = (
            (0, self.first_requests, self.first_beats),
            (1, self.second_requests, self.second_beats),
        )
        for number, requests, beats in sources:
            with m.If(chosen == number):
                m.d.comb += [
                    self.requests.payload.eq(requests.payload),
                    self.requests.valid.eq(requests.valid & idle),
                    requests.ready.eq(self.requests.ready & idle),
                ]
            with m.If((owner == number) & ~none):
                m.d.comb += [
                    self.beats.payload.eq(beats.payload),
                    self.beats.valid.eq(beats.valid),
                    beats.ready.eq(self.beats.ready),
                ]
        with m.If(self.requests.valid & self.requests.ready):
            m.d.sync += [left.eq(self.requests.p.beats), owner.eq(chosen)]
            m.d.sync += [none.eq(0), one.eq(self.requests.p.beats == 1)]
        with m.Elif(moves):
            m.d.sync += [left.eq(left - 1), none.eq(one), one.eq(left == 2)]
        return m
