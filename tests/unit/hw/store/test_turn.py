"""Pieces of a result that come as columns and leave as rows, against lists."""

import pytest

from diastole_hw.store.turn import TurnTile, column_vectors
from support.bench import design, get, put, run
from support.plans import make_numerics, make_plan

SHAPES = {  # side of a block, rows, columns, D; then vectors of a column and of a word
    "one lane": (1, 2, 3, 32, 1, 1),
    "as wide as a beat": (4, 1, 2, 128, 1, 1),
    "wider than a beat": (8, 2, 2, 64, 1, 1),
    "words of two": (4, 2, 2, 256, 2, 2),
    "columns of one, words of two": (4, 2, 3, 256, 1, 2),
    "columns of two, words of four": (2, 2, 6, 256, 2, 4),
    "a whole tile to a word": (4, 2, 4, 512, 4, 4),
}


def make(name):
    block, rows, cols, data_width, *_ = SHAPES[name]
    return make_plan(make_numerics(block=block), rows, cols, data_width=data_width)


def random_piece(rng, plan, rows, cols=None):
    """Its span, and its floats by row and column."""
    cols = cols or rng.choice((plan.fused_tile_words, rng.randrange(1, plan.fused_tile_words + 1)))
    span = {
        "addr": rng.getrandbits(40),
        "cols": cols,
        "vectors": -(-cols // plan.block),
        "repeat": rows,
    }
    return span, [[rng.getrandbits(32) for _ in range(cols)] for _ in range(rows)]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(
    "p_in, p_out", [(1, 1), (0.5, 0.5), (1, 0.2), (0.2, 1)], ids=["free", "both", "out", "in"]
)
def test_rows_of_every_piece(name, p_in, p_out, rng):
    plan = make(name)
    dut = design(TurnTile, plan)
    vectors, word_vectors = SHAPES[name][-2:]
    assert column_vectors(plan) == vectors
    most, lanes = vectors * plan.block, word_vectors * plan.block
    assert (dut.rows, dut.lanes) == (most, lanes)
    sizes = [most, *(rng.randrange(1, most + 1) for _ in range(11))]
    pieces = [random_piece(rng, plan, rows) for rows in sizes]

    def willing(p):
        return lambda: rng.random() < p

    async def ask(ctx):
        await put(ctx, dut.spans_in, [span for span, _ in pieces], willing(p_in))

    async def send(ctx):
        columns = [
            [rows[r][c] if r < len(rows) else rng.getrandbits(32) for r in range(most)]
            for span, rows in pieces
            for c in range(span["cols"])
        ]
        await put(ctx, dut.columns, columns, willing(p_in))

    async def spans(ctx):
        for span, _ in pieces:
            got = await get(ctx, dut.spans, willing(p_out))
            assert {name: got[name] for name in span} == span

    async def words(ctx):
        for number, (span, rows) in enumerate(pieces):
            for r, row in enumerate(rows):
                for first in range(0, span["cols"], lanes):
                    got = list(await get(ctx, dut.words, willing(p_out)))
                    want = row[first : first + lanes]
                    assert got[: len(want)] == want, f"piece {number}: row {r}, from {first} on"
        for _ in range(20):
            _, _, *valid = await ctx.tick().sample(dut.words.valid, dut.spans.valid)
            assert valid == [0, 0], "something after the last word"

    run(dut, ask, send, spans, words)


@pytest.mark.parametrize("name", ["as wide as a beat", "words of two"])
def test_a_column_in_and_a_word_out_per_cycle(name, rng):
    """Pieces of whole tiles: while one leaves, the next one enters; no more than two cycles are
    lost for each."""
    plan = make(name)
    dut = design(TurnTile, plan)
    pieces = [random_piece(rng, plan, dut.rows, plan.fused_tile_words) for _ in range(3)]
    taken, told, left = [], [], []

    async def ask(ctx):
        await put(ctx, dut.spans_in, [span for span, _ in pieces])

    async def check(ctx):
        for stream in (dut.spans, dut.words):
            ctx.set(stream.ready, 1)
        ctx.set(dut.columns.valid, 1)
        watched = dut.columns.ready, dut.spans.valid, dut.words.valid
        for cycle in range(4 * plan.fused_tile_words + 20):
            _, _, column, span, word = await ctx.tick().sample(*watched)
            taken.extend([cycle] * column)
            told.extend([cycle] * span)
            left.extend([cycle] * word)
            if len(left) == words:
                break

    tile = plan.fused_tile_words
    words = 3 * dut.rows * tile // dut.lanes
    assert words == 3 * tile, "as many words as columns"
    run(dut, ask, check)
    assert taken[: 2 * tile] == list(range(2 * tile))
    assert [told[0], left[0]] == [tile, tile + 2]
    assert taken[2 * tile] == tile + 2 + tile - 1, "the last word of the first piece shows"
    starts = [left[number * tile] for number in range(3)]
    assert left == [start + k for start in starts for k in range(tile)]
    assert max(starts[1] - starts[0], starts[2] - starts[1]) <= tile + 2
