"""Join two readers into one reader of the read service."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.services import ReadSignature
from diastole_hw.stream.fifo import StreamFifo

OPEN = 64
"""Largest number of requests with outstanding beats: more than the bus has open bursts."""


class ReadPair(wiring.Component):
    """Pass on the requests of two readers, ``first`` before ``second``, and return beats to their
    reader.

    A reader that does not accept its beats blocks the second reader: a reader must accept its beats
    without waiting for the beats of its partner.

    Timing: all combinational, no cycle is lost; at most :data:`OPEN` requests are open. An offer
    stays until it is accepted. The ``ready`` of a reader does not depend on the reader's own
    ``valid``.

    Parameters
    ----------
    data_width : int
        Bits of a beat.

    Members
    -------
    first, second : In(ReadSignature(data_width))
        Readers. An offered request must stay until it is accepted.
    first_command, second_command : In(1)
        Number, among the two commands in flight, of the command that offers the request.
    service : Out(ReadSignature(data_width))
    command : Out(1)
        Command number of the offered request.
    """

    first: wiring.PureInterface
    second: wiring.PureInterface
    service: wiring.PureInterface

    def __init__(self, *, data_width: int):
        self.data_width = data_width
        super().__init__(
            {
                "first": In(ReadSignature(data_width)),
                "second": In(ReadSignature(data_width)),
                "first_command": In(1),
                "second_command": In(1),
                "service": Out(ReadSignature(data_width)),
                "command": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        out, beats = self.service.requests, self.service.beats
        waiting = Signal()  # the offer of ``second`` has not been accepted
        selects_second = Signal()  # 1: ``second`` may request
        requested = data.StructLayout({"second": 1, "beats": out.p.beats.shape()})
        m.submodules.open = open_ = StreamFifo(requested, OPEN)
        m.d.comb += [
            selects_second.eq(waiting | ~self.first.requests.valid),
            self.command.eq(Mux(selects_second, self.second_command, self.first_command)),
        ]
        for number, reader in enumerate((self.first, self.second)):
            reader_requests = reader.requests
            m.d.comb += reader_requests.ready.eq(
                (selects_second == number) & out.ready & open_.i.ready
            )
            with m.If(selects_second == number):
                m.d.comb += [
                    out.valid.eq(reader_requests.valid & open_.i.ready),
                    out.payload.eq(reader_requests.payload),
                ]
            with m.If(open_.o.p.second == number):
                m.d.comb += [
                    reader.beats.valid.eq(beats.valid & open_.o.valid),
                    beats.ready.eq(reader.beats.ready & open_.o.valid),
                ]
            m.d.comb += reader.beats.payload.eq(beats.payload)
        m.d.sync += waiting.eq(out.valid & ~out.ready & selects_second)
        moved, left = Signal(), Signal.like(out.p.beats)  # arrived beats of the oldest request
        last = left + 1 == open_.o.p.beats
        m.d.comb += [
            open_.i.valid.eq(out.valid & out.ready),
            open_.i.p.second.eq(selects_second),
            open_.i.p.beats.eq(out.p.beats),
            moved.eq(beats.valid & beats.ready),
            open_.o.ready.eq(moved & last),
        ]
        with m.If(moved):
            m.d.sync += left.eq(Mux(last, 0, left + 1))
        return m
