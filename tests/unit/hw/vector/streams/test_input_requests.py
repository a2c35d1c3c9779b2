"""What inputs ask for, in which order; the rest is tested with the inputs as a whole."""

import pytest

from diastole_hw.vector.streams.input_requests import InputRequests
from diastole_sim.spec.stream_table import Kind
from support.bench import design, get, put, run
from support.vector_streams import Stream, vector_shape, walked

LIST, TABLE, OTHER = 0x1000, 0x8000, 0x2_0000


def requested(streams, rows, cols, *, by_columns=False, by_lines=None, room=lambda: 1):
    """The requests for a tensor, (address, beats), with row numbers 100, 101 and so on; and what
    was expected of each block: whether a list is read before its rows, and how much of one after
    them."""
    dut = design(InputRequests, vector_shape(4, 64))
    blocks = walked(rows, cols, 4, by_columns)
    requests, listed, lists = [], [], []  # lists: that are located

    async def drive(ctx):
        for number, stream in enumerate(streams):
            ctx.set(dut.streams[number], stream.fields())
            ctx.set(dut.lists[number], LIST + 0x100 * number)
        ctx.set(dut.by_columns, by_columns)
        ctx.set(dut.by_lines, not by_columns if by_lines is None else by_lines)
        ctx.set(dut.rows, rows)
        await put(ctx, dut.blocks, [block.fields() for block in blocks])
        await ctx.tick().repeat(40)
        assert not lists, "a list that nobody wanted"

    async def look(ctx):
        while True:
            ctx.set(dut.space, room())
            *_, begins, expected = await ctx.tick().sample(dut.begins, dut.expected)
            if begins:
                listed.append((expected.listed, expected.ahead))

    async def answer(ctx):
        while True:
            request = await get(ctx, dut.requests)
            requests.append((request.addr, request.beats))
            if LIST <= request.addr < TABLE:
                await ctx.tick().repeat(5)
                lists.append((ctx.get(dut.table_address), ctx.get(dut.table_pitch)))
                ctx.set(dut.row_available, 1)

    async def locate(ctx):
        ports = (dut.row_en, dut.row_at, dut.discard)
        async for _, _, en, at, gone in ctx.tick().sample(*ports):
            if en:
                address, pitch = lists[0]
                ctx.set(dut.row, address + pitch * (100 + at))
            if gone:
                lists.pop(0)
                ctx.set(dut.row_available, bool(lists))

    run(dut, drive, background=(look, answer, locate))
    assert len(listed) == len(blocks)
    return requests, listed


GATHERED = Stream(kind=Kind.GATHERED_F32, address=TABLE, pitch=64)
ROWS = [(TABLE + 64 * (100 + row), 2) for row in range(4)]


def moved(rows, by):
    return [(address + by, beats) for address, beats in rows]


def test_lists_are_read_a_line_ahead():
    requests, listed = requested([GATHERED], 10, 8)
    first = [(LIST, 2), *ROWS, (LIST + 16, 2), *moved(ROWS, 16)]
    assert requests == [
        *first,
        *(*ROWS, (LIST + 32, 1), *moved(ROWS, 16)),
        *(*ROWS[:2], *moved(ROWS[:2], 16)),
    ]
    assert listed == [(1, 4), (0, 0), (0, 2), (0, 0), (0, 0), (0, 0)]


def test_lines_of_one_block():
    requests, listed = requested([GATHERED], 5, 3)
    assert requests == [(LIST, 2), *ROWS, (LIST + 16, 1), ROWS[0]]
    assert listed == [(1, 1), (0, 0)]


def test_rows_are_listed_once_a_line_of_a_product():
    requests, listed = requested([GATHERED], 8, 8, by_lines=False)
    lines = [[(LIST + at, 2), *ROWS, *moved(ROWS, 16)] for at in (0, 16)]
    assert requests == [*lines[0], *lines[1]]
    assert listed == [(1, 0), (0, 0), (1, 0), (0, 0)]


def test_rows_are_listed_in_every_block_by_columns():
    requests, listed = requested([GATHERED], 6, 4, by_columns=True)
    assert requests == [(LIST, 2), *ROWS, (LIST + 16, 1), *ROWS[:2]]
    assert listed == [(1, 0), (1, 0)]


def test_each_of_several_lists_is_read_before_its_rows():
    other = Stream(kind=Kind.GATHERED_U8, address=OTHER, pitch=8)
    requests, listed = requested([GATHERED, other], 1, 8)
    small = (OTHER + 800, 1)
    first = [(LIST, 1), ROWS[0], (LIST + 0x100, 1), small]
    assert requests == [*first, (LIST, 1), (ROWS[0][0] + 16, 2), (LIST + 0x100, 1), small]
    assert listed == [(1, 0), (1, 0)]


def test_what_comes_after_gathered_rows_has_their_block():
    """Where the next line has fewer rows, and its list is there long before."""
    requests, _ = requested([GATHERED, Stream(kind=Kind.COLUMN, address=0x800)], 5, 8)
    last = [ROWS[0], (0x800, 2), *moved(ROWS[:1], 16), (0x810, 2)]
    first = [(LIST, 2), *ROWS, (LIST + 16, 1), (0x800, 2)]
    assert requests == [*first, *moved(ROWS, 16), (0x810, 2), *last]


@pytest.mark.parametrize("kinds", [(), (Kind.PRODUCT, Kind.PANEL)], ids=["none", "elsewhere"])
def test_blocks_pass_that_ask_for_nothing(kinds):
    requests, listed = requested([Stream(kind=kind) for kind in kinds], 9, 9)
    assert not requests
    assert len(listed) == 9


def test_block_after_block_input_after_input(rng):
    streams = [
        Stream(kind=Kind.F32, address=0x100, pitch=32),
        Stream(kind=Kind.PRODUCT),
        Stream(kind=Kind.COLUMN, address=0x800),
        Stream(kind=Kind.ROW, address=0x900),
    ]
    requests, _ = requested(streams, 5, 6, room=lambda: rng.random() < 0.2)
    whole = [(0x100 + 32 * row, 2) for row in range(4)]
    right = [(0x110 + 32 * row, 1) for row in range(4)]
    assert requests == [
        *(*whole, (0x800, 2), (0x900, 2)),
        *(*right, (0x810, 1)),
        *((0x180, 2), (0x800, 2), (0x910, 1)),
        *((0x190, 1), (0x810, 1)),
    ]
