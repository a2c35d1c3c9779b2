"""Arbitrate between two sources of results for one writer."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.services import owned_request_layout, write_beat_layout
from diastole_hw.data_registers import data_register


class StoreArbiter(wiring.Component):
    """Merge two sources of write requests and beats. ``first`` has priority over ``second``, except
    in the cycle in which ``first`` begins to request.

    Beats pass in the order of their requests: for a request, as many beats of its source as
    requested, and none of the second source between. One request may pass before the last beat of
    the preceding request, but not two. An offered request stays until it is accepted.

    Timing: combinational, except that no request depends on a beat, and that the acceptance of a
    request of ``second`` does not depend on the offer of ``first``. 1 beat per cycle. No cycle is
    lost between waiting requests, except before a request of ``second`` that follows requests of
    ``first``. The beats of a request pass from the cycle after the request on.

    Parameters
    ----------
    data_width : int
        Bits of a beat.

    Members
    -------
    first_requests, second_requests : In(stream of owned_request_layout())
        An offer must stay until it is accepted.
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
        current = Signal(2)  # beats of a source pass: bit 0 first, bit 1 second
        beats_left = data_register(
            len(self.requests.p.beats), name="beats_left"
        )  # rest of the request
        waits = Signal()  # another request has passed
        waiting = data_register(beats_left.shape(), name="waiting")  # beats of the waiting request
        waiting_source = data_register(name="waiting_source")  # source of the waiting request
        first_offered = Signal()  # ``first`` offered a request in the previous cycle
        offered = Signal()  # an offer of ``second`` was not accepted and stays selected
        second_may = Signal()  # ``second`` may request, whatever ``first`` does
        second_selected = Signal()
        passes = self.requests.valid & self.requests.ready
        moves = self.beats.valid & self.beats.ready
        ends = Signal()  # the last beat of a request passes, or no request is current
        m.d.comb += [
            second_may.eq(offered | ~first_offered),
            second_selected.eq(second_may & self.second_requests.valid),
            ends.eq(~current.any() | (moves & (beats_left == 1))),
        ]
        m.d.sync += [
            first_offered.eq(self.first_requests.valid),
            offered.eq(self.requests.valid & ~self.requests.ready & second_selected),
        ]
        sources = (
            (0, self.first_requests, self.first_beats, ~second_selected),
            (1, self.second_requests, self.second_beats, second_may),
        )
        for number, requests, beats, granted in sources:
            m.d.comb += requests.ready.eq(self.requests.ready & ~waits & granted)
            with m.If(second_selected == number):
                m.d.comb += [
                    self.requests.payload.eq(requests.payload),
                    self.requests.valid.eq(requests.valid & ~waits),
                ]
            with m.If(current[0] != number):  # no source, or second: current[1] drives few gates
                m.d.comb += self.beats.payload.eq(beats.payload)
            with m.If(current[number]):
                m.d.comb += [
                    self.beats.valid.eq(beats.valid),
                    beats.ready.eq(self.beats.ready),
                ]
        with m.If(~waits):  # so a request that passes becomes current or the waiting request
            m.d.sync += [waiting.eq(self.requests.p.beats), waiting_source.eq(second_selected)]
        m.d.sync += waits.eq((waits | passes) & ~ends)
        with m.If(ends):
            source = Mux(waits, waiting_source, second_selected)
            m.d.sync += [
                beats_left.eq(Mux(waits, waiting, self.requests.p.beats)),
                current.eq(Mux(waits | passes, Cat(~source, source), 0)),
            ]
        with m.Elif(moves):
            m.d.sync += beats_left.eq(beats_left - 1)
        return m
