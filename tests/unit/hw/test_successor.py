"""The number behind another, and the last part, against addition."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.successor import is_last, is_successor
from support.bench import run


class Unit(wiring.Component):
    def __init__(self, said, number, before):
        self.said = said
        super().__init__({"number": In(number), "before": In(before), "o": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.said(self.number, self.before))
        return m


@pytest.mark.parametrize("number, before", [(1, 1), (3, 3), (4, 3), (2, 4), (5, 5)])
def test_every_pair(number, before):
    """Numbers of any widths; nothing follows the largest of as many bits, and 0 follows nothing."""
    unit = Unit(is_successor, number, before)

    async def bench(ctx):
        for one in range(1 << number):
            for other in range(1 << before):
                ctx.set(unit.number, one)
                ctx.set(unit.before, other)
                assert ctx.get(unit.o) == (one == other + 1), (one, other)

    run(unit, bench)


@pytest.mark.parametrize("log", range(4))
def test_every_part(log):
    extent_bits = 6
    unit = Unit(lambda number, extent: is_last(number, extent, log), extent_bits - log, extent_bits)

    async def bench(ctx):
        for extent in range(1, 1 << extent_bits):
            ctx.set(unit.before, extent)
            last = (extent - 1) >> log
            for part in range(last + 1):
                ctx.set(unit.number, part)
                assert ctx.get(unit.o) == (part == last), (part, extent)

    run(unit, bench)
