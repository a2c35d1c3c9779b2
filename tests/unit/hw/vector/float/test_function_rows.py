# amaranth: UnusedElaboratable=no
"""The tables as gates: every row, and what is added to it."""

import pytest

from diastole_hw.vector.float.function_rows import FunctionRows, TableOf, surplus
from diastole_sim.spec.functions import FUNCTION_TABLES
from support.pipelines import check_pipeline

VALUE_BITS = 28


@pytest.mark.parametrize("name", FUNCTION_TABLES)
def test_every_row(name):
    """Bits of an index beyond those of the table do not count."""
    rows, cases = FUNCTION_TABLES[name].rows, []
    bits = (len(rows) - 1).bit_length()
    for index in range(256):
        number = index % 2**bits
        c0, c1, c2 = rows[number] if number < len(rows) else (0, 0, 0)
        one = 0 if name == "lgg" else 2**28
        half = 8 if name == "lgg" and number >= 32 else 16
        more = one + half if number < len(rows) else 0
        cases.append(({"index": index}, {"c0": c0 + more, "c1": c1, "c2": c2}))
    check_pipeline(FunctionRows(), cases, 0, hold={"table_number": TableOf[name.upper()].value})


def test_none():
    cases = [({"index": index}, {"c0": 0, "c1": 0, "c2": 0}) for index in (0, 31, 255)]
    check_pipeline(FunctionRows(), cases, 0, hold={"table_number": TableOf.NONE.value})


def test_the_logarithms_values_are_below_1_from_row_32_on():
    """But for so little that it makes no difference which half is added."""
    rows = FUNCTION_TABLES["lgg"].rows
    assert all(c0 > 1 << VALUE_BITS for c0, _, _ in rows[:32])
    assert all(c0 <= (1 << VALUE_BITS) + 7 for c0, _, _ in rows[32:])
    assert [surplus(TableOf.LGG, row) for row in (0, 31, 32, 95)] == [16, 16, 8, 8]
