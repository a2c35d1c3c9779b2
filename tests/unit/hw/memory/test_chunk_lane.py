# amaranth: UnusedElaboratable=no
"""A lane against plain integers: sums of chunks one after the other, of several words at once."""

import pytest

from diastole_hw.memory.chunk_lane import ChunkLane, lane_latency
from support.bench import design
from support.floats import encoded, nearest
from support.pipelines import check_pipeline


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
        chunk = nearest(before + psum, mantissa)
        want = nearest(total + chunk, mantissa)
        given = {"psum": psum, "total": encoded(total, mantissa)}
        lost = (chunk, want) != (before + psum, total + chunk)
        results = {"result": encoded(want, mantissa), "inexact": lost}
        if not alone:
            given["before"], results["added"] = before, before + psum
        cases.append((given, results))
    check_pipeline(dut, cases, dut.latency, delays={"total": dut.latency - 2, "added": 1})
