"""The scale of the loss, a power of two: smaller after a step that overflowed, larger after many
that did not."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_sim.spec.registers import BY_NAME

BIAS = 127
TOP = 255
"""Of exponents in binary32: its bias, and the field of an Inf."""


class LossScale(wiring.Component):
    """What becomes of the registers of the loss's scale at the end of a step, and what programs
    multiply by.

    Timing: all combinational.

    Members
    -------
    following, overflowed : In(1)
        A pulse: a step ends; whether it overflowed.
    loss_scale, loss_window, loss_clean : In(32)
        The registers of these names.
    loss_scale_set, loss_clean_set : Out(1)
    loss_scale_next, loss_clean_next : Out(32)
        With the former, what they become.
    scale, inverse : Out(32)
        2^x and 2^-x in binary32, +0 or Inf where it has none; 1.0 while the scale is off.
    """

    def __init__(self):
        super().__init__(
            dict.fromkeys(("following", "overflowed"), In(1))
            | dict.fromkeys(("loss_scale", "loss_window", "loss_clean"), In(32))
            | dict.fromkeys(("loss_scale_set", "loss_clean_set"), Out(1))
            | dict.fromkeys(("loss_scale_next", "loss_clean_next", "scale", "inverse"), Out(32))
        )

    def elaborate(self, platform):
        m = Module()
        on = self.loss_scale[BY_NAME["loss_scale"].bit("on")]
        exponent, smallest, largest = (
            self.loss_scale.word_select(n, 8).as_signed() for n in range(3)
        )
        grown = Signal(signed(9))
        ends = Signal()  # of a window without overflow
        clean = Signal(32)
        m.d.comb += [
            clean.eq(self.loss_clean + 1),
            ends.eq(~self.overflowed & (clean == self.loss_window)),
            grown.eq(exponent),
        ]
        with m.If(self.overflowed):
            m.d.comb += grown.eq(Mux(exponent - 1 < smallest, smallest, exponent - 1))
        with m.Elif(ends):
            m.d.comb += grown.eq(Mux(exponent + 1 > largest, largest, exponent + 1))
        m.d.comb += [
            self.loss_scale_set.eq(self.following & on),
            self.loss_clean_set.eq(self.following & on),
            self.loss_scale_next.eq(Cat(grown[:8], self.loss_scale[8:])),
            self.loss_clean_next.eq(Mux(self.overflowed | ends, 0, clean)),
            self.scale.eq(self._power(m, Mux(on, exponent, Const(0, signed(8))), "scale")),
            self.inverse.eq(self._power(m, -Mux(on, exponent, Const(0, signed(8))), "inverse")),
        ]
        return m

    def _power(self, m, exponent, name):
        """2^exponent in binary32."""
        field = Signal(signed(10), name=f"{name}_field")
        m.d.comb += field.eq(exponent + BIAS)
        kept = Mux(field < 0, 0, Mux(field > TOP, TOP, field[:8]))
        return Cat(Const(0, 23), kept[:8])
