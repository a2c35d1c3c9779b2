# amaranth: UnusedElaboratable=no
"""Whether the next tensor is to be wider, against the golden rule."""

from diastole_hw.command.width_decision import WidthDecision
from diastole_sim.golden.improvement import Improvement
from support.bench import pulse, simulation

CASES = [
    (0, 0, 0),
    (1, 0, 2**18 - 1),
    (0, 5, 0),
    (1, 2**32 - 1, 0),
    (2**32 - 1, 2**32 - 1, 2**14 - 1),
    (2**32 - 1, 2**32 - 1, 2**14),
    (2**32 - 1, 1, 2**18 - 1),
    (1, 2, 2**13 - 1),
    (1, 2, 2**13),
    (39322, 2**14, 39321),
    (39322, 2**14, 39322),
]
"""num, sum of k2, threshold; r is num / (4 sum)."""


def random_cases(rng):
    for _ in range(40):
        den = rng.getrandbits(rng.randrange(1, 33))
        threshold = rng.getrandbits(rng.randrange(1, 19))
        near = (threshold * den >> 14) + rng.randrange(-1, 3)
        yield min(max(near, 0), 2**32 - 1), den, threshold


async def test_decisions(rng):
    dut = WidthDecision()
    cases = [*CASES, *random_cases(rng)]
    ctx = await simulation(dut)
    seen = set()
    for num, den, threshold in cases:
        ctx.set(dut.num, num)
        ctx.set(dut.den, den)
        ctx.set(dut.threshold, threshold)
        await pulse(ctx, dut.start)
        ctx.set(dut.threshold, rng.getrandbits(18))
        cycles = 1
        while not ctx.get(dut.done):
            await ctx.tick()
            cycles += 1
        assert cycles == 1 + 18
        expected = Improvement(num=num, den=4 * den).exceeds(threshold)
        assert ctx.get(dut.wide) == expected, (num, den, threshold)
        seen.add(expected)
        for _ in range(rng.randrange(1, 3)):
            await ctx.tick()
            assert not ctx.get(dut.done)
    assert seen == {False, True}


async def test_a_decision_may_begin_in_the_cycle_after_another():
    dut = WidthDecision()
    ctx = await simulation(dut)
    ctx.set(dut.num, 1)
    ctx.set(dut.den, 1)
    for threshold in (2**14 - 1, 2**14, 2**14 - 1):
        ctx.set(dut.threshold, threshold)
        await pulse(ctx, dut.start)
        await ctx.tick().repeat(18)
        assert ctx.get(dut.done)
        assert ctx.get(dut.wide) == (threshold < 2**14)
        await ctx.tick()
        assert not ctx.get(dut.done)
