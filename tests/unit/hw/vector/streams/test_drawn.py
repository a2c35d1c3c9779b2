"""Random numbers of a chain's tensor, block by block, in any order of blocks and under stalls."""

import pytest

from diastole_hw.vector.streams.drawn import DrawnRows
from oracle.threefry import draw
from support.bench import design, run
from support.unit_bench import Unit
from support.vector_streams import vector_shape

KEYS = {"seed": 0x9ABC_DEF0, "tag": 0x8123_4567, "step": 0xFFFF_FFF1}


def rows_of(places, side, columns):
    """Rows of random numbers of every block."""
    return [
        [
            draw(
                index=((i * side + row) * columns + j * side + lane) % 2**34,
                bits=16,
                **KEYS,
            )
            for lane in range(side)
        ]
        for i, j in places
        for row in range(side)
    ]


def check(side, columns, places, rng, p_put=1.0, p_get=1.0):
    unit = Unit(design(DrawnRows, vector_shape(side, 32, draws=True)), rng)
    unit.hold(columns=columns, **KEYS)
    given = unit.give(unit.dut.blocks, [{"i": i, "j": j} for i, j in places], p_put)
    unit.take(unit.dut.o, rows_of(places, side, columns), p_get, of=given)
    unit.run()


@pytest.mark.parametrize("side", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("columns", [1, 12, 37])
@pytest.mark.parametrize("p_put, p_get", [(1.0, 1.0), (0.3, 1.0), (1.0, 0.4)])
@pytest.mark.sampled(12)
def test_every_element_has_the_draw_of_its_index(side, columns, p_put, p_get, rng):
    wide = -(-columns // side)
    places = [(rng.randrange(40), rng.randrange(wide)) for _ in range(12)]
    check(side, columns, places, rng, p_put, p_get)


def test_indices_wrap_after_2_to_the_34_elements(rng):
    columns, last = 2**24 - 1, (2**24 - 1) // 8
    places = [(last, last), (2**10 // 8, 0), (last - 1, 7)]
    check(8, columns, places, rng)


@pytest.mark.parametrize("side", [4, 8, 16, 32])
def test_a_row_comes_every_four_cycles(side, rng):
    """Of a tensor whose rows begin at whole hashes; the index of a block costs no time."""
    dut = design(DrawnRows, vector_shape(side, 32, draws=True))
    arrived = []

    async def blocks(ctx):
        for name, value in {"columns": 4 * side, **KEYS}.items():
            ctx.set(getattr(dut, name), value)
        await ctx.tick().repeat(2)
        ctx.set(dut.blocks.valid, 1)
        for number in range(16):
            ctx.set(dut.blocks.p.i, number // 4)
            ctx.set(dut.blocks.p.j, number % 4)
            await ctx.tick().until(dut.blocks.ready)
        ctx.set(dut.blocks.valid, 0)

    async def rows(ctx):
        ctx.set(dut.o.ready, 1)
        cycle = 0
        while len(arrived) < 16 * side:
            *_, valid = await ctx.tick().sample(dut.o.valid)
            cycle += 1
            if valid:
                arrived.append(cycle)

    run(dut, blocks, rows)
    assert arrived[-1] - arrived[0] == 4 * (16 * side - 1)
