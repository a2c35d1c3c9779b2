"""Sums of three numbers against Python's."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.sums import sum_of_three
from support.bench import run


class Unit(wiring.Component):
    def __init__(self, widths):
        self.widths = widths
        super().__init__({f"i{n}": In(width) for n, width in enumerate(widths)} | {"o": Out(64)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(sum_of_three(*(getattr(self, f"i{n}") for n in range(3))))
        return m


@pytest.mark.parametrize("widths", [(5, 3, 3), (5, 5, 2), (4, 1, 4), (3, 5, 2), (40, 22, 19)])
def test_sums(widths, rng):
    """Modulo as many bits as the first has, which may be the shortest."""
    unit = Unit(widths)

    async def bench(ctx):
        for _ in range(300):
            values = [rng.choice((0, (1 << w) - 1, rng.getrandbits(w))) for w in widths]
            for n, value in enumerate(values):
                ctx.set(getattr(unit, f"i{n}"), value)
            assert ctx.get(unit.o) == sum(values) % (1 << widths[0]), values

    run(unit, bench)
