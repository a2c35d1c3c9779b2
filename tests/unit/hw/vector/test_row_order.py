# amaranth: UnusedElaboratable=no
"""Orders of rows, against the rows that each order is to keep apart, by loops."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.vector.entry import entry_layout
from diastole_hw.vector.row_order import RowOrder, row_at, row_order_of
from support.bench import design, run
from support.vector_core import shape_of

WRITTEN = 7
"""Cycles from the read of a row's operands to the write of the row."""
BLOCKS = [1, 2, 4, 8, 16, 32]


class Orders(wiring.Component):
    """The order of an entry, and the row at a position in the order that an entry says."""

    def __init__(self, shape):
        self.shape = shape
        super().__init__(
            {
                "entry": In(entry_layout(shape)),
                "position": In(range(shape.block + 1)),
                "order": Out(2),
                "row": Out(range(max(2, shape.block))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.order.eq(row_order_of(m, self.shape, self.entry))
        m.d.comb += self.row.eq(row_at(self.shape, self.entry, self.position))
        keep = Signal()
        m.d.sync += keep.eq(~keep)  # the bench has a clock
        return m


def rows_of(block, dut, entry):
    """The rows in the order of an entry, as a coroutine."""

    async def collect(ctx):
        found = []
        for position in range(block):
            ctx.set(dut.entry, entry)
            ctx.set(dut.position, position)
            await ctx.delay(1e-9)
            found.append(ctx.get(dut.row))
        return found

    return collect


@pytest.mark.parametrize("block", BLOCKS)
def test_orders_are_permutations_that_never_overtake(block):
    """In each order the read of a row comes before the write of the row that replaces it."""
    shape = shape_of(block)
    dut = design(Orders, shape)
    turns = [1 << bit for bit in range(3, shape.row_bits)]

    async def bench(ctx):
        ascending = await rows_of(block, dut, {"order": 0} if block >= 8 else {})(ctx)
        assert ascending == list(range(block))
        if block >= 8:
            last_first = await rows_of(block, dut, {"order": RowOrder.DESCENDING})(ctx)
            assert last_first == ascending[::-1]
        for turn in turns:
            entry = {"order": RowOrder.PAIRED, "turn_rows": turn}
            paired = await rows_of(block, dut, entry)(ctx)
            assert sorted(paired) == ascending
            at = {row: cycle for cycle, row in enumerate(paired)}
            for row in ascending:  # row r is made of row r XOR turn, and both of them are written
                assert at[row] <= at[row ^ turn] + WRITTEN - 1

    run(dut, bench)


@pytest.mark.parametrize("block", BLOCKS)
def test_which_order_an_instruction_needs(block, rng):
    shape = shape_of(block)
    dut = design(Orders, shape)

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

    async def bench(ctx):
        seen = set()
        for entry in cases():
            ctx.set(dut.entry, entry)
            await ctx.delay(1e-9)
            turned = entry["writes"] and entry["c"]["source"] == entry["d"]
            paired = turned and entry["turn_rows"] > WRITTEN
            beyond = entry["panel_write"] - entry["panel_read"]
            both = entry["from_panel"] and entry["to_panel"]
            descending = both and WRITTEN <= beyond < block
            if paired and descending:
                continue  # refused by the rules of a program
            wanted = RowOrder.PAIRED if paired else RowOrder.DESCENDING if descending else 0
            assert ctx.get(dut.order) == wanted, entry
            seen.add(wanted)
        assert len(seen) == (1 if block < 8 else 2 if block == 8 else 3)

    run(dut, bench)
