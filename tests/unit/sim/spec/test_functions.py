"""Tables and constants of special functions: the files, their widths, and what they are of."""

import gmpy2
import pytest

from diastole_sim.spec import functions
from diastole_sim.spec.functions import (
    EXP,
    FUNCTION_TABLES,
    LGG,
    LN2_HIGH,
    LOG2E,
    RCP,
    RSQ,
    FunctionTable,
)


def test_shapes():
    shapes = {
        name: (len(table.rows), table.argument_bits) for name, table in FUNCTION_TABLES.items()
    }
    assert shapes == {"exp": (64, 21), "rcp": (128, 16), "rsq": (256, 16), "lgg": (96, 17)}
    assert tuple(FUNCTION_TABLES.values()) == (EXP, RCP, RSQ, LGG)


def test_widths():
    bits = {name: table.bits for name, table in FUNCTION_TABLES.items()}
    assert bits == {
        "exp": (28, 26, 18),
        "rcp": (28, 26, 18),
        "rsq": (29, 25, 17),
        "lgg": (29, 25, 17),
    }
    assert [table.signed[1] for table in FUNCTION_TABLES.values()] == [False, True, True, True]
    assert not any(table.signed[0] or table.signed[2] for table in FUNCTION_TABLES.values())
    assert sum(table.size_bits for table in FUNCTION_TABLES.values()) == 38816


@pytest.mark.parametrize(
    "column, bits, signed",
    [
        ((0, 0), 0, False),
        ((0, 7), 3, False),
        ((8, 3), 4, False),
        ((-8, 7), 4, True),
        ((-9, 7), 5, True),
        ((-1, 8), 5, True),
        ((-1, 0), 1, True),
    ],
)
def test_widths_by_hand(column, bits, signed):
    for place in range(3):
        rows = tuple(tuple(each if k == place else 1 for k in range(3)) for each in column)
        table = FunctionTable(rows, 16)
        assert (table.bits[place], table.signed[place]) == (bits, signed)
        assert table.columns[place] == column
        assert table.size_bits == 2 * (bits + 2)


def test_constants():
    with gmpy2.context(precision=100):
        log2 = gmpy2.log(gmpy2.mpfr(2))
        assert int(gmpy2.rint(2**33 / log2)) == LOG2E
    assert (LN2_HIGH * 2**8).is_integer()


def test_reads_what_a_file_says(monkeypatch, tmp_path):
    monkeypatch.setattr(functions, "TABLES", tmp_path)
    (tmp_path / "some.txt").write_text("1 -2 3\n40 50 60\n")
    assert FunctionTable.read("some", 20) == FunctionTable(((1, -2, 3), (40, 50, 60)), 20)
