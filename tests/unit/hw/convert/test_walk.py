# amaranth: UnusedElaboratable=no
"""Tiles of tensors and requests for their rows, against loops over rows and columns."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring

from diastole_hw.convert.tile_index import TileIndex
from diastole_hw.convert.walk import ReadRequests, TensorWalk
from support.bench import design, get, put, run
from support.converter_bench import patches_of
from support.sweep import alternating
from support.tiles import MACHINES, machine, piece_cols, tile_shape, tiles_of

FIELDS = ("address", "index", "rows", "cols", "first_row", "first_col", "last_row", "last_col")
ASKED = ("address", "rows", "cols")
SHAPES = [(1, 1), (3, 5), (17, 70), (40, 9), (1, 257), (130, 3)]
NAMES = list(MACHINES)
LARGEST = 2**24 - 1


class IndexedWalk(wiring.Component):
    """The walk, and what counts the indices of its tiles."""

    def __init__(self, **sizes):
        self.sizes = sizes
        super().__init__(TensorWalk(**sizes).signature)

    def elaborate(self, platform):
        m = Module()
        m.submodules.walk = walk = TensorWalk(**self.sizes)
        m.submodules.count = count = TileIndex(**self.sizes)
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


def tile_items(numerics, data_width, cls, shape, source):
    """What every tile of a tensor is described by, and the bytes from row to row of floats."""
    beat = data_width // 8
    pitch = -(-4 * shape[1] // beat) * beat
    tiles = tiles_of(numerics, cls, *shape)
    return [tile.fields(source + tile.row * pitch + 4 * tile.col) for tile in tiles], pitch


def asked(item):
    """Of what describes a tile, that with which its data are asked for."""
    return {name: item[name] for name in ASKED}


def plain(payload):
    return {name: int(getattr(payload, name)) for name in FIELDS}


@pytest.mark.parametrize("name, p_ready", alternating(NAMES, {"free": (1.0,), "stalled": (0.4,)}))
def test_tiles(name, p_ready, rng):
    """Tensors of all classes one after the other; nothing of one is left for the next."""
    numerics, data_width = machine(name)
    dut = design(IndexedWalk, numerics=numerics, data_width=data_width)
    jobs = [(cls, shape) for shape in SHAPES for cls in range(3)]
    rng.shuffle(jobs)

    async def main(ctx):
        for cls, shape in jobs:
            source = rng.randrange(2**32) * data_width // 8
            items, pitch = tile_items(numerics, data_width, cls, shape, source)
            ctx.set(dut.cls, cls)
            ctx.set(dut.rows, shape[0])
            ctx.set(dut.cols, shape[1])
            ctx.set(dut.source, source)
            ctx.set(dut.pitch, pitch)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            for number, item in enumerate(items):
                got = await get(ctx, dut.o, lambda: rng.random() < p_ready)
                assert plain(got) == item, f"tile {number} of {shape}, class {cls}"
            for _ in range(3):
                valid = (await ctx.tick().sample(dut.o.valid))[-1]
                assert not valid, f"more tiles than {shape} has, class {cls}"

    run(dut, main, limit=60_000)


@pytest.mark.parametrize("name", NAMES)
def test_patches(name, rng):
    """The tiles of patches of 2 x 1 and 1 x 2 tiles, in both orders; and those of no patches."""
    numerics, data_width = machine(name)
    dut = design(TensorWalk, numerics=numerics, data_width=data_width, in_patches=True)
    cuts = [(2, 1, 0), (1, 2, 0), (2, 1, 1), (1, 2, 1), None]

    async def main(ctx):
        for cut in cuts:
            cls = rng.randrange(3)
            height, width = tile_shape(numerics, cls)
            high, wide = rng.randrange(2, 6), rng.randrange(2, 6)
            shape = (high * height - rng.randrange(height), wide * width - rng.randrange(width))
            items, pitch = tile_items(numerics, data_width, cls, shape, 0)
            lengths = (0, 0, 0) if cut is None else cut
            fields = dict(zip(("high", "wide", "by_columns"), lengths, strict=True))
            ctx.set(dut.cut, {"cut": int(cut is not None)} | fields)
            for signal, value in (
                (dut.cls, cls), (dut.rows, shape[0]), (dut.cols, shape[1]), (dut.pitch, pitch),
                (dut.start, 1),
            ):  # fmt: skip
                ctx.set(signal, value)
            await ctx.tick()
            ctx.set(dut.start, 0)
            for top, left, bottom, right in patches_of(high, wide, cut or True):
                for row in range(top, bottom):
                    for item in items[row * wide + left : row * wide + right]:
                        got = plain(await get(ctx, dut.o, lambda: rng.random() < 0.7))
                        if cut is not None:
                            del got["address"]
                        assert item | got == item, f"{shape}, class {cls}, {cut}"
            assert not (await ctx.tick().sample(dut.o.valid))[-1]

    run(dut, main, limit=60_000)


def test_a_long_walk_ends_where_it_should(rng):
    """Largest numbers of columns, rows so far down that an index needs all of its bits."""
    numerics, data_width = machine("squares")
    dut = design(IndexedWalk, numerics=numerics, data_width=data_width)
    height, width = tile_shape(numerics, 1)

    async def main(ctx):
        ctx.set(dut.cls, 1)
        ctx.set(dut.rows, LARGEST)
        ctx.set(dut.cols, 2 * width)
        ctx.set(dut.pitch, 2**26)
        ctx.set(dut.source, 2**39)
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        for number in range(300):
            got = await get(ctx, dut.o)
            row, col = number // 2 * height, number % 2 * width
            assert got.address == (2**39 + row * 2**26 + 4 * col) % 2**40, number
            assert got.index == row * 2 * width + col, number
            assert not got.last_row

    run(dut, main)


@pytest.mark.parametrize("cls", range(3))
def test_timing_of_walk(cls):
    """The first tile in the cycle after ``start``, then one per cycle; a tile waits unchanged."""
    numerics, data_width = machine("vectors")
    dut = design(IndexedWalk, numerics=numerics, data_width=data_width)
    shape = (37, 100)
    items, pitch = tile_items(numerics, data_width, cls, shape, 0)

    async def main(ctx):
        inputs = {"cls": cls, "rows": shape[0], "cols": shape[1], "pitch": pitch, "start": 1}
        for port, value in inputs.items():
            ctx.set(getattr(dut, port), value)
        assert not (await ctx.tick().sample(dut.o.valid))[-1]
        ctx.set(dut.start, 0)
        for _ in range(4):
            _, _, valid, payload = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            assert valid
            assert plain(payload) == items[0]
        ctx.set(dut.o.ready, 1)
        for item in items:
            _, _, valid, payload = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            assert valid
            assert plain(payload) == item
        assert not (await ctx.tick().sample(dut.o.valid))[-1]

    run(dut, main)


def requests_of(item, pitch, beat, piece):
    """The beats that have a float of each row of each piece: the first, and how many."""
    for left in range(0, item["cols"], piece):
        for row in range(item["rows"]):
            first = item["address"] + row * pitch
            cols = range(left, min(left + piece, item["cols"]))
            beats = sorted({(first + 4 * col) // beat for col in cols})
            assert beats == list(range(beats[0], beats[-1] + 1))
            yield beats[0] * beat, len(beats)


@pytest.mark.parametrize(
    "name, p_tile, p_ready", alternating(NAMES, {"free": (1.0, 1.0), "stalled": (0.5, 0.4)})
)
def test_requests(name, p_tile, p_ready, rng):
    numerics, data_width = machine(name)
    beat = data_width // 8
    dut = design(ReadRequests, numerics=numerics, data_width=data_width)
    tensors = []
    for number, shape in enumerate(SHAPES):
        source = rng.randrange(2**20) * beat
        tensors.append(tile_items(numerics, data_width, number % 3, shape, source))
    done = []

    async def drive(ctx):
        for number, (items, pitch) in enumerate(tensors):
            ctx.set(dut.pitch, pitch)
            ctx.set(dut.cls, number % 3)
            await put(ctx, dut.i, map(asked, items), lambda: rng.random() < p_tile)
            done.append(number)

    async def check(ctx):
        for number, (items, pitch) in enumerate(tensors):
            piece = piece_cols(numerics, data_width, number % 3)
            for item in items:
                for row, wanted in enumerate(requests_of(item, pitch, beat, piece)):
                    got = await get(ctx, dut.o, lambda: rng.random() < p_ready)
                    assert (got.addr, got.beats) == wanted, f"{SHAPES[number]} row {row} of {item}"
        assert not ctx.get(dut.o.valid), "extra request"
        await ctx.tick()
        assert len(done) == len(tensors)

    run(dut, drive, check)


def test_timing_of_requests():
    """In the cycle of the tile already, and one per cycle; the tile is taken with its last."""
    numerics, data_width = machine("squares")
    dut = design(ReadRequests, numerics=numerics, data_width=data_width)
    (item, *_), pitch = tile_items(numerics, data_width, 0, (3, 5), 64)

    async def main(ctx):
        ctx.set(dut.pitch, pitch)
        ctx.set(dut.i.payload, asked(item))
        ctx.set(dut.o.ready, 1)
        assert not (await ctx.tick().sample(dut.o.valid))[-1]
        ctx.set(dut.i.valid, 1)
        for _ in range(2):
            for row, (addr, beats) in enumerate(requests_of(item, pitch, data_width // 8, 16)):
                _, _, valid, payload, ready = await ctx.tick().sample(
                    dut.o.valid, dut.o.payload, dut.i.ready
                )
                assert (valid, payload.addr, payload.beats) == (1, addr, beats)
                assert ready == (row == 2)

    run(dut, main)
