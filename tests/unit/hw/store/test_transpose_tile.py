"""Pieces of a result that come as columns and leave as rows, against lists."""

from itertools import pairwise, product

import pytest

from diastole_hw.store.transpose_tile import TransposeTile, column_vectors, piece_floats
from support.bench import design
from support.plans import make_numerics, make_plan
from support.sweep import alternating
from support.unit_bench import Unit

SHAPES = {  # side of a block, rows, columns, D; then vectors of a column and of a word of sums
    "one lane": (1, 2, 3, 32, 1, 1),
    "as wide as a beat": (4, 1, 2, 128, 1, 1),
    "of two beats": (8, 2, 2, 128, 1, 1),
    "wider than a beat": (8, 2, 2, 64, 1, 1),
    "a float to a beat": (4, 1, 1, 32, 1, 1),
    "words of two": (4, 2, 2, 256, 2, 2),
    "columns of one, words of two": (4, 2, 3, 256, 1, 2),
    "columns of two, words of four": (2, 2, 6, 256, 2, 4),
    "a whole tile to a word": (4, 2, 4, 512, 4, 4),
}


def make(name, registers=0):
    block, rows, cols, data_width, *_ = SHAPES[name]
    sizes = {"data_width": data_width, "output_register": bool(registers)}
    return make_plan(make_numerics(block=block), rows, cols, **sizes)


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


@pytest.mark.parametrize(
    "name, registers, p_in, p_out",
    alternating(
        product(SHAPES, (0, 1)),
        {"free": (1, 1), "both": (0.5, 0.5), "out": (1, 0.2), "in": (0.2, 1)},
    ),
)
@pytest.mark.sampled(2)
def test_rows_of_every_piece(name, registers, p_in, p_out, rng):
    plan = make(name, registers)
    dut = design(TransposeTile, plan)
    vectors, word_vectors = SHAPES[name][-2:]
    assert column_vectors(plan) == vectors
    most, lanes = vectors * plan.block, word_vectors * plan.block
    assert (dut.rows, dut.lanes) == (most, lanes)
    shown = piece_floats(plan)
    assert shown == min(lanes, plan.data_width // 32)
    sizes = [most, *(rng.randrange(1, most + 1) for _ in range(11))]
    pieces = [random_piece(rng, plan, rows) for rows in sizes]

    unit = Unit(dut, rng)
    asked = unit.give(dut.spans_in, [span for span, _ in pieces], p_in)
    told = unit.take(dut.spans, [span for span, _ in pieces], p_out)
    parts = (
        row[first : first + shown]
        for span, rows in pieces
        for row in rows
        for first in range(0, span["cols"], shown)
    )
    unit.take(dut.words, [part + [None] * (shown - len(part)) for part in parts], p_out)
    busy = unit.record(dut.busy)

    async def send(ctx):
        """The columns of a piece from the cycle on after its span was taken."""
        for number, (span, rows) in enumerate(pieces):
            while len(asked.items) <= number:
                await ctx.tick()
            for c in range(span["cols"]):
                while rng.random() >= p_in:
                    await ctx.tick()
                column = [
                    rows[r][c] if r < len(rows) else rng.getrandbits(32) for r in range(lanes)
                ]
                unit.set(ctx, columns={"valid": 1, "floats": column})
                await ctx.tick()
                noise = [rng.getrandbits(32) for _ in range(lanes)]
                unit.set(ctx, columns={"valid": 0, "floats": noise})

    unit.run(send, silence=20)
    assert not any(busy.values[-20:])
    for taken, left in zip(asked.cycles, told.cycles, strict=True):
        assert {*range(taken + 1, left + 1)} <= {*busy.cycles}, "nobody knows of the piece"


@pytest.mark.parametrize("registers", [0, 1])
@pytest.mark.parametrize("name", ["as wide as a beat", "words of two"])
def test_a_column_in_and_a_word_out_per_cycle(name, registers, rng):
    """Pieces of whole tiles: three have a place, and another one is taken when the first has been
    read; what leaves loses no more than a cycle for each."""
    plan = make(name, registers)
    dut = design(TransposeTile, plan)
    tile = plan.fused_tile_words
    unit = Unit(dut)
    asked = unit.give(dut.spans_in, [random_piece(rng, plan, dut.rows, tile)[0] for _ in range(5)])
    spans, words = unit.collect(dut.spans), unit.collect(dut.words)
    busy = unit.record(dut.busy)

    async def send(ctx):
        """A column in every cycle in which one is due."""
        for number in range(5 * tile):
            while len(asked.items) * tile <= number:
                await ctx.tick()
            await unit.pulse(ctx, "columns", {"valid": 1})

    assert dut.rows * tile // dut.lanes == tile, "as many words as columns"
    unit.run(send)
    assert not busy.values[-1]
    taken, told, left = asked.cycles, spans.cycles, words.cycles
    assert taken[:3] == [0, 1, 2]
    assert told == [(number + 1) * tile + 1 for number in range(5)]
    assert left[0] == told[0] + 2 + 2 * registers
    assert taken[3:] == [told[0] + 1 + tile, told[1] + 1 + tile], "when it is free"
    assert len(left) == 5 * tile
    starts = left[::tile]
    assert all(b - a <= tile + 1 for a, b in pairwise(starts))
