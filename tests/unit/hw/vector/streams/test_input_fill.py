"""How long beats of each kind stay; what becomes of them is tested with the inputs as a whole."""

import pytest

from diastole_hw.vector.streams.input_fill import InputFill
from diastole_sim.spec.stream_table import Kind
from support.bench import design, run, simulation
from support.vector_streams import Stream, vector_shape

FULL, SMALL = {"rows": 8, "cols": 8}, {"rows": 3, "cols": 5}


def cycles(kinds, block, beats, *, product=()):
    """Of a block: in which beats are taken, in which rows are written, of a product too, and until
    it is done; there always is a beat."""
    dut = design(InputFill, vector_shape(8, 128))
    taken, written, of_product = [], [], []

    async def bench(ctx):
        for number, kind in enumerate(kinds):
            ctx.set(dut.streams[number], Stream(kind=kind).fields())
        for number in range(len(kinds), 4):
            ctx.set(dut.streams[number], {"used": 0})
        ctx.set(dut.block, block)
        ctx.set(dut.product_block, FULL)
        ctx.set(dut.available, 1)
        ctx.set(dut.beats.valid, 1)
        ctx.set(dut.product_available, bool(product))
        ctx.set(dut.product.valid, bool(product))
        for cycle in range(100):
            *_, ready, en, write, passes, done = await ctx.tick().sample(
                dut.beats.ready, dut.write_en, dut.write, dut.of_product, dut.done
            )
            if ready:
                taken.append(cycle)
            if en:
                written.append((write.input, write.row, write.banks))
            if passes:
                of_product.append(cycle)
            if done:
                break
        ctx.set(dut.available, 0)
        assert len(taken) == beats
        return cycle + 1

    found = []

    async def count(ctx):
        found.append(await bench(ctx))

    run(dut, count)
    return found[0], taken, written, of_product


@pytest.mark.parametrize(
    "kind, block, beats, length",
    [
        (Kind.F32, FULL, 16, 16),
        (Kind.F32, SMALL, 6, 7),
        (Kind.BF16, FULL, 8, 8),
        (Kind.U8, SMALL, 3, 4),
        (Kind.COLUMN, FULL, 2, 2),
        (Kind.COLUMN, SMALL, 2, 3),
        (Kind.ROW, FULL, 2, 8),
        (Kind.LABELS, SMALL, 1, 4),
        (Kind.MASK, FULL, 1, 8),
        (Kind.MASK, SMALL, 1, 4),
        (Kind.GATHERED_F32, FULL | {"listed": 1}, 2 + 16, 8 + 16),
        (Kind.GATHERED_U8, FULL, 8, 8),
        (Kind.GATHERED_U8, FULL | {"listed": 1, "ahead": 3}, 2 + 8 + 1, 8 + 8 + 3),
        (Kind.GATHERED_U8, SMALL | {"ahead": 8}, 3 + 2, 4 + 8),
    ],
    ids=lambda value: value.name.lower() if isinstance(value, Kind) else None,
)
def test_cycles_of_a_block(kind, block, beats, length):
    assert cycles([kind], block, beats)[0] == length


def test_nothing_to_write_takes_a_cycle():
    assert cycles([Kind.PANEL], FULL, 0)[0] == 1


def test_rows_and_banks():
    _, _, written, _ = cycles([Kind.PANEL, Kind.F32, Kind.COLUMN], {"rows": 2, "cols": 4}, 3)
    both = 0b11
    assert written == [
        *((0b010, 7, both), (0b010, 0, both), (0b010, 1, both)),
        *((0b100, 7, both), (0b100, 0, both)),
    ]
    _, _, written, _ = cycles([Kind.F32], {"rows": 1, "cols": 5}, 2)
    assert written == [(1, 7, both), (1, 0, 0b01), (1, 0, 0b10)]


def test_a_product_takes_the_cycles_that_are_left():
    block = FULL | {"listed": 1}
    length, _, written, of_product = cycles([Kind.GATHERED_U8, Kind.PRODUCT], block, 10, product=1)
    assert length == 16
    assert of_product == list(range(8)), "while the list is read"
    assert written[:8] == [(0b10, row, 0b11) for row in range(8)]


async def test_a_list_ahead_does_not_hold_its_block_up():
    dut = design(InputFill, vector_shape(8, 128))
    seen = []
    ctx = await simulation(dut)
    for number, kind in enumerate((Kind.GATHERED_U8, Kind.F32)):
        ctx.set(dut.streams[number], Stream(kind=kind).fields())
    ctx.set(dut.block, FULL | {"ahead": 5})
    ctx.set(dut.available, 1)
    ctx.set(dut.beats.valid, 1)
    for _ in range(8 + 5 + 16):
        ports = (dut.finished, dut.index_en, dut.listed, dut.done)
        seen.append((await ctx.tick().sample(*ports))[2:])
    finished, numbers, listed, done = zip(*seen, strict=True)
    assert finished == (0,) * 8 + (1,) * (5 + 16), "the first input's rows, the second's"
    assert [n for n, en in enumerate(numbers) if en] == list(range(8, 13))
    assert [n for n, en in enumerate(listed) if en] == [12]
    assert [n for n, en in enumerate(done) if en] == [28]
