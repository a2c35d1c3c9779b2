"""Where W's planes stand in the fused pass: parts of halves that tiles have in turn."""

from itertools import product

import pytest
from amaranth.hdl import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.plan.uses import W
from diastole_hw.schedule.halves import west_base, west_word
from diastole_hw.schedule.tokens import PLANE, chunk_layout
from support.bench import run
from support.plans import make_numerics, make_plan


class Halves(wiring.Component):
    """Both functions as a unit."""

    def __init__(self, plan):
        self.plan = plan
        members = {"chunk": In(chunk_layout(plan)), "base": Out(32), "word": Out(32)}
        if plan.planar:
            members["planes"] = In(data.ArrayLayout(PLANE, 3))
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.base.eq(west_base(self.plan, self, self.chunk))
        m.d.comb += self.word.eq(west_word(self.plan, self, self.chunk))
        return m


def places(plan, counts):
    """By (planes, tile, plane): block and word."""
    dut, found = Halves(plan), {}

    async def bench(ctx):
        for count in counts:
            for tile, plane in product(range(4), range(count)):
                chunk = {"tile": tile}
                if plan.planar:
                    ctx.set(dut.planes[W], count - 1)
                    chunk["stream_plane"] = plane
                ctx.set(dut.chunk, chunk)
                await ctx.delay(1e-9)
                found[count, tile, plane] = ctx.get(dut.base), ctx.get(dut.word)

    run(dut, bench)
    return found


@pytest.mark.parametrize("rows, cols, block", [(1, 1, 4), (2, 3, 8), (4, 2, 2)])
def test_planes_have_parts_of_halves(rows, cols, block):
    """1, 2, 4 and 4 parts for 1 to 4 planes: those of two tiles behind each other never meet, and
    each holds the largest slab that the machine takes for so many planes."""
    numerics = make_numerics(block=block, formats="fast", fraction=30, widths=(2, 4, 6, 8))
    plan = make_plan(numerics, rows, cols)
    assert plan.fused
    room = plan.stream_blocks
    parts = {1: 1, 2: 2, 3: 4, 4: 4}
    found = places(plan, (1, 2, 3, 4))
    for (count, tile, plane), (base, word) in found.items():
        part = room // 2 // parts[count]
        assert base == tile % 2 * (room // 2) + plane * part
        assert word == base * plan.block
        slab = plan.fused_slices_n // parts[count] * plan.fused_tile_blocks
        assert slab <= part, "the slab of a plane reaches into the next one"


def test_halves_without_planes():
    plan = make_plan(make_numerics(), 2, 2)
    room = plan.stream_blocks
    wanted = {(1, tile, 0): (tile % 2 * room // 2, tile % 2 * room // 2 * 4) for tile in range(4)}
    assert places(plan, (1,)) == wanted
