# amaranth: UnusedElaboratable=no
"""Small helpers of floats."""

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.vector.binary32 import negated, nonzero, not_a_number, quick_sum
from diastole_sim.golden.vector import numbers
from support.bench import run
from support.vector_operands import SPECIALS, as_floats


class Helpers(wiring.Component):
    """All of them, side by side."""

    value: In(32)
    flag: In(1)
    negative: Out(32)
    nan: Out(1)
    there: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [
            self.negative.eq(negated(self.value, self.flag)),
            self.nan.eq(not_a_number(self.value)),
            self.there.eq(nonzero(self.value)),
        ]
        return m


def test_signs_and_kinds():
    dut = Helpers()
    values = as_floats(np.array(SPECIALS, np.uint32))
    flipped = numbers.negate(values).view(np.uint32).tolist()
    found = zip(SPECIALS, flipped, np.isnan(values), numbers.is_zero(values), strict=True)

    async def bench(ctx):
        for value, other, nan, zero in found:
            ctx.set(dut.value, value)
            for flag in (0, 1):
                ctx.set(dut.flag, flag)
                assert ctx.get(dut.negative) == (other if flag else value), f"{value:08x}"
            assert (ctx.get(dut.nan), ctx.get(dut.there)) == (nan, not zero), f"{value:08x}"

    run(dut, bench)


class Sum(wiring.Component):
    """Of ``width`` bits."""

    def __init__(self, width: int):
        super().__init__({"a": In(width), "b": In(width), "carry": In(1), "o": Out(width)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(quick_sum(m, self.a, self.b, self.carry))
        return m


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_all_short_sums(width):
    dut = Sum(width)

    async def bench(ctx):
        for a in range(2**width):
            for b in range(2**width):
                for carry in (0, 1):
                    for port, value in ((dut.a, a), (dut.b, b), (dut.carry, carry)):
                        ctx.set(port, value)
                    assert ctx.get(dut.o) == (a + b + carry) % 2**width, (a, b, carry)

    run(dut, bench)


@pytest.mark.parametrize("width", [26, 28, 33])
def test_long_sums(width, rng):
    """Carries of every length."""
    dut = Sum(width)

    async def bench(ctx):
        for number in range(300):
            a, carry = rng.getrandbits(width), rng.getrandbits(1)
            b = (
                rng.getrandbits(width)
                if number % 2
                else a ^ (2**width - 1) ^ (1 << rng.randrange(width))
            )
            for port, value in ((dut.a, a), (dut.b, b), (dut.carry, carry)):
                ctx.set(port, value)
            assert ctx.get(dut.o) == (a + b + carry) % 2**width, (a, b, carry)

    run(dut, bench)
