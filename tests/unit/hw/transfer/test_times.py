# amaranth: UnusedElaboratable=no
"""Products by shifts and additions."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.transfer.times import times
from support.bench import design, simulation


class Product(wiring.Component):
    """Of a number of 5 bits and a constant, or one of 3 bits where there is none."""

    def __init__(self, factor: int | None):
        self.factor = factor
        super().__init__({"a": In(5), "b": In(3), "o": Out(20)})

    def elaborate(self, platform):
        m = Module()
        factor = self.b if self.factor is None else self.factor
        m.d.comb += self.o.eq(times(self.a, factor))
        kept = Signal()
        m.d.sync += kept.eq(~kept)
        return m


@pytest.mark.parametrize("factor", [None, 0, 1, 2, 7, 80, 5 << 9])
async def test_every_product(factor):
    dut = design(Product, factor)
    ctx = await simulation(dut)
    for a in range(32):
        for b in range(8 if factor is None else 1):
            ctx.set(dut.a, a)
            ctx.set(dut.b, b)
            assert ctx.get(dut.o) == a * (b if factor is None else factor)
