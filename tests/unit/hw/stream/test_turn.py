# amaranth: UnusedElaboratable=no
import pytest

from diastole_hw.stream.turn import Turn
from support.bench import design, get, put, run


@pytest.mark.parametrize("side", [1, 2, 4, 8])
@pytest.mark.parametrize("sends, takes", [(1.0, 1.0), (0.4, 1.0), (1.0, 0.4), (0.5, 0.5)])
def test_blocks_come_out_transposed(side, sends, takes, rng):
    dut = design(Turn, side=side, width=9)
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
    dut = design(Turn, side=side, width=4)
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


def test_a_block_leaves_alone_where_none_follows(rng):
    """The input waits while it does; what comes in the meantime leaves as the next block."""
    side = 4
    dut = design(Turn, side=side, width=4)
    came, went = [], []

    async def drive(ctx):
        await put(ctx, dut.i, [[k] * side for k in range(side)])
        await ctx.tick()  # the first column is taken with nothing behind it
        await put(ctx, dut.i, [[k] * side for k in range(side)])

    async def watch(ctx):
        ctx.set(dut.o.ready, 1)
        moves = dut.i.valid & dut.i.ready, dut.o.valid & dut.o.ready
        for cycle in range(5 * side):
            _, _, entered, left, level = await ctx.tick().sample(*moves, dut.level)
            came.extend([cycle] * entered)
            went.extend([cycle] * left)
            assert level == (0 < cycle < 2 * side or 2 * side < cycle < 4 * side)

    run(dut, drive, watch)
    assert came == [*range(side), *range(2 * side, 3 * side)]
    assert went == [*range(side, 2 * side), *range(3 * side, 4 * side)]


def test_a_column_leaves_as_a_row_comes():
    """Once a successor has begun to enter, neither moves without the other."""
    side = 4
    dut = design(Turn, side=side, width=4)

    async def bench(ctx):
        ctx.set(dut.i.valid, 1)
        await ctx.tick().repeat(side)
        ctx.set(dut.o.ready, 1)
        for step in range(3 * side):
            for comes, goes in [(0, 0), (0, 1), (1, 0), (1, 1)]:
                if step % side == 0 and not comes:
                    continue  # the block may leave alone then
                ctx.set(dut.i.valid, comes)
                ctx.set(dut.o.ready, goes)
                assert ctx.get(dut.o.valid) == comes, step
                assert ctx.get(dut.i.ready) == goes, step
            await ctx.tick()

    run(dut, bench)


@pytest.mark.parametrize(
    "sizes, text",
    [
        ({"side": 0}, r"side must be an integer in 1\.\.32, not 0"),
        ({"width": 65}, r"width must be an integer in 1\.\.64, not 65"),
    ],
)
def test_refused_parameters(sizes, text):
    with pytest.raises(ValueError, match=f"^{text}$"):
        Turn(**({"side": 4, "width": 4} | sizes))
