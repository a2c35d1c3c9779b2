"""Lane of the vector unit: a multiplier, followed by an adder that also compares."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.binary32 import ONE, nonzero
from diastole_hw.data_registers import data_register
from diastole_hw.vector.float.float_add import AddOp, FloatAdd
from diastole_hw.vector.float.float_mul import FloatMul
from diastole_hw.vector.stream_layouts import WORD
from diastole_sim.spec.micro import OP_BITS, MicroOp

ADD_OPS = {
    MicroOp.MAD: AddOp.ADD,
    MicroOp.MUL: AddOp.FIRST,
    MicroOp.ADD: AddOp.ADD,
    MicroOp.MAX: AddOp.MAX,
    MicroOp.MIN: AddOp.MIN,
    MicroOp.GT: AddOp.GT,
    MicroOp.EQ: AddOp.EQ,
    MicroOp.SEL: AddOp.SECOND,
    MicroOp.MOV: AddOp.SECOND,
}
"""Operation of the adder after the multiplier. For an operation without a product, a is multiplied
by 1."""


class Lane(wiring.Component):
    """Compute ``result`` of an operation on operands that are already permuted and negated.

    Every operation rounds once. ``mad`` rounds twice: the product, and the sum. ``mov`` and ``sel``
    move bits unchanged. ``sel`` is a if b is not a zero, otherwise c. :class:`FloatMul` and
    :class:`FloatAdd` define the operations.

    Timing: ``latency`` cycles, 1 result per cycle, operations in any sequence. There is no valid
    bit: the user delays a valid bit alongside.

    Members
    -------
    op : In(5)
        A MicroOp, ``mad`` to ``mov``. Codes outside the range give an arbitrary result.
    keep : In(1)
        The result is c, bits unchanged, for every operation.
    a, b, c, result : In(32), In(32), In(32), Out(32)
    """

    op: In(OP_BITS)
    keep: In(1)
    a: In(WORD)
    b: In(WORD)
    c: In(WORD)
    result: Out(WORD)

    latency = FloatMul.latency + FloatAdd.latency

    def elaborate(self, platform):
        m = Module()
        multiplier, adder = FloatMul(), FloatAdd()
        m.submodules.multiplier = multiplier
        m.submodules.adder = adder
        multiplies = (self.op == MicroOp.MAD) | (self.op == MicroOp.MUL)
        m.d.comb += [
            multiplier.a.eq(self.a),
            multiplier.b.eq(Mux(multiplies, self.b, ONE)),
            adder.a.eq(multiplier.result),
            self.result.eq(adder.result),
        ]
        addition_layout = data.StructLayout({"op": unsigned(len(adder.op)), "c": unsigned(WORD)})
        addition = Signal(addition_layout)
        moves = (self.op == MicroOp.MOV) | ((self.op == MicroOp.SEL) & nonzero(self.b))
        m.d.comb += addition.c.eq(Mux(moves & ~self.keep, self.a, self.c))
        with m.Switch(self.op):
            for op, following in ADD_OPS.items():
                with m.Case(op):
                    m.d.comb += addition.op.eq(following)
        with m.If(self.keep):
            m.d.comb += addition.op.eq(AddOp.SECOND)
        for cycle in range(FloatMul.latency):
            late = data_register(addition_layout, name=f"addition_{cycle}")
            m.d.sync += late.eq(addition)
            addition = late
        m.d.comb += [adder.op.eq(addition.op), adder.c.eq(addition.c)]
        return m
