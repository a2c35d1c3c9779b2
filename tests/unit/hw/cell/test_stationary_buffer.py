"""The double buffer of a cell by itself: every word, mark and hop of every cycle."""

from dataclasses import replace

import pytest

from diastole_hw.cell.cell_shape import CellShape
from diastole_hw.cell.stationary_buffer import StationaryBuffer
from oracle.cell import Block, Loading, Operands
from support.bench import design, run, simulation
from support.cells import BFP3, BFP5, E4M3, KINDS, shape_of


def packed(kind, element):
    """An element as a cell keeps it: instead of d and the top bit of sig one field, which is d, or
    all ones where that bit is 0; as it is where the bit does not follow from d."""
    sign, sig, d = element
    if not kind.derived:
        fall_bits = kind.depth.bit_length()
        return sig | d << kind.significand_bits | sign << (kind.significand_bits + fall_bits)
    low_bits, field_bits = kind.significand_bits - 1, (kind.depth + 1).bit_length()
    normal = sig >> low_bits
    field = d if normal else 2**field_bits - 1
    return sig % 2**low_bits | field << low_bits | sign << (low_bits + field_bits)


def marks_of(block, shape):
    """What is said of the block, by its rows: a mark of each lane, or of all."""
    lanes = range(shape.block) if shape.lane_deficits and "north" in shape.directions else [0]
    marks = {"nonzero": [block.nonzero[lane] for lane in lanes]}
    if "east" in shape.directions:
        marks["deficit_east"] = block.east
    if "north" in shape.directions:
        marks["deficit_north"] = [block.north[lane] for lane in lanes]
    if shape.significands:
        marks["significand"] = [block.significand[lane] for lane in lanes]
    if shape.extents:
        reach = zip(block.extent, block.nonzero, strict=True)
        marks["extent"] = max(extent * nonzero for extent, nonzero in reach)
    if shape.poison:
        columns = zip(*block.poison, strict=True)
        by_direction = {
            "east": [any(column) for column in columns],
            "north": [any(row) for row in block.poison],
        }
        for name in shape.directions:
            bits = by_direction[name]
            marks[f"poison_{name}"] = sum(bit << place for place, bit in enumerate(bits))
    return marks


def check_active(ctx, dut, block):
    """The block that works: its elements and marks."""
    shape = dut.shape
    for a, row in enumerate(block.rows):
        want = [packed(shape.stationary, element) for element in row]
        assert list(ctx.get(dut.elements[a])) == want, f"row {a}"
    want = marks_of(block, shape)
    assert set(dut.marks.shape().members) == set(want)
    for name, value in want.items():
        got = ctx.get(dut.marks[name])
        assert (list(got) if isinstance(value, list) else got) == value, name


def check_hop(ctx, dut, offer):
    """One cycle after the word came."""
    north = dut.load_north
    passes = offer.valid and offer.row > 0
    assert ctx.get(north.valid) == passes
    if passes:
        want = north.shape().const(offer.passed_on(dut.shape))
        assert ctx.get(north) == want, f"{offer.row=}"


def check(shape, rng, cycles, operands=None):
    dut = design(StationaryBuffer, shape=shape)
    loading = Loading(operands or Operands(rng, shape))
    blocks = []

    async def bench(ctx):
        before = None
        for _ in range(cycles):
            offer = loading.cycle()
            ctx.set(dut.load, offer.const(shape))
            at_work = before if shape.input_cycles else offer
            if at_work is not None:
                ctx.set(dut.swap, at_work.swap)
                if at_work.stationary is not None:
                    check_active(ctx, dut, at_work.stationary)
                    blocks.append(at_work.stationary)
            if before is not None:
                check_hop(ctx, dut, before)
            before = offer
            await ctx.tick()

    run(dut, bench)
    assert len({id(block) for block in blocks}) > 5, "blocks seen"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows, block", [(2, 2), (4, 1), (3, 4), (2, 8)])
@pytest.mark.parametrize("pipeline", ["none", "full"])
@pytest.mark.sampled(4)
def test_every_cycle_against_the_blocks_that_were_loaded(rows, block, kind, pipeline, rng):
    """In the full pipeline the swap comes with the words that are kept, a cycle after they came."""
    shape = shape_of(kind, rows=rows, block=block, fraction=5, pipeline=pipeline)
    check(shape, rng, 60 * (1 + block))


class OneMark(Operands):
    """Blocks of which one element, or none, is no number, and one row reaches far down."""

    def any_stationary(self):
        block, side = super().any_stationary(), self.block
        row, column = self.rng.randrange(side), self.rng.randrange(side)
        poison = [[0] * side for _ in range(side)]
        poison[row][column] = self.rng.randrange(2)
        extent = [0] * side
        extent[self.rng.randrange(side)] = self.rng.randrange(18)
        return replace(block, poison=poison, extent=extent)


@pytest.mark.parametrize("directions", [("east", "north"), ("east",), ("north",)], ids="-".join)
def test_marks_of_single_elements_and_rows(directions, rng):
    """They neither stay for the next block, nor get lost in words that come later."""
    shape = CellShape(
        rows=2,
        block=4,
        south=E4M3,
        west=E4M3,
        stationary=E4M3,
        window=16,
        exact=False,
        sum_bits=20,
        fraction=4,
        directions=directions,
        extents=True,
        poison=True,
    )
    check(shape, rng, 600, OneMark(rng, shape))


async def test_a_word_with_the_swap_is_of_the_next_block():
    shape = CellShape(
        rows=2, block=2, south=BFP3, west=BFP3, stationary=BFP5, sum_bits=10, fraction=2
    )
    dut = design(StationaryBuffer, shape=shape)
    old, new = (
        Block.square([[(0, n, 0), (1, n + 1, 0)], [(1, n + 2, 0), (0, n + 3, 0)]], n, n + 1, 1)
        for n in (1, 9)
    )

    async def word(ctx, block, index, swap):
        ctx.set(dut.load, block.const(shape, 0, index))
        ctx.set(dut.swap, swap)
        await ctx.tick()

    ctx = await simulation(dut)
    await word(ctx, old, 0, 0)
    await word(ctx, old, 1, 0)
    await word(ctx, new, 0, 1)
    check_active(ctx, dut, old)
    await word(ctx, new, 1, 0)
    check_active(ctx, dut, old)
    ctx.set(dut.load.valid, 0)
    ctx.set(dut.swap, 1)
    await ctx.tick()
    check_active(ctx, dut, new)
    ctx.set(dut.swap, 0)
    await ctx.tick()
    check_active(ctx, dut, new)
