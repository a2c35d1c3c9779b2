"""The choice of one value by a bit for each."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.choice import the_one_of
from support.bench import run


class Unit(wiring.Component):
    def __init__(self, count):
        self.count = count
        super().__init__({"values": In(9).array(count), "chosen": In(count), "o": Out(9)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(the_one_of(list(self.values), self.chosen))
        return m


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_chosen_one_or_nothing(count, rng):
    unit = Unit(count)

    async def bench(ctx):
        for _ in range(20):
            values = [rng.getrandbits(9) for _ in range(count)]
            for port, value in zip(unit.values, values, strict=True):
                ctx.set(port, value)
            ctx.set(unit.chosen, 0)
            assert ctx.get(unit.o) == 0
            for number, value in enumerate(values):
                ctx.set(unit.chosen, 1 << number)
                assert ctx.get(unit.o) == value

    run(unit, bench)
