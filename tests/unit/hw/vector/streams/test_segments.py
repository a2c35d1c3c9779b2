"""Requests for pieces of memory."""

import pytest

from diastole_hw.vector.streams.segments import SegmentRequests
from support.bench import design
from support.unit_bench import Unit
from support.vector_streams import vector_shape


def some_block(rng, side):
    count = rng.choice((0, 1, 15, 16, 2**24 - 1, rng.randrange(2**24), rng.randrange(2**12)))
    return {
        "base": rng.getrandbits(40),
        "pitch": rng.choice((4, 2**32 - 16, rng.getrandbits(32))),
        "count": count,
        "rows": rng.randrange(1, side + 1),
        "beats": rng.randrange(1, 3),
    }


@pytest.mark.parametrize("stalls", [False, True], ids=["free", "stalled"])
def test_each_row_at_its_address(stalls, rng):
    unit = Unit(design(SegmentRequests, vector_shape(8, 128)), rng, pace=0.5 if stalls else 1)
    blocks = [some_block(rng, 8) for _ in range(60)]
    unit.give(unit.dut.blocks, blocks)
    requests = []
    for block in blocks:
        for row in range(block["count"], block["count"] + block["rows"]):
            address = (block["base"] + row * block["pitch"]) % 2**40
            requests.append({"addr": address // 16 * 16, "beats": block["beats"]})
    unit.take(unit.dut.requests, requests)
    busy = unit.record(unit.dut.busy)
    unit.run()
    assert not busy.values[-1]


@pytest.mark.parametrize("count, cycles", [(0, 2), (255, 3), (256, 4), (2**24 - 1, 5)])
def test_the_first_request_and_those_of_the_next_block(count, cycles, rng):
    """A block is taken in the first cycle."""
    unit = Unit(design(SegmentRequests, vector_shape(8, 128)))
    unit.give(unit.dut.blocks, [some_block(rng, 8) | {"count": count, "rows": 8}] * 3)
    requests, busy = unit.collect(unit.dut.requests), unit.record(unit.dut.busy)
    unit.run(cycles=40)
    assert requests.cycles == [*range(cycles, cycles + 24)]
    assert busy.cycles == [*range(1, cycles + 24)]
