"""Where W's planes stand in the fused pass: parts of halves that tiles have in turn."""

import pytest
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from diastole_hw.schedule.halves import west_base, west_word
from diastole_hw.schedule.tokens import PLANE, chunk_layout
from diastole_sim.spec.sizes.uses import W
from support.pipelines import Built, check_pipeline
from support.plans import make_numerics, make_plan


def halves(plan):
    """Both functions as a unit."""
    members = {"chunk": In(chunk_layout(plan)), "base": Out(32), "word": Out(32)}
    members |= {"planes": In(data.ArrayLayout(PLANE, 3))} if plan.planar else {}

    def build(m, unit):
        m.d.comb += unit.base.eq(west_base(plan, unit, unit.chunk))
        m.d.comb += unit.word.eq(west_word(plan, unit, unit.chunk))

    return Built(members, build)


def places(plan, counts):
    """By (planes, tile, plane): block and word."""
    keys = [(n, tile, plane) for n in counts for tile in range(4) for plane in range(n)]
    cases = []
    for count, tile, plane in keys:
        chunk = {"tile": tile} | ({"stream_plane": plane} if plan.planar else {})
        planes = [count - 1 if cls == W else 0 for cls in range(3)]
        given = {"chunk": chunk} | ({"planes": planes} if plan.planar else {})
        cases.append((given, {"base": None, "word": None}))
    found = check_pipeline(halves(plan), cases, 0)
    return {key: (each["base"], each["word"]) for key, each in zip(keys, found, strict=True)}


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
