"""A row from a beat, a product, or nothing; every kind is tested with the inputs as a whole."""

import pytest

from diastole_hw.vector.streams.unpack import RowUnpack, banks
from diastole_sim.spec.stream_table import Kind
from support.bench import simulation
from support.vector_streams import vector_shape


@pytest.mark.parametrize("side, data_width, count", [(8, 128, 2), (8, 512, 1), (32, 32, 32)])
def test_banks(side, data_width, count):
    assert banks(vector_shape(side, data_width)) == count


async def test_where_a_row_comes_from(rng):
    dut = RowUnpack(vector_shape(4, 128))
    product = [rng.getrandbits(32) for _ in range(4)]
    words = [rng.getrandbits(32) for _ in range(4)]
    ctx = await simulation(dut)
    ctx.set(dut.product, product)
    ctx.set(dut.beat, sum(word << 32 * n for n, word in enumerate(words)))
    ctx.set(dut.block, {"rows": 4, "cols": 3})
    ctx.set(dut.product_cols, 2)
    for kind in (Kind.F32, Kind.ROW, Kind.BF16):
        ctx.set(dut.kind, kind)
        ctx.set(dut.of_product, 1)
        assert list(ctx.get(dut.numbers)) == [*product[:2], 0, 0]
        ctx.set(dut.of_product, 0)
        ctx.set(dut.zero, 1)
        assert list(ctx.get(dut.numbers)) == [0] * 4
        ctx.set(dut.zero, 0)
    ctx.set(dut.kind, Kind.F32)
    assert list(ctx.get(dut.numbers)) == [*words[:3], 0]
    for row in range(4):
        ctx.set(dut.kind, Kind.ROW)
        ctx.set(dut.row, row)
        assert list(ctx.get(dut.numbers)) == [words[row]] * 3 + [0]
        assert ctx.get(dut.word) == words[row]
