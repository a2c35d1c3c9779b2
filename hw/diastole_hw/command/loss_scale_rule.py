"""Adapt the scale of the loss, a power of two. The scale shrinks after a step that overflowed,
grows after many steps without overflow, and never falls below a floor that a program may raise."""

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.binary32 import FRACTION_BITS, TOP
from diastole_hw.vector.vector_tables import constant_layout, floor_layout
from diastole_sim.spec.formats import EXPONENT_BIAS
from diastole_sim.spec.micro import INVERSE, SCALE
from diastole_sim.spec.registers import BY_NAME


class LossScaleRule(wiring.Component):
    """Compute new values of the loss-scale registers at the end of a step and when a program loads
    a floor. Write the constants of programs that follow from the scale.

    Timing: new values of the registers are combinational. In the two cycles after ``following``,
    ``start`` or ``floor`` the two constants are written.

    Members
    -------
    start : In(1)
        Pulse: commands begin.
    following, overflowed : In(1)
        Pulse at the end of a step, and whether the step overflowed.
    floor : In(floor_layout())
        Pulse: the smallest exponent becomes ``field`` - 127, a byte in two's complement. Not
        allowed in the cycle of ``following``.
    loss_scale, loss_window, loss_clean : In(32)
        Registers of these names.
    loss_scale_set, loss_clean_set : Out(1)
    loss_scale_next, loss_clean_next : Out(32)
        New values of the registers, valid while ``..._set`` is high.
    put : Out(constant_layout())
        Constants 2^x and 2^-x in binary32, +0 or Inf where the power is out of range; 1.0 while the
        scale is off.
    """

    floor: data.View
    put: data.View

    def __init__(self):
        super().__init__(
            dict.fromkeys(("start", "following", "overflowed"), In(1))
            | dict.fromkeys(("loss_scale", "loss_window", "loss_clean"), In(32))
            | dict.fromkeys(("loss_scale_set", "loss_clean_set"), Out(1))
            | dict.fromkeys(("loss_scale_next", "loss_clean_next"), Out(32))
            | {"floor": In(floor_layout()), "put": Out(constant_layout())}
        )

    def elaborate(self, platform):
        m = Module()
        on = self.loss_scale[BY_NAME["loss_scale"].bit("on")]
        exponent, smallest, largest = (
            self.loss_scale.word_select(n, 8).as_signed() for n in range(3)
        )
        m.d.sync += Assert(~(self.floor.valid & self.following), "a floor as a step ends")
        floor = Signal(signed(8))
        rises = Signal()  # the scale rises to a floor above it
        grown = Signal(signed(9))
        ends = Signal()  # a window without overflow ends
        clean = Signal(32)
        m.d.comb += [
            clean.eq(self.loss_clean + 1),
            ends.eq(~self.overflowed & (clean == self.loss_window)),
            floor.eq(self.floor.field - EXPONENT_BIAS),
            rises.eq(self.floor.valid & (exponent < floor)),
            grown.eq(exponent),
        ]
        with m.If(self.floor.valid):
            m.d.comb += grown.eq(Mux(rises, floor, exponent))
        with m.Elif(self.overflowed):
            m.d.comb += grown.eq(Mux(exponent - 1 < smallest, smallest, exponent - 1))
        with m.Elif(ends):
            m.d.comb += grown.eq(Mux(exponent + 1 > largest, largest, exponent + 1))
        m.d.comb += [
            self.loss_scale_set.eq((self.following | self.floor.valid) & on),
            self.loss_clean_set.eq((self.following | rises) & on),
            self.loss_scale_next.eq(
                Cat(grown[:8], Mux(self.floor.valid, floor, smallest)[:8], self.loss_scale[16:])
            ),
            self.loss_clean_next.eq(Mux(self.overflowed | ends | rises, 0, clean)),
        ]
        self._put(m, Mux(on, exponent, Const(0, signed(8))))
        return m

    def _put(self, m, exponent):
        """Write one constant after the other."""
        scale, inverse = Signal(), Signal()
        field = Signal(signed(10))
        changes = self.start | self.following | self.floor.valid
        m.d.sync += [scale.eq(changes), inverse.eq(scale)]
        m.d.comb += [
            field.eq(EXPONENT_BIAS + Mux(inverse, -exponent, exponent)),
            self.put.valid.eq(scale | inverse),
            self.put.index.eq(Mux(inverse, INVERSE, SCALE)),
            self.put.value[FRACTION_BITS:].eq(Mux(field < 0, 0, Mux(field > TOP, TOP, field[:8]))),
        ]
