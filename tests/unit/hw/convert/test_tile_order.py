# amaranth: UnusedElaboratable=no
"""The order of a tensor's tiles, and numbers that follow it, against loops over patches."""

import pytest
from amaranth.hdl import Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.convert.tile_order import Numbers, cut_layout, make_tile_order
from support.bench import design, simulation
from support.converter_bench import patches_of

SHAPES = [(1, 1), (1, 7), (6, 1), (5, 7), (4, 6)]
CUTS = [True, *[(h, w, by) for h, w in [(1, 1), (2, 3), (4, 2), (9, 3), (3, 9)] for by in (0, 1)]]


class Tiles(wiring.Component):
    """Numbers of the tiles of a tensor of ``high`` x ``wide`` tiles, until it ends.

    ``column`` and ``sum`` are told what comes after, as units do that have it anyway."""

    def __init__(self, *, in_patches):
        self.in_patches = in_patches
        members = dict.fromkeys(("high", "wide"), In(8))
        members |= dict.fromkeys(("row", "column", "next_column", "place"), Out(8))
        members |= dict.fromkeys(("first_row", "first_col", "last"), Out(1))
        super().__init__(
            members
            | {"start": In(1), "advance": In(1), "cut": In(cut_layout())}
            | {"sum": Out(12), "unit": Out(12)}
        )

    def elaborate(self, platform):
        m = Module()
        row, column, total = (Signal(bits) for bits in (8, 8, 12))
        order = make_tile_order(
            m,
            "order",
            cut=self.cut if self.in_patches else None,
            start=self.start,
            advance=self.advance,
            last_row=row == self.high - 1,
            last_col=column == self.wide - 1,
        )
        rows, _ = order.follow(m, Numbers(Const(0, 8), 0, 1), "row")
        after = column + 1
        columns, next_column = order.follow(m, Numbers(Const(0, 8), 1, 0, after=after), "column")
        sums, _ = order.follow(m, Numbers(Const(4095, 12), -3, 50), "sum")
        units, _ = order.follow(m, Numbers(Const(16, 12), 8, 24, unit=8), "unit")
        places, _ = order.follow(m, Numbers(Const(5, 8), 1, self.wide, dense=True), "place")
        first_row, first_col = order.firsts(m)
        m.d.comb += [
            row.eq(rows),
            column.eq(columns),
            total.eq(sums),
            self.row.eq(row),
            self.column.eq(column),
            self.next_column.eq(next_column),
            self.sum.eq(total),
            self.unit.eq(units),
            self.place.eq(places),
            self.first_row.eq(first_row),
            self.first_col.eq(first_col),
            self.last.eq(order.last_row & order.last_col),
        ]
        return m


def walked(high, wide, cut):
    """(row, column) of every tile."""
    for top, left, bottom, right in patches_of(high, wide, cut):
        yield from ((row, column) for row in range(top, bottom) for column in range(left, right))


@pytest.mark.parametrize("in_patches", [True, False], ids=["patches", "lines"])
@pytest.mark.parametrize("p_taken", [1.0, 0.4], ids=["free", "stalled"])
async def test_every_order(p_taken, in_patches, rng):
    """One tensor after the other; nothing of one is left for the next."""
    dut = design(Tiles, in_patches=in_patches)
    jobs = [(shape, cut) for shape in SHAPES for cut in (CUTS if in_patches else [True] * 3)]
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
            assert ctx.get(dut.place) == 5 + row * wide + column, where
            assert ctx.get(dut.unit) == 16 + 8 * column + 24 * row, where
            assert ctx.get(dut.first_row) == (row == 0), where
            assert ctx.get(dut.first_col) == (column == 0), where
            assert ctx.get(dut.last) == (number == len(tiles) - 1), where
            if number + 1 < len(tiles):
                assert ctx.get(dut.next_column) == tiles[number + 1][1], where
            ctx.set(dut.advance, 1)
            await ctx.tick()
            ctx.set(dut.advance, 0)
