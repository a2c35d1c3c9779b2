# amaranth: UnusedElaboratable=no
"""A lane against plain integers: sums of chunks one after the other, of several words at once."""

import pytest

from diastole_hw.memory.chunk_lane import ChunkLane, lane_latency
from support.bench import design, run
from support.floats import encoded, nearest


def test_latencies():
    assert (lane_latency(alone=True), lane_latency(alone=False)) == (3, 4)


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("mantissa", [2, 9, 23])
def test_a_result_every_cycle(alone, mantissa, rng):
    """What comes before and behind it is of other words."""
    dut = design(ChunkLane, psum_bits=24, sum_bits=26, mantissa=mantissa, alone=alone)
    cases = []
    for _ in range(400):
        psum = rng.randrange(1 - 2**23, 2**23) >> rng.randrange(23)
        before = 0 if alone else rng.randrange(1 - 2**24, 2**24) >> rng.randrange(24)
        total = nearest(rng.randrange(-(2**40), 2**40) >> rng.randrange(40), mantissa)
        cases.append((psum, before, total))
    added, results, given = {}, {}, {}
    for cycle, (psum, before, total) in enumerate(cases):
        chunk = nearest(before + psum, mantissa)
        want = nearest(total + chunk, mantissa)
        lost = (chunk, want) != (before + psum, total + chunk)
        added[cycle + 1] = before + psum
        given[cycle + dut.latency - 2] = total
        results[cycle + dut.latency] = encoded(want, mantissa), lost

    async def bench(ctx):
        for cycle in range(len(cases) + dut.latency + 1):
            psum, before, _ = cases[cycle] if cycle < len(cases) else (0, 0, 0)
            ctx.set(dut.psum, psum)
            ctx.set(dut.total.as_value(), encoded(given.get(cycle, 0), mantissa))
            if not alone:
                ctx.set(dut.before, before)
                assert ctx.get(dut.added) == added.get(cycle, 0)
            if cycle in results:
                got = ctx.get(dut.result.as_value()), bool(ctx.get(dut.inexact))
                assert got == results[cycle], cases[cycle - dut.latency]
            await ctx.tick()

    run(dut, bench)
