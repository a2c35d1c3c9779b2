# amaranth: UnusedElaboratable=no
"""Tiles of tensors, against loops over rows and columns."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring

from diastole_hw.convert.intake.tensor_walk import TensorWalk
from diastole_hw.convert.intake.tile_index import TileIndex
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from support.bench import design
from support.converter_bench import patches_of
from support.sweep import alternating
from support.tiles import MACHINES, machine, tile_items, tile_shape
from support.unit_bench import Unit

SHAPES = [(1, 1), (3, 5), (17, 70), (40, 9), (1, 257), (130, 3)]
NAMES = list(MACHINES)
LARGEST = 2**24 - 1


class IndexedWalk(wiring.Component):
    """The walk, and what counts the indices of its tiles."""

    def __init__(self, sizes):
        self.sizes = sizes
        super().__init__(TensorWalk(sizes).signature)

    def elaborate(self, platform):
        m = Module()
        m.submodules.walk = walk = TensorWalk(self.sizes)
        m.submodules.count = count = TileIndex(self.sizes)
        for name in ("start", "cls", "rows", "cols", "source", "pitch"):
            m.d.comb += getattr(walk, name).eq(getattr(self, name))
        m.d.comb += [
            *(getattr(count, name).eq(getattr(self, name)) for name in ("start", "cls", "cols")),
            count.leaves.eq(self.o.valid & self.o.ready),
            count.last_col.eq(walk.o.p.last_col),
            self.o.valid.eq(walk.o.valid),
            self.o.payload.eq(walk.o.payload),
            self.o.p.index.eq(count.index),
            walk.o.ready.eq(self.o.ready),
        ]
        return m


@pytest.mark.parametrize("name, p_ready", alternating(NAMES, {"free": (1.0,), "stalled": (0.4,)}))
def test_tiles(name, p_ready, rng):
    """Tensors of all classes one after the other; nothing of one is left for the next."""
    numerics, data_width = machine(name)
    unit = Unit(
        design(IndexedWalk, ConverterSizes(numerics=numerics, data_width=data_width)),
        rng,
        pace=p_ready,
    )
    taken = unit.take(unit.dut.o)
    jobs = [(cls, shape) for shape in SHAPES for cls in range(3)]
    rng.shuffle(jobs)

    async def script(ctx):
        for cls, shape in jobs:
            source = rng.randrange(2**32) * data_width // 8
            items, pitch = tile_items(numerics, data_width, cls, shape, source)
            taken.add(items)
            await begin(ctx, unit, cls, shape, pitch, source)
            await unit.settled(ctx, silence=3)

    unit.run(script, limit=60_000)


async def begin(ctx, unit, cls, shape, pitch, source=0):
    where = {"rows": shape[0], "cols": shape[1], "pitch": pitch, "source": source}
    await unit.pulse(ctx, "start", cls=cls, **where)


@pytest.mark.parametrize("name", NAMES)
def test_patches(name, rng):
    """The tiles of patches of 2 x 1 and 1 x 2 tiles, in both orders; and those of no patches."""
    numerics, data_width = machine(name)
    dut = design(
        TensorWalk, ConverterSizes(numerics=numerics, data_width=data_width), in_patches=True
    )
    cuts = [(2, 1, 0), (1, 2, 0), (2, 1, 1), (1, 2, 1), None]
    unit = Unit(dut, rng, pace=0.7)
    taken = unit.take(dut.o)

    async def script(ctx):
        for cut in cuts:
            cls = rng.randrange(3)
            height, width = tile_shape(numerics, cls)
            high, wide = rng.randrange(2, 6), rng.randrange(2, 6)
            shape = (high * height - rng.randrange(height), wide * width - rng.randrange(width))
            items, pitch = tile_items(numerics, data_width, cls, shape, 0)
            unknown = {} if cut is None else {"address": None}  # of patches, which are fed
            fields = dict(zip(("high", "wide", "by_columns"), cut or (0, 0, 0), strict=True))
            unit.set(ctx, cut={"cut": int(cut is not None)} | fields)
            for top, left, bottom, right in patches_of(high, wide, cut or True):
                for row in range(top, bottom):
                    line = items[row * wide + left : row * wide + right]
                    taken.add(item | unknown for item in line)
            await begin(ctx, unit, cls, shape, pitch)
            await unit.settled(ctx, silence=1)

    unit.run(script, limit=60_000)


def test_a_long_walk_ends_where_it_should(rng):
    """Largest numbers of columns, rows so far down that an index needs all of its bits."""
    numerics, data_width = machine("squares")
    dut = design(IndexedWalk, ConverterSizes(numerics=numerics, data_width=data_width))
    height, width = tile_shape(numerics, 1)

    unit = Unit(dut)
    tiles = [(number // 2 * height, number % 2 * width) for number in range(300)]
    wanted = [
        {
            "address": (2**39 + row * 2**26 + 4 * col) % 2**40,
            "index": row * 2 * width + col,
            "last_row": 0,
        }
        for row, col in tiles
    ]
    unit.take(dut.o, [*wanted, {}], pace=lambda: unit.cycle <= 300)
    unit.sinks[0].needed = False
    unit.run(lambda ctx: begin(ctx, unit, 1, (LARGEST, 2 * width), 2**26, 2**39), cycles=310)
    assert len(unit.sinks[0].items) == 300


@pytest.mark.parametrize("cls", range(3))
def test_timing_of_walk(cls):
    """The first tile in the cycle after ``start``, then one per cycle; a tile waits unchanged."""
    numerics, data_width = machine("vectors")
    dut = design(IndexedWalk, ConverterSizes(numerics=numerics, data_width=data_width))
    shape = (37, 100)
    items, pitch = tile_items(numerics, data_width, cls, shape, 0)
    unit = Unit(dut)
    taken = unit.take(dut.o, items, pace=lambda: unit.cycle > 4)
    valid = unit.record(dut.o.valid)
    unit.run(lambda ctx: begin(ctx, unit, cls, shape, pitch))
    assert taken.cycles == [*range(5, 5 + len(items))]
    assert valid.cycles == [*range(1, 5 + len(items))]
