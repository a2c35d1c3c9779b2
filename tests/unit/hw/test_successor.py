"""The number behind another, against addition."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.successor import is_successor
from support.bench import Clocked, run


class Unit(wiring.Component):
    def __init__(self, number, before):
        super().__init__({"number": In(number), "before": In(before), "o": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(is_successor(self.number, self.before))
        return m


@pytest.mark.parametrize("number, before", [(1, 1), (3, 3), (4, 3), (2, 4), (5, 5)])
def test_every_pair(number, before):
    """Numbers of any widths; nothing follows the largest of as many bits, and 0 follows nothing."""
    unit = Unit(number, before)

    async def bench(ctx):
        for one in range(1 << number):
            for other in range(1 << before):
                ctx.set(unit.number, one)
                ctx.set(unit.before, other)
                assert ctx.get(unit.o) == (one == other + 1), (one, other)

    run(Clocked(unit), bench)
