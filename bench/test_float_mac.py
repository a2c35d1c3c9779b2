# amaranth: UnusedElaboratable=no
"""The multiply-add that cells are measured against, against MPFR."""

import gmpy2
import pytest
from amaranth.sim import Simulator

from bench.float_mac import FloatCell, FloatMultiplyAdd
from support.bench import run

NAN, INFINITE = 0x7FC0_0000, 0x7F80_0000
UNBOUNDED = gmpy2.context(precision=24, emin=-2000, emax=2000)


def number(bits, fraction_bits):
    """The value of a float's bits, subnormals as zeros of their sign."""
    sign, field = bits >> (fraction_bits + 8), bits >> fraction_bits & 255
    fraction = bits & (1 << fraction_bits) - 1
    if field == 255:
        value = gmpy2.inf() if fraction == 0 else gmpy2.nan()
    elif field == 0:
        value = gmpy2.mpfr(0)
    else:
        value = (fraction | 1 << fraction_bits) * gmpy2.mpfr(2) ** (field - 127 - fraction_bits)
    return -value if sign else value


def binary32(value):
    """Bits of a value of 24 bits: flushed below, infinite above."""
    if gmpy2.is_nan(value):
        return NAN
    sign = int(gmpy2.is_signed(value)) << 31
    if gmpy2.is_infinite(value) or abs(value) >= gmpy2.mpfr(2) ** 128:
        return sign | INFINITE
    if abs(value) < gmpy2.mpfr(2) ** -126:
        return 0
    exponent = gmpy2.get_exp(value) - 1
    significand = int(gmpy2.mul_2exp(abs(value), 300)) >> (exponent + 300 - 23)
    return sign | (exponent + 127) << 23 | significand & 0x7FFFFF


def expected(a, b, c):
    with UNBOUNDED:
        return binary32(gmpy2.fma(number(a, 7), number(b, 7), number(c, 23)))


def check(cases):
    dut = FloatMultiplyAdd()

    async def bench(ctx):
        for a, b, c in cases:
            ctx.set(dut.a, a)
            ctx.set(dut.b, b)
            ctx.set(dut.c, c)
            got, want = ctx.get(dut.result), expected(a, b, c)
            assert got == want, f"{a=:#x} {b=:#x} {c=:#x}: {got:#x}, not {want:#x}"

    sim = Simulator(dut)
    sim.add_testbench(bench)
    sim.run()


def operand(rng, low, high):
    return rng.getrandbits(1) << 15 | rng.randint(low, high) << 7 | rng.getrandbits(7)


def test_any_bits(rng):
    check([(rng.getrandbits(16), rng.getrandbits(16), rng.getrandbits(32)) for _ in range(1000)])


@pytest.mark.parametrize("distance", [-40, -27, -25, -24, -12, -2, -1, 0, 1, 2, 3, 24, 25, 30])
def test_near_exponents(distance, rng):
    cases = []
    for _ in range(300):
        a, b = operand(rng, 100, 150), operand(rng, 100, 150)
        field = (a >> 7 & 255) + (b >> 7 & 255) - 127 + distance
        fraction = rng.choice((0, 1, 0x7FFFFF, rng.getrandbits(23)))
        cases.append((a, b, rng.getrandbits(1) << 31 | field << 23 | fraction))
    check(cases)


def test_cancellation(rng):
    """The addend is minus the product, or one place off it."""
    cases = []
    for _ in range(500):
        a, b = operand(rng, 110, 140), operand(rng, 110, 140)
        product = expected(a, b, 0)
        cases.append((a, b, (product ^ 1 << 31) + rng.randint(-1, 1)))
    check(cases)


def test_ends_of_the_range(rng):
    cases = []
    for low, high, field in ((1, 70, 1), (60, 66, 2), (180, 200, 254), (1, 254, 254)):
        for _ in range(300):
            c = rng.getrandbits(1) << 31 | field << 23 | rng.choice((0, 0x7FFFFF, 5))
            cases.append((operand(rng, low, high), operand(rng, low, high), c))
    check(cases)


def test_specials():
    small = [0, 0x8000, 0x7F80, 0xFF80, 0x7FC0, 0x3F80, 0x0001]
    check([(a, b, c << 16) for a in small for b in small for c in small])


def test_registers():
    dut = FloatCell()

    async def bench(ctx):
        ctx.set(dut.load, 0x4040)  # 3
        ctx.set(dut.mine, 1)
        await ctx.tick()
        ctx.set(dut.load, 0x40A0)
        ctx.set(dut.mine, 0)
        ctx.set(dut.swap, 1)
        assert ctx.get(dut.load_out) == 0x4040
        await ctx.tick()
        ctx.set(dut.swap, 0)
        ctx.set(dut.vector, 0x4000)  # 2
        ctx.set(dut.psum_in, 0x3F80_0000)  # 1
        await ctx.tick()
        assert ctx.get(dut.psum) == 0x40E0_0000  # 7
        assert ctx.get(dut.vector_out) == 0x4000

    run(dut, bench)
