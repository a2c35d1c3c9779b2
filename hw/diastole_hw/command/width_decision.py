"""Decide whether the next conversion of a tensor is to be wider, by the rule of the precision
monitor."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_sim.spec.limits import EPS_BITS

SUM_BITS = 32
"""Bits of a sum of the monitor."""
SCALED_BITS = 14
"""Shift of ``num``. With 16 fraction bits in the threshold, num / (4 den) > threshold is the
comparison 2^14 num > threshold * den, where ``den`` is the sum of k2."""


class WidthDecision(wiring.Component):
    """Compare the counts of :class:`diastole_hw.convert.lanes.monitor.Monitor` with a threshold, as
    :meth:`diastole_sim.golden.improvement.Improvement.exceeds` does: 1 bit of the threshold per
    cycle, with one adder.

    Timing: ``done`` is 1 + 18 cycles after ``start``, together with ``wide``.

    Members
    -------
    start : In(1)
        Pulse, allowed from the cycle after the preceding ``done`` on.
    num, den : In(SUM_BITS)
        Counts as in :class:`diastole_hw.convert.lanes.monitor.Monitor`; must stay stable from
        ``start`` to ``done``.
    threshold : In(18)
        Threshold in units of 2^-16, read in the cycle of ``start``.
    done, wide : Out(1)
        Pulse, and whether num / (4 den) is above the threshold.
    """

    def __init__(self):
        sums = dict.fromkeys(("num", "den"), In(unsigned(SUM_BITS)))
        flags = {"start": In(1), "done": Out(1), "wide": Out(1)}
        super().__init__(flags | sums | {"threshold": In(unsigned(EPS_BITS))})

    def elaborate(self, platform):
        m = Module()
        left = Signal(range(EPS_BITS + 1))  # remaining bits of the threshold
        busy = Signal()
        high, low = data_register(SUM_BITS), data_register(EPS_BITS)  # parts of the product
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
