"""Requests for pieces of memory."""

import pytest

from diastole_hw.vector.segments import SegmentRequests
from support.bench import design, get, put, run
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
    dut = design(SegmentRequests, vector_shape(8, 128))
    blocks = [some_block(rng, 8) for _ in range(60)]

    def willing():
        return not stalls or rng.random() < 0.5

    async def drive(ctx):
        await put(ctx, dut.blocks, blocks, willing)

    async def check(ctx):
        for block in blocks:
            for row in range(block["rows"]):
                got = await get(ctx, dut.requests, willing)
                address = (block["base"] + (block["count"] + row) * block["pitch"]) % 2**40
                assert (got.addr, got.beats) == (address // 16 * 16, block["beats"]), str(block)
        await ctx.tick()
        assert not ctx.get(dut.busy)

    run(dut, drive, check)


@pytest.mark.parametrize("count, cycles", [(0, 2), (255, 3), (256, 4), (2**24 - 1, 5)])
def test_the_first_request_and_those_of_the_next_block(count, cycles, rng):
    dut = design(SegmentRequests, vector_shape(8, 128))
    block = some_block(rng, 8) | {"count": count, "rows": 8}

    async def drive(ctx):
        await put(ctx, dut.blocks, [block] * 3)

    valid, busy = [], []

    async def check(ctx):
        ctx.set(dut.requests.ready, 1)
        for _ in range(40):
            *_, asks, here = await ctx.tick().sample(dut.requests.valid, dut.busy)
            valid.append(asks)
            busy.append(here)

    run(dut, drive, check)
    assert valid[:cycles] == [0] * cycles  # the block is taken in the first cycle
    assert valid[cycles : cycles + 24] == [1] * 24
    assert not any(valid[cycles + 24 :])
    assert busy == [0] + [1] * (cycles + 23) + [0] * (16 - cycles)
