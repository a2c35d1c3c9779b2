"""Writes that are asked for when their beats are there: so that a slow source holds up nobody."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.services import WriteSignature, owned_request_layout, write_beat_layout
from diastole_hw.place import place
from diastole_hw.stream.fifo import StreamFifo

DEPTH = 32
"""Beats that wait."""


class GatheredWrites(wiring.Component):
    """Pass requests and beats on, in order; a request as soon as the beats have come for which its
    source may pause, or :data:`DEPTH` of them.

    Beats leave when their request has been taken.

    Timing: a beat per cycle; a request leaves 1 cycle after it and its beats were taken at the
    earliest, a beat 2 cycles after it was, and 1 after its request. Valid and ready signals are
    functions of registers.

    Parameters
    ----------
    data_width : int
        Bits of a beat.

    Members
    -------
    source : In(WriteSignature(data_width))
    command : In(1)
        Which of the two commands in flight the request is of that is offered there.
    slow : In(range(DEPTH + 1))
        So many beats of a request may come with pauses, at least 1; the others one after the other.
    requests : Out(stream of owned_request_layout())
        An offer stays until it is taken; the owner is 0.
    beats : Out(stream of write_beat_layout(data_width))
    """

    source: wiring.PureInterface
    requests: stream.Interface
    beats: stream.Interface

    def __init__(self, *, data_width: int):
        self.data_width = data_width
        super().__init__(
            {
                "source": In(WriteSignature(data_width)),
                "command": In(1),
                "slow": In(range(DEPTH + 1)),
                "requests": Out(stream.Signature(owned_request_layout())),
                "beats": Out(stream.Signature(write_beat_layout(data_width))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        requests = StreamFifo(owned_request_layout(), 2)
        beats = StreamFifo(write_beat_layout(self.data_width), DEPTH)
        m.submodules.request_queue = place(requests, platform)
        m.submodules.beat_queue = place(beats, platform)
        asks = self.source.requests
        m.d.comb += [
            requests.i.valid.eq(asks.valid),
            requests.i.p.addr.eq(asks.p.addr),
            requests.i.p.beats.eq(asks.p.beats),
            requests.i.p.whose.command.eq(self.command),
            asks.ready.eq(requests.i.ready),
        ]
        wiring.connect(m, wiring.flipped(self.source.beats), beats.i)
        head = requests.o
        owed = Signal(16)  # beats of requests that have left
        here = Signal(range(DEPTH + 1))  # beats that are none of these
        asked = Signal()
        moved = Signal()
        m.d.comb += [
            asked.eq(self.requests.valid & self.requests.ready),
            moved.eq(self.beats.valid & self.beats.ready),
            self.beats.valid.eq(beats.o.valid & (owed != 0)),
            self.beats.payload.eq(beats.o.payload),
            beats.o.ready.eq(moved),
            here.eq(Mux(owed < beats.level, beats.level - owed, 0)),
            self.requests.payload.eq(head.payload),
            self.requests.valid.eq(
                head.valid & (here >= Mux(head.p.beats < self.slow, head.p.beats, self.slow))
            ),
            head.ready.eq(asked),
        ]
        m.d.sync += owed.eq(owed + Mux(asked, head.p.beats, 0) - moved)
        return m
