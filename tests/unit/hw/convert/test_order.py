# amaranth: UnusedElaboratable=no
"""The order of a tensor's tiles, and numbers that follow it, against loops over patches."""

import pytest
from amaranth.hdl import Const, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.convert.order import TileOrder, cut_layout, follow_tiles
from support.bench import design, simulation
from support.converter_bench import patches_of

SHAPES = [(1, 1), (1, 7), (6, 1), (5, 7), (4, 6)]
CUTS = [True, *[(h, w, by) for h, w in [(1, 1), (2, 3), (4, 2), (9, 3), (3, 9)] for by in (0, 1)]]


class Tiles(wiring.Component):
    """Numbers of the tiles of a tensor of ``high`` x ``wide`` tiles, until it ends."""

    def __init__(self):
        members = dict.fromkeys(("high", "wide"), In(8))
        members |= dict.fromkeys(("row", "column", "next_column"), Out(8))
        members |= dict.fromkeys(("first_row", "first_col", "last"), Out(1))
        super().__init__(
            members | {"start": In(1), "taken": In(1), "cut": In(cut_layout()), "sum": Out(12)}
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.order = order = TileOrder()
        row, _ = follow_tiles(m, order, Const(0, 8), 0, 1, "row")
        column, next_column = follow_tiles(m, order, Const(0, 8), 1, 0, "column")
        total, _ = follow_tiles(m, order, Const(4095, 12), -3, 50, "sum")
        m.d.comb += [
            self.row.eq(row),
            self.column.eq(column),
            self.next_column.eq(next_column),
            self.sum.eq(total),
            order.start.eq(self.start),
            order.taken.eq(self.taken),
            order.cut.eq(self.cut),
            order.last_row.eq(row == self.high - 1),
            order.last_col.eq(column == self.wide - 1),
            self.first_row.eq(order.first_row),
            self.first_col.eq(order.first_col),
            self.last.eq(order.last_row & order.last_col),
        ]
        return m


def walked(high, wide, cut):
    """(row, column) of every tile."""
    for top, left, bottom, right in patches_of(high, wide, cut):
        yield from ((row, column) for row in range(top, bottom) for column in range(left, right))


@pytest.mark.parametrize("p_taken", [1.0, 0.4], ids=["free", "stalled"])
async def test_patches_in_both_orders(p_taken, rng):
    """One tensor after the other; nothing of one is left for the next."""
    dut = design(Tiles)
    jobs = [(shape, cut) for shape in SHAPES for cut in CUTS]
    rng.shuffle(jobs)
    ctx = await simulation(dut)
    for (high, wide), cut in jobs:
        ctx.set(dut.high, high)
        ctx.set(dut.wide, wide)
        lengths = (0, 0, 0) if cut is True else cut
        fields = dict(zip(("high", "wide", "by_columns"), lengths, strict=True))
        ctx.set(dut.cut, {"cut": int(cut is not True)} | fields)
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        tiles = list(walked(high, wide, cut))
        for number, (row, column) in enumerate(tiles):
            while rng.random() >= p_taken:
                await ctx.tick()
            where = f"tile {number} of {high} x {wide} in patches {cut}"
            assert (ctx.get(dut.row), ctx.get(dut.column)) == (row, column), where
            assert ctx.get(dut.sum) == (4095 - 3 * column + 50 * row) % 4096, where
            assert ctx.get(dut.first_row) == (row == 0), where
            assert ctx.get(dut.first_col) == (column == 0), where
            assert ctx.get(dut.last) == (number == len(tiles) - 1), where
            if number + 1 < len(tiles):
                assert ctx.get(dut.next_column) == tiles[number + 1][1], where
            ctx.set(dut.taken, 1)
            await ctx.tick()
            ctx.set(dut.taken, 0)
