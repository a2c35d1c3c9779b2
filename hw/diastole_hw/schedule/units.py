"""Units of sums: how many of the memories behind the ports are taken."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.plan.plan import SUM_UNITS

UNITS = range(SUM_UNITS + 1)


class UnitSpace(wiring.Component):
    """Count units of sums: tiles take some and give them back in order, each its product's number.

    ``take`` while not ``free`` and giving more than is taken are not allowed, and not checked.

    Timing: ``free`` is combinational from ``takes``; what is taken and given back counts from the
    next cycle on.

    Members
    -------
    takes : In(range(SUM_UNITS + 1))
        Units of a tile that would be begun.
    take : In(1)
        It is.
    gives : In(range(SUM_UNITS + 1))
        Units of the tile that has been read last.
    give : In(1)
        It has been read.
    free : Out(1)
        There is room for ``takes``.
    taken : Out(range(SUM_UNITS + 1))
    """

    def __init__(self):
        super().__init__(
            {
                "takes": In(UNITS),
                "take": In(1),
                "gives": In(UNITS),
                "give": In(1),
                "free": Out(1),
                "taken": Out(UNITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        behind = Signal(range(2 * SUM_UNITS + 1))
        m.d.comb += [
            behind.eq(self.taken + self.takes),
            self.free.eq(behind <= SUM_UNITS),
        ]
        before = Mux(self.take, behind, self.taken)
        m.d.sync += self.taken.eq(before - Mux(self.give, self.gives, 0))
        return m
