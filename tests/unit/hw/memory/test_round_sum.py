# amaranth: UnusedElaboratable=no
"""Integers to floats of accumulators against MPFR."""

import pytest

from diastole_hw.memory.round_sum import RoundSum
from support.bench import design, run
from support.floats import decoded, encoded, near_ties, nearest
from support.texts import exactly


def check(sum_bits, mantissa, cases):
    """In a row, one per cycle."""
    dut = design(RoundSum, sum_bits=sum_bits, mantissa=mantissa)

    async def bench(ctx):
        before = None
        for value in [*cases, 0]:
            ctx.set(dut.sum, value)
            if before is not None:
                got = ctx.get(dut.result.as_value())
                want = nearest(before, mantissa)
                assert got == encoded(want, mantissa), f"{before}: {decoded(got, mantissa)}"
                assert ctx.get(dut.inexact) == (want != before), before
            before = value
            await ctx.tick()

    run(dut, bench)


@pytest.mark.parametrize("sum_bits", [9, 10, 11])
@pytest.mark.parametrize("mantissa", [2, 3, 8, 23])
@pytest.mark.sampled(3)
def test_every_sum(sum_bits, mantissa):
    """Of lengths that are a power of two, one more and one less; shorter than the mantissa."""
    half = 1 << (sum_bits - 1)
    check(sum_bits, mantissa, range(1 - half, half))


@pytest.mark.parametrize("sum_bits", [33, 38, 49, 63])
@pytest.mark.parametrize("mantissa", [2, 9, 23])
@pytest.mark.sampled(3)
def test_long_ones(sum_bits, mantissa, rng):
    cases = [0, 1, -1, 2 ** (sum_bits - 1) - 1, 1 - 2 ** (sum_bits - 1)]
    for _ in range(700):
        value = near_ties(rng, rng.randrange(sum_bits), mantissa)
        cases.append(value * rng.choice((-1, 1)))
    limit = 2 ** (sum_bits - 1)
    check(sum_bits, mantissa, [value for value in cases if abs(value) < limit])


@pytest.mark.parametrize(
    "key, value, message",
    [
        ("sum_bits", 2, "sum_bits must be an integer in 3..63, not 2"),
        ("sum_bits", 64, "sum_bits must be an integer in 3..63, not 64"),
        ("mantissa", 1, "mantissa must be an integer in 2..23, not 1"),
        ("mantissa", 24, "mantissa must be an integer in 2..23, not 24"),
    ],
)
def test_ranges(key, value, message):
    with pytest.raises(ValueError, match=exactly(message)):
        RoundSum(**{"sum_bits": 33, "mantissa": 9} | {key: value})
