# amaranth: UnusedElaboratable=no
"""The divider: every divisor, against integer division."""

from itertools import product

import pytest

from diastole_hw.convert.divide import Divide, division_cycles
from support.bench import design, run
from support.texts import exactly


@pytest.mark.parametrize("bits", [2, 4, 9, 20, 28])
def test_divide(bits, rng):
    tails = [rng.getrandbits(23) & -1 << shift for shift in (0, 8, 14, 17, 18, 19, 20, 21, 22, 23)]
    significands = [1 << 23 | tail for tail in [*tails, *(rng.getrandbits(23) for _ in range(20))]]
    cases = list(product(significands, range(8, 16)))
    dut = design(Divide, bits=bits)
    latency = division_cycles(bits)

    async def main(ctx):
        for n in range(len(cases) + latency):
            if n < len(cases):
                ctx.set(dut.significand, cases[n][0])
                ctx.set(dut.divisor, cases[n][1])
            got = (await ctx.tick().sample(dut.quotient, dut.sticky, dut.below))[2:]
            if n >= latency:
                significand, divisor = cases[n - latency]
                below = significand < divisor << 20
                quotient, rest = divmod(significand << (bits - 1 + below), divisor << 20)
                assert got == (quotient, rest != 0, below), f"{significand:#x} / {divisor}"

    run(dut, main)


def test_errors():
    with pytest.raises(ValueError, match=exactly("bits must be an integer in 2..28, not 29")):
        Divide(bits=29)
