import pytest

from diastole.stream.turn import Turn
from support.bench import get, put, run


@pytest.mark.parametrize("side", [1, 2, 4, 8])
@pytest.mark.parametrize("sends, takes", [(1.0, 1.0), (0.4, 1.0), (1.0, 0.4), (0.5, 0.5)])
def test_blocks_come_out_transposed(side, sends, takes, rng):
    dut = Turn(side=side, width=9)
    blocks = [[[rng.randrange(2**9) for _ in range(side)] for _ in range(side)] for _ in range(7)]

    async def drive(ctx):
        rows = (row for block in blocks for row in block)
        await put(ctx, dut.i, rows, willing=lambda: rng.random() < sends)

    async def check(ctx):
        for number, block in enumerate(blocks):
            for c in range(side):
                got = await get(ctx, dut.o, willing=lambda: rng.random() < takes)
                want = [row[c] for row in block]
                assert list(got) == want, f"block {number} column {c}"
        await ctx.tick().repeat(3)
        assert not ctx.get(dut.o.valid), "extra output"
        assert not ctx.get(dut.level), "not empty at the end"

    run(dut, drive, check)


def test_one_vector_per_cycle(rng):
    """Blocks that follow each other pass without a gap, B cycles after they came."""
    side, count = 4, 6
    dut = Turn(side=side, width=4)
    cycles = []

    async def drive(ctx):
        await put(ctx, dut.i, [[k % 16] * side for k in range(side * count)])

    async def check(ctx):
        ctx.set(dut.o.ready, 1)
        cycle = 0
        while len(cycles) < side * count:
            _, _, valid = await ctx.tick().sample(dut.o.valid)
            if valid:
                cycles.append(cycle)
            cycle += 1

    run(dut, drive, check)
    assert cycles == list(range(side, side + side * count))
