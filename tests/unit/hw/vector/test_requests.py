"""What inputs ask for, in which order; the rest is tested with the inputs as a whole."""

import pytest

from diastole_hw.vector.requests import InputRequests
from diastole_sim.spec.stream_table import Kind
from support.bench import design, get, put, run
from support.vector_streams import Stream, vector_shape, walked

LIST, TABLE, OTHER = 0x1000, 0x8000, 0x2_0000


def asked(streams, rows, cols, *, by_columns=False, room=lambda: 1):
    """The requests for a tensor, (address, beats), with row numbers 100, 101 and so on; and in
    which blocks a list of them was expected."""
    dut = design(InputRequests, vector_shape(4, 64))
    blocks = walked(rows, cols, 4, by_columns)
    requests, listed = [], []

    async def drive(ctx):
        for number, stream in enumerate(streams):
            ctx.set(dut.streams[number], stream.fields())
            ctx.set(dut.lists[number], LIST + 0x100 * number)
        ctx.set(dut.by_columns, by_columns)
        await put(ctx, dut.blocks, [block.fields() for block in blocks])
        await ctx.tick().repeat(40)

    async def look(ctx):
        while True:
            ctx.set(dut.room, room())
            *_, begins, expected = await ctx.tick().sample(dut.begins, dut.expected)
            if begins:
                listed.append(expected.listed)

    async def answer(ctx):
        while True:
            request = await get(ctx, dut.requests)
            requests.append((request.addr, request.beats))
            if LIST <= request.addr < TABLE:
                await ctx.tick().repeat(5)
                ctx.set(dut.listed, 1)
                await ctx.tick()
                ctx.set(dut.listed, 0)

    async def index(ctx):
        while True:
            *_, en, at = await ctx.tick().sample(dut.index_en, dut.index_at)
            if en:
                ctx.set(dut.index, 100 + at)

    run(dut, drive, background=(look, answer, index))
    assert len(listed) == len(blocks)
    return requests, listed


GATHERED = Stream(kind=Kind.GATHERED_F32, address=TABLE, pitch=64)
ROWS = [(TABLE + 64 * (100 + row), 2) for row in range(4)]


def test_rows_are_listed_once_a_line():
    requests, listed = asked([GATHERED], 4, 8)
    assert requests == [(LIST, 2), *ROWS, *((at + 16, 2) for at, _ in ROWS)]
    assert listed == [1, 0]


def test_rows_are_listed_in_every_block_by_columns():
    requests, listed = asked([GATHERED], 6, 4, by_columns=True)
    assert requests == [(LIST, 2), *ROWS, (LIST + 16, 1), *ROWS[:2]]
    assert listed == [1, 1]


def test_each_of_several_lists_is_read_before_its_rows():
    other = Stream(kind=Kind.GATHERED_U8, address=OTHER, pitch=8)
    requests, listed = asked([GATHERED, other], 1, 8)
    small = (OTHER + 800, 1)
    first = [(LIST, 1), ROWS[0], (LIST + 0x100, 1), small]
    assert requests == [*first, (LIST, 1), (ROWS[0][0] + 16, 2), (LIST + 0x100, 1), small]
    assert listed == [1, 1]


@pytest.mark.parametrize("kinds", [(), (Kind.PRODUCT, Kind.PANEL)], ids=["none", "elsewhere"])
def test_blocks_pass_that_ask_for_nothing(kinds):
    requests, listed = asked([Stream(kind=kind) for kind in kinds], 9, 9)
    assert not requests
    assert len(listed) == 9


def test_block_after_block_input_after_input(rng):
    streams = [
        Stream(kind=Kind.F32, address=0x100, pitch=32),
        Stream(kind=Kind.PRODUCT),
        Stream(kind=Kind.COLUMN, address=0x800),
        Stream(kind=Kind.ROW, address=0x900),
    ]
    requests, _ = asked(streams, 5, 6, room=lambda: rng.random() < 0.2)
    whole = [(0x100 + 32 * row, 2) for row in range(4)]
    right = [(0x110 + 32 * row, 1) for row in range(4)]
    assert requests == [
        *(*whole, (0x800, 2), (0x900, 2)),
        *(*right, (0x810, 1), (0x900, 2)),
        *((0x180, 2), (0x800, 2), (0x910, 1)),
        *((0x190, 1), (0x810, 1), (0x910, 1)),
    ]
