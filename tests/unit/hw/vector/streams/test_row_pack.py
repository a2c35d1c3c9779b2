"""A beat from a row: when there is one, and which bits of masks are kept until then."""

import pytest

from diastole_hw.vector.streams.row_pack import RowPack
from diastole_sim.spec.stream_table import Kind
from support.bench import design, run
from support.vector_streams import vector_shape


def packed(side, data_width, rows):
    """Of rows of masks, (block, row slot, numbers), the beats: (row, data, strobes)."""
    dut = design(RowPack, vector_shape(side, data_width))
    found = []

    async def bench(ctx):
        ctx.set(dut.kind, Kind.MASK)
        ctx.set(dut.accepted, 1)
        for number, (block, row, numbers) in enumerate(rows):
            ctx.set(dut.block, {"rows": side, "cols": side} | block)
            ctx.set(dut.row, row)
            ctx.set(dut.numbers, numbers)
            *_, emits, beat = await ctx.tick().sample(dut.emits, dut.beat)
            if emits:
                strobed = sum(255 << 8 * k for k in range(data_width // 8) if beat.strb >> k & 1)
                found.append((number, beat.data & strobed, beat.strb))
        ctx.set(dut.accepted, 0)

    run(dut, bench)
    return found


ONE, NO = 0x3F80_0000, 0x8000_0001  # a subnormal number is a zero


def test_blocks_of_a_bit_make_bytes():
    blocks = [
        ({"j": j, "stream": 2, "last": j == 10}, 0, [ONE if j % 3 else NO]) for j in range(11)
    ]
    assert packed(1, 32, blocks) == [(7, 0b1011_0110, 1), (10, 0b101 << 8, 2)]


def test_each_output_has_its_own_byte():
    rows = [
        ({"j": j, "stream": stream}, row, [ONE, ONE] if stream else [NO, ONE])
        for j in range(2)
        for stream in (1, 0, 3)
        for row in range(2)
    ]
    assert packed(2, 32, rows) == [(7, 255, 1), (9, 0b1010_1010, 1), (11, 255, 1)]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_rows_outside_the_tensor_are_zeros(count):
    rows = [({"j": 1, "rows": count}, row, [ONE, NO, NO, ONE]) for row in range(4)]
    assert packed(4, 64, rows) == [(3, int("1001" * count, 2) << 16, 0b1100)]


def test_a_beat_is_full_before_the_block():
    rows = [({"cols": 8, "rows": 3}, row, [ONE] * 16) for row in range(16)]
    found = packed(16, 32, rows)
    assert found[:2] == [(1, 0x00FF_00FF, 15), (3, 0xFF, 15)]
    assert found[2:] == [(row, 0, 15) for row in range(5, 16, 2)]
