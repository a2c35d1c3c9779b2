"""Read the exponents of whole tensors from their images before a product begins."""

from amaranth.hdl import Array, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.services import ReadSignature
from diastole_hw.plan.modes import OPERATION_OF, Mode
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.tokens import OPERANDS

EXPONENT_BITS = 10


class Headers(wiring.Component):
    """Read the first beat of each image that a product reads, the tensor's exponent in 16 bits.

    No unit may send a request to the reader while ``busy``. Not checked: addresses are multiples of
    a beat.

    Timing: ``busy`` is high from the cycle after ``start`` on. Each class, in order, takes 1 cycle
    if the mode does not read the class, else the cycles from its request to its beat, request and
    beat included (at least 2). ``busy`` falls in the cycle after the last class. ``start`` is
    ignored while ``busy``.

    Members
    -------
    start : In(1)
    mode, operands : In(Mode), In(OPERANDS)
        Stable while ``busy``.
    read : Out(ReadSignature(plan.data_width))
        Requests of one beat each.
    exponents : Out(array of 3 signed(10))
        Exponents by class, 0 for a class that is not read. Valid from the end of ``busy`` to the
        next ``start``.
    busy : Out(1)
    """

    read: wiring.PureInterface
    operands: data.View

    def __init__(self, plan: Plan):
        self.plan = plan
        super().__init__(
            {
                "start": In(1),
                "mode": In(Mode),
                "operands": In(OPERANDS),
                "read": Out(ReadSignature(plan.data_width)),
                "exponents": Out(data.ArrayLayout(signed(EXPONENT_BITS), 3)),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        cls = Signal(2)
        read = Signal()  # the mode reads the current class
        requested = Signal()
        moves = Signal()
        addresses = Array([self.operands.x, self.operands.w, self.operands.dy])
        with m.Switch(self.mode):
            for mode, operation in OPERATION_OF.items():
                classes = [operand.number for operand in operation.operands]
                with m.Case(mode):
                    m.d.comb += read.eq(Array(int(k in classes) for k in range(3))[cls])
        m.d.comb += [self.read.requests.p.addr.eq(addresses[cls]), self.read.requests.p.beats.eq(1)]
        with m.FSM() as fsm:
            m.d.comb += self.busy.eq(fsm.ongoing("READ"))
            with m.State("IDLE"):
                with m.If(self.start):
                    m.d.sync += [cls.eq(0), self.exponents.as_value().eq(0)]
                    m.next = "READ"
            with m.State("READ"):
                m.d.comb += [
                    self.read.requests.valid.eq(read & ~requested),
                    self.read.beats.ready.eq(requested),
                    moves.eq(Mux(requested, self.read.beats.valid, ~read)),
                ]
                with m.If(self.read.requests.valid & self.read.requests.ready):
                    m.d.sync += requested.eq(1)
                with m.If(moves):
                    m.d.sync += [requested.eq(0), cls.eq(cls + 1)]
                    with m.If(cls == 2):
                        m.next = "IDLE"
        for number in range(3):
            with m.If(requested & self.read.beats.valid & (cls == number)):
                exponent = self.read.beats.payload[:EXPONENT_BITS].as_signed()
                m.d.sync += self.exponents[number].eq(exponent)
        return m
