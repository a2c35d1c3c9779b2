# amaranth: UnusedElaboratable=no
"""Tokens against a count in Python."""

import pytest

from diastole_hw.stream.credit import Credit
from support.bench import design, simulation


@pytest.mark.parametrize("most", [1, 2, 4, 255])
async def test_counts_what_is_taken_and_not_given_back(most, rng):
    dut = design(Credit, most=most)
    ctx = await simulation(dut)
    count, rising = 0, 0.8
    for _ in range(6 * most + 100):
        state = (ctx.get(dut.count), ctx.get(dut.full), ctx.get(dut.empty))
        assert state == (count, count == most, count == 0)
        if count in (0, most):
            rising = 0.8 if count == 0 else 0.2  # all the way up, and down again
        take, give = rng.random() < rising, rng.random() < 1 - rising
        if take != give and count == (most if take else 0):
            take = give = not take  # both together are allowed
        ctx.set(dut.take, take)
        ctx.set(dut.give, give)
        await ctx.tick()
        if take != give:
            count += take - give


@pytest.mark.parametrize(
    "signal, message", [("take", "more taken than there is"), ("give", "given back, but not taken")]
)
async def test_what_is_not_allowed_is_noticed(signal, message):
    dut = Credit(most=2)
    ctx = await simulation(dut)
    ctx.set(getattr(dut, signal), 1)
    with pytest.raises(AssertionError, match=message):
        await ctx.tick().repeat(4)
