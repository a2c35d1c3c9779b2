"""Delay write requests until their beats have arrived: a slow source then blocks no unit."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.bus.services import WriteSignature, owned_request_layout, write_beat_layout
from diastole_hw.carry_save import sum_of_three
from diastole_hw.stream.fifo import StreamFifo
from diastole_sim.spec.command_table import ADDRESS_BITS

DEPTH = 32
"""Capacity of the beat queue."""


class GatheredWrites(wiring.Component):
    """Pass requests and beats on, in order. A request is passed on when its slow beats (``slow``)
    have arrived, or :data:`DEPTH` of them.

    Beats are passed on after their request has been accepted.

    Timing: 1 beat per cycle. A request is offered at the earliest 1 cycle after the unit accepted
    the request and its beats. A beat is offered at the earliest 2 cycles after the unit accepted
    the beat, and 1 cycle after its request was accepted downstream. Valid and ready signals are
    functions of registers.

    Parameters
    ----------
    data_width : int
        Bits of a beat.

    Members
    -------
    source : In(WriteSignature(data_width))
        Requests and beats of the source. Address bits within a beat are ignored.
    command : In(1)
        Number, among the two commands in flight, of the command that offers the request.
    slow : In(range(DEPTH + 1))
        Number of beats of the offered request that may arrive with pauses, at least 1. The
        remaining beats arrive without pauses.
    requests : Out(stream of owned_request_layout())
        Requests with the owner 0. An offer stays until it is accepted.
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
        in_beat = exact_log2(self.data_width // 8)
        source, out = self.source.requests, self.requests
        need = Signal(range(DEPTH + 1))
        request = data.StructLayout(
            {
                "group": ADDRESS_BITS - in_beat,
                "beats": source.p.beats.shape(),
                "command": 1,
                "need": need.shape(),
            }
        )
        requests = StreamFifo(request, 2)
        beats = StreamFifo(write_beat_layout(self.data_width), DEPTH)
        m.submodules.request_queue = requests
        m.submodules.beat_queue = beats
        m.d.comb += [
            need.eq(Mux(source.p.beats < self.slow, source.p.beats, self.slow)),
            requests.i.valid.eq(source.valid),
            requests.i.p.group.eq(source.p.addr >> in_beat),
            requests.i.p.beats.eq(source.p.beats),
            requests.i.p.command.eq(self.command),
            requests.i.p.need.eq(need),
            source.ready.eq(requests.i.ready),
        ]
        wiring.connect(m, wiring.flipped(self.source.beats), beats.i)
        head = requests.o
        # Beats that have arrived, less the beats of requests that have been passed on. Never above
        # DEPTH, and never below the need of a request less all of its beats.
        spare = Signal(signed(len(source.p.beats) + 1))
        requested = Signal()
        due = Signal()  # the oldest beat belongs to a request that has been passed on
        came = Signal()
        moved = Signal()
        m.d.comb += [
            requested.eq(out.valid & out.ready),
            moved.eq(self.beats.valid & self.beats.ready),
            came.eq(beats.i.valid & beats.i.ready),
            due.eq((spare < 0) | (spare[: len(beats.level)] != beats.level)),
            self.beats.valid.eq(beats.o.valid & due),
            self.beats.payload.eq(beats.o.payload),
            beats.o.ready.eq(moved),
            out.p.addr.eq(Cat(Const(0, in_beat), head.p.group)),
            out.p.beats.eq(head.p.beats),
            out.p.owner_tag.command.eq(head.p.command),
            out.valid.eq(head.valid & (spare >= 0) & (spare[: len(need)] >= head.p.need)),
            head.ready.eq(requested),
        ]
        minus_request = Mux(requested, ~head.p.beats, ~Const(0, len(head.p.beats)))
        total = sum_of_three(
            spare.as_unsigned(), Cat(minus_request, Const(-1, 1)), Cat(~came, came)
        )
        m.d.sync += spare.eq(total)
        return m
