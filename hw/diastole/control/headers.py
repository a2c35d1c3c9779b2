"""The exponents of whole tensors, read from their images before a product begins."""

from amaranth.hdl import Array, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole.bus.service import request_layout
from diastole.control.setup import OPERANDS
from diastole.plan import Plan
from diastole.uses import DY, Mode, W, X

EXPONENT_BITS = 10
_READ = {Mode.FORWARD: (X, W), Mode.DX: (W, DY), Mode.DW: (X, DY), Mode.FUSED: (X, W, DY)}
"""The classes whose tensors a mode reads."""


class Headers(wiring.Component):
    """Read the first beat of each image that a product reads: the tensor's exponent in 16 bits.

    ``start`` with ``mode`` and ``operands``, both stable while ``busy``; then ``exponents`` by
    class, 0 for a class that is not read, until the next ``start``.

    Timing: one read after the other; ``busy`` from the cycle after ``start`` to the last beat, and
    nothing else is asked of the reader meanwhile.
    """

    requests: stream.Interface
    data: stream.Interface
    operands: data.View

    def __init__(self, plan: Plan):
        self.plan = plan
        super().__init__(
            {
                "start": In(1),
                "mode": In(Mode),
                "operands": In(OPERANDS),
                "requests": Out(stream.Signature(request_layout())),
                "data": In(stream.Signature(unsigned(plan.data_width))),
                "exponents": Out(data.ArrayLayout(signed(EXPONENT_BITS), 3)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        cls = Signal(2)
        read = Signal()  # the class at hand is read
        asked = Signal()
        moves = Signal()
        addresses = Array([self.operands.x, self.operands.w, self.operands.dy])
        with m.Switch(self.mode):
            for mode, classes in _READ.items():
                with m.Case(mode):
                    m.d.comb += read.eq(Array(int(k in classes) for k in range(3))[cls])
        m.d.comb += [self.requests.p.addr.eq(addresses[cls]), self.requests.p.beats.eq(1)]
        with m.FSM() as fsm:
            m.d.comb += self.busy.eq(fsm.ongoing("READ"))
            with m.State("IDLE"):
                with m.If(self.start):
                    m.d.sync += [cls.eq(0), self.exponents.as_value().eq(0)]
                    m.next = "READ"
            with m.State("READ"):
                m.d.comb += [
                    self.requests.valid.eq(read & ~asked),
                    self.data.ready.eq(asked),
                    moves.eq(Mux(asked, self.data.valid, ~read)),
                ]
                with m.If(self.requests.valid & self.requests.ready):
                    m.d.sync += asked.eq(1)
                with m.If(moves):
                    m.d.sync += [asked.eq(0), cls.eq(cls + 1)]
                    with m.If(cls == 2):
                        m.next = "IDLE"
        for number in range(3):
            with m.If(asked & self.data.valid & (cls == number)):
                exponent = self.data.payload[:EXPONENT_BITS].as_signed()
                m.d.sync += self.exponents[number].eq(exponent)
        return m
