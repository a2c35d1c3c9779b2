"""Two readers that are one to the read service."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.services import ReadSignature
from diastole_hw.stream.fifo import StreamFifo

OPEN = 64
"""Requests whose beats are still to come: more than the bus has bursts open."""


class ReadPair(wiring.Component):
    """Pass the requests of two readers on, ``first`` before ``second``; beats go to who asked.

    A reader that does not take its beats holds up the other one: it must take them without waiting
    for that.

    Timing: all combinational, no cycle is lost; at most :data:`OPEN` requests are open. An offer
    stays until it is taken. What a reader sees as ``ready`` does not depend on its own ``valid``.

    Parameters
    ----------
    data_width : int
        Bits of a beat.

    Members
    -------
    first, second : In(ReadSignature(data_width))
        An offered request must stay until it is taken.
    first_command, second_command : In(1)
        Which of the two commands in flight the request is of that is offered there.
    service : Out(ReadSignature(data_width))
    command : Out(1)
        Of the request that is offered.
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
        waiting = Signal()  # the second one's offer has not been taken
        turn = Signal()  # 1: the second one's
        asked = data.StructLayout({"second": 1, "beats": out.p.beats.shape()})
        m.submodules.open = open_ = StreamFifo(asked, OPEN)
        m.d.comb += [
            turn.eq(waiting | ~self.first.requests.valid),
            self.command.eq(Mux(turn, self.second_command, self.first_command)),
        ]
        for number, reader in enumerate((self.first, self.second)):
            asks = reader.requests
            m.d.comb += asks.ready.eq((turn == number) & out.ready & open_.i.ready)
            with m.If(turn == number):
                m.d.comb += [
                    out.valid.eq(asks.valid & open_.i.ready),
                    out.payload.eq(asks.payload),
                ]
            with m.If(open_.o.p.second == number):
                m.d.comb += [
                    reader.beats.valid.eq(beats.valid & open_.o.valid),
                    beats.ready.eq(reader.beats.ready & open_.o.valid),
                ]
            m.d.comb += reader.beats.payload.eq(beats.payload)
        m.d.sync += waiting.eq(out.valid & ~out.ready & turn)
        moved, left = Signal(), Signal.like(out.p.beats)  # beats of the oldest that have come
        last = left + 1 == open_.o.p.beats
        m.d.comb += [
            open_.i.valid.eq(out.valid & out.ready),
            open_.i.p.second.eq(turn),
            open_.i.p.beats.eq(out.p.beats),
            moved.eq(beats.valid & beats.ready),
            open_.o.ready.eq(moved & last),
        ]
        with m.If(moved):
            m.d.sync += left.eq(Mux(last, 0, left + 1))
        return m
