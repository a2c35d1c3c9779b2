"""Whether a tensor's next conversion is to be wider: the rule of the precision monitor."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_sim.spec.limits import EPS_BITS

SUM_BITS = 32
"""Bits of a sum of the monitor."""
SCALED_BITS = 14
"""2^14 num > threshold * sum of k2, since den is four of these, and a threshold has 16 bits behind
the point."""


class WidthDecision(wiring.Component):
    """Compare what :class:`diastole_hw.convert.lanes.monitor.Monitor` has counted with a threshold,
    as :meth:`diastole_sim.golden.improvement.Improvement.exceeds` does: one bit of the threshold
    per cycle, with one adder.

    Timing: ``done`` comes 1 + 18 cycles after ``start``, with ``wide``.

    Members
    -------
    start : In(1)
        A pulse; from the cycle after ``done`` of the one before on.
    num, den : In(SUM_BITS)
        As of :class:`diastole_hw.convert.lanes.monitor.Monitor`; they must hold from ``start`` to
        ``done``.
    threshold : In(18)
        In units of 2^-16, at ``start``.
    done, wide : Out(1)
        A pulse; num / (4 den) is above the threshold.
    """

    def __init__(self):
        sums = dict.fromkeys(("num", "den"), In(unsigned(SUM_BITS)))
        flags = {"start": In(1), "done": Out(1), "wide": Out(1)}
        super().__init__(flags | sums | {"threshold": In(unsigned(EPS_BITS))})

    def elaborate(self, platform):
        m = Module()
        left = Signal(range(EPS_BITS + 1))  # bits of the threshold
        busy = Signal()
        high, low = data_register(SUM_BITS), data_register(EPS_BITS)  # of the product, and below
        total = Signal(SUM_BITS + 1)
        m.d.comb += [
            total.eq(high + Mux(low[0], self.den, 0)),
            self.done.eq(busy & (left == 0)),
            self.wide.eq((self.num << SCALED_BITS) > Cat(low, high)),
        ]
        m.d.sync += Assert(~self.start | ~busy, "a decision begins within another")
        m.d.sync += busy.eq(self.start | (busy & ~self.done))
        with m.If(self.start):
            m.d.sync += [left.eq(EPS_BITS), high.eq(0), low.eq(self.threshold)]
        with m.Elif(left != 0):
            m.d.sync += [left.eq(left - 1), Cat(low, high).eq(Cat(low[1:], total))]
        return m
