# amaranth: UnusedElaboratable=no
"""Orders of rows, against the rows that each order is to keep apart, by loops."""

import pytest

from diastole_hw.vector.core.entry import entry_layout
from diastole_hw.vector.core.row_order import RowOrder, row_at, row_order_of
from support.pipelines import Function, check_pipeline
from support.vector_core import shape_of

WRITTEN = 7
"""Cycles from the read of a row's operands to the write of the row."""
BLOCKS = [1, 2, 4, 8, 16, 32]


def orders(shape):
    """The order of an entry, and the row at a position in the order that an entry says."""
    inputs = {"entry": entry_layout(shape), "position": range(shape.block + 1)}
    outputs = {"order": 2, "row": range(max(2, shape.block))}

    def both(m, entry, position):
        return row_order_of(m, shape, entry), row_at(shape, entry, position)

    return Function(inputs, outputs, both)


def rows_of(dut, block, entry):
    """The rows in the order of an entry."""
    cases = [({"entry": entry, "position": n}, {"row": None}) for n in range(block)]
    return [found["row"] for found in check_pipeline(dut, cases, 0)]


@pytest.mark.parametrize("block", BLOCKS)
def test_orders_are_permutations_that_never_overtake(block):
    """In each order the read of a row comes before the write of the row that replaces it."""
    shape = shape_of(block)
    dut = orders(shape)
    ascending = rows_of(dut, block, {"order": 0} if block >= 8 else {})
    assert ascending == list(range(block))
    if block >= 8:
        last_first = rows_of(dut, block, {"order": RowOrder.DESCENDING.value})
        assert last_first == ascending[::-1]
    for turn in [1 << bit for bit in range(3, shape.row_bits)]:
        paired = rows_of(dut, block, {"order": RowOrder.PAIRED.value, "turn_rows": turn})
        assert sorted(paired) == ascending
        at = {row: cycle for cycle, row in enumerate(paired)}
        for row in ascending:  # row r is made of row r XOR turn, and both of them are written
            assert at[row] <= at[row ^ turn] + WRITTEN - 1


@pytest.mark.parametrize("block", BLOCKS)
def test_which_order_an_instruction_needs(block, rng):
    shape = shape_of(block)

    def cases():
        turns = [0, *(1 << bit for bit in range(shape.row_bits))]
        for turn in turns:
            own = {"source": 2, "negate": 0}
            yield {"turn_rows": turn, "writes": 1, "d": 2, "c": own} | dict.fromkeys(
                ("from_panel", "to_panel", "panel_read", "panel_write"), 0
            )
        for _ in range(200):
            read = rng.randrange(64)
            yield {
                "turn_rows": rng.choice(turns),
                "writes": rng.getrandbits(1),
                "d": rng.randrange(3),
                "c": {"source": rng.choice([0, 1, 2, 16, 31]), "negate": 0},
                "from_panel": rng.getrandbits(1),
                "to_panel": rng.getrandbits(1),
                "panel_read": read,
                "panel_write": max(0, read + rng.randrange(-4, block + 4)),
            }

    pipelined, seen = [], set()
    for entry in cases():
        turned = entry["writes"] and entry["c"]["source"] == entry["d"]
        paired = turned and entry["turn_rows"] > WRITTEN
        beyond = entry["panel_write"] - entry["panel_read"]
        both = entry["from_panel"] and entry["to_panel"]
        descending = both and WRITTEN <= beyond < block
        if paired and descending:
            continue  # refused by the rules of a program
        wanted = RowOrder.PAIRED if paired else RowOrder.DESCENDING if descending else 0
        pipelined.append(({"entry": entry}, {"order": int(wanted)}))
        seen.add(wanted)
    check_pipeline(orders(shape), pipelined, 0)
    assert len(seen) == (1 if block < 8 else 2 if block == 8 else 3)
