# amaranth: UnusedElaboratable=no
"""Rows of products: their sum, and what is left to add."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.vector.rows import RowProduct, constant_rows, square_rows, two_rows
from support.bench import run
from support.texts import exactly


@pytest.mark.parametrize("a_bits, b_bits, signed", [(3, 4, False), (3, 4, True), (4, 5, True)])
def test_all_short_products(a_bits, b_bits, signed):
    """Wide enough for the offset, the rows are no less than what they stand for."""
    width = a_bits + b_bits + 4
    dut = RowProduct(a_bits=a_bits, b_bits=b_bits, signed=signed, width=width)

    async def bench(ctx):
        for a in range(2**a_bits):
            for b in range(2**b_bits):
                ctx.set(dut.a, a)
                ctx.set(dut.b, b)
                value = a - (a >> (a_bits - 1) << a_bits) if signed else a
                total, carries = ctx.get(dut.total), ctx.get(dut.carries)
                assert total + carries == value * b + dut.offset, (value, b)
                assert carries % 2 == 0

    run(dut, bench)


@pytest.mark.parametrize(
    "a_bits, b_bits, signed, width", [(24, 24, False, 48), (27, 21, True, 50), (18, 14, False, 34)]
)
def test_products_of_the_units(a_bits, b_bits, signed, width, rng):
    dut = RowProduct(a_bits=a_bits, b_bits=b_bits, signed=signed, width=width)
    ends = [0, 1, 2**a_bits - 1, 2 ** (a_bits - 1), 2 ** (a_bits - 1) - 1]
    cases = [(a, b) for a in ends for b in (0, 1, 2**b_bits - 1, 2 ** (b_bits - 1))]
    cases += [(rng.getrandbits(a_bits), rng.getrandbits(b_bits)) for _ in range(200)]

    async def bench(ctx):
        for a, b in cases:
            ctx.set(dut.a, a)
            ctx.set(dut.b, b)
            value = a - (a >> (a_bits - 1) << a_bits) if signed else a
            total = ctx.get(dut.total) + ctx.get(dut.carries)
            if dut.offset < 2**width:
                assert total == value * b + dut.offset, (value, b)
            else:
                assert total % 2**width == value * b % 2**width, (value, b)

    run(dut, bench)


class Rows(wiring.Component):
    """The sum of the rows that ``make`` makes of x."""

    def __init__(self, *, bits: int, width: int, make):
        self.width, self.make = width, make
        super().__init__({"x": In(bits), "o": Out(width)})

    def elaborate(self, platform):
        m = Module()
        first, second = two_rows(m, self.make(m, self.x, self.width), self.width, "x")
        m.d.comb += self.o.eq(first + second)
        return m


@pytest.mark.parametrize("bits", [3, 6])
def test_all_short_squares(bits):
    dut = Rows(bits=bits, width=2 * bits, make=square_rows)

    async def bench(ctx):
        for x in range(2**bits):
            ctx.set(dut.x, x)
            assert ctx.get(dut.o) == x * x, x

    run(dut, bench)


@pytest.mark.parametrize("factor", [7, 11, 0b101010, 221, 255])
def test_all_short_multiples(factor):
    def make(m, x, width):
        return constant_rows(m, x, factor, width)

    dut = Rows(bits=5, width=13, make=make)

    async def bench(ctx):
        for x in range(2**5):
            ctx.set(dut.x, x)
            assert ctx.get(dut.o) == x * factor, x

    run(dut, bench)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"a_bits": 1}, "a_bits must be an integer in 2..32, not 1"),
        ({"b_bits": 33}, "b_bits must be an integer in 2..32, not 33"),
        ({"width": 97}, "width must be an integer in 2..96, not 97"),
    ],
)
def test_errors(change, message):
    given = {"a_bits": 4, "b_bits": 4, "signed": False, "width": 8}
    with pytest.raises(ValueError, match=exactly(message)):
        RowProduct(**(given | change))
