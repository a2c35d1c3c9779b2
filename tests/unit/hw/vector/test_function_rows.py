# amaranth: UnusedElaboratable=no
"""The tables as gates: every row, and what is added to it."""

import pytest

from diastole_hw.vector.function_rows import FunctionRows, TableOf, surplus
from diastole_sim.spec.functions import FUNCTION_TABLES
from support.bench import run

VALUE_BITS = 28


@pytest.mark.parametrize("name", FUNCTION_TABLES)
def test_every_row(name):
    dut = FunctionRows()
    table, rows = TableOf[name.upper()], FUNCTION_TABLES[name].rows
    bits = (len(rows) - 1).bit_length()

    async def bench(ctx):
        ctx.set(dut.which, table)
        for index in range(256):  # bits beyond those of the table do not count
            ctx.set(dut.index, index)
            found = tuple(ctx.get(each) for each in (dut.c0, dut.c1, dut.c2))
            number = index % 2**bits
            c0, c1, c2 = rows[number] if number < len(rows) else (0, 0, 0)
            one = 0 if name == "lgg" else 2**28
            half = 8 if name == "lgg" and number >= 32 else 16
            more = one + half if number < len(rows) else 0
            assert found == (c0 + more, c1, c2), index

    run(dut, bench)


def test_none():
    dut = FunctionRows()

    async def bench(ctx):
        ctx.set(dut.which, TableOf.NONE)
        for index in (0, 31, 255):
            ctx.set(dut.index, index)
            assert [ctx.get(each) for each in (dut.c0, dut.c1, dut.c2)] == [0, 0, 0]

    run(dut, bench)


def test_the_logarithms_values_are_below_1_from_row_32_on():
    """But for so little that it makes no difference which half is added."""
    rows = FUNCTION_TABLES["lgg"].rows
    assert all(c0 > 1 << VALUE_BITS for c0, _, _ in rows[:32])
    assert all(c0 <= (1 << VALUE_BITS) + 7 for c0, _, _ in rows[32:])
    assert [surplus(TableOf.LGG, row) for row in (0, 31, 32, 95)] == [16, 16, 8, 8]
