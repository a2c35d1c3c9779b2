"""The walk over tensors in planes: against loops in Python, and rings whose slabs are counted here.

Where a product has one chunk there is one for each pair of planes: those of what is held outside,
those of what streams inside. The rings here hold what is loaded until it is freed, and fail where a
slab finds no room when its chunk comes, or one that is wanted is not there.
"""

from itertools import product

import pytest

from diastole_hw.plan.modes import PRODUCTS, Mode
from diastole_hw.schedule.tile_walk import TileWalk
from diastole_sim.spec.nest import Nest
from diastole_sim.spec.sizes.uses import DY, W, X
from support.bench import design, get, pulse, simulation
from support.nests import drawn_nest
from support.plans import make_numerics, make_plan

OPERANDS = {Mode.FORWARD: (X, W), Mode.DX: (DY, W), Mode.DW: (X, DY)}  # streamed, held


class Ring:
    """Slabs behind each other, from 0 on or where the product before has ended."""

    def __init__(self, room):
        self.space, self.place, self.grid = room, 0, 0

    def begin(self, slab, *, fresh, stays):
        """``stays``: some slabs must be there together; they fit from 0 on, or where all slabs
        since then have their length."""
        start = 0 if fresh or self.place + slab > self.space else self.place
        if stays and self.grid != slab:
            start = 0
        self.grid = slab if start == 0 or self.grid == slab else 0
        self.place, self.slab, self.inside = start, slab, {}

    def take(self, whose, *, loads, frees):
        """Where a chunk's slab stands."""
        if loads:
            assert whose not in self.inside, "loaded twice"
            assert self.place + self.slab <= self.space, "beyond the memory"
            others = self.inside.values()
            assert all(abs(self.place - other) >= self.slab for other in others), "no room"
            self.inside[whose] = self.place
            beyond = self.place + 2 * self.slab > self.space
            self.place = 0 if beyond else self.place + self.slab
        at = self.inside[whose]
        if frees:
            del self.inside[whose]
        return at


class Walk:
    """Products behind each other."""

    def __init__(self, plan):
        self.plan = plan
        self.rings = {
            "stream": Ring(plan.stream_blocks),
            "stationary": Ring(plan.stationary_blocks),
        }
        self.tiles = {0: 0, 1: 0}

    def nest(self, mode, nest):
        """Steps of the loops, slabs, and what stays."""
        plan = self.plan
        if mode == Mode.FUSED:
            return {
                "t_step": plan.fused_tile_blocks, "l_step": plan.fused_blocks_n,
                "c_step": plan.cols, "lanes_outermost": 0, "keep_stream": 0, "keep_stationary": 1,
                "stream_slab": plan.fused_tile_blocks,
                "stationary_slab": plan.fused_slices_n * plan.rows, "north": 0,
            }  # fmt: skip
        north = plan.use(mode).north
        c_side, l_side = (plan.rows, plan.cols) if north else (plan.cols, plan.rows)
        own = plan.nests.of(mode.name.lower()).with_defaults(nest)
        slices = own.chunk // c_side
        return {
            "t_step": own.t_blocks, "l_step": own.groups * l_side, "c_step": own.chunk,
            "lanes_outermost": int(own.outer == "l"), "north": int(north),
            "keep_stream": int(own.keep in ("stream", "both")),
            "keep_stationary": int(own.keep in ("stationary", "both")),
            "stream_slab": slices * own.t_blocks,
            "stationary_slab": slices * own.groups * plan.rows,
        }  # fmt: skip

    def chunks(self, mode, steps, sizes, planes, *, fresh):
        """In order, as they must come."""
        fused = mode == Mode.FUSED
        streamed, held = (X, DY) if fused else OPERANDS[mode]
        east, north = planes[streamed], planes[W] if fused else planes[streamed]
        bare = list(self._bare(steps, sizes, range(planes[held]), range(max(east, north))))
        for chunk in bare:
            i, j = chunk["stream_plane"], chunk["stationary_plane"]
            chunk["east"], chunk["north"] = i < east, i < north
            chunk["load_west"] = fused and i < north and j == 0 and chunk["c0"] == 0
            chunk["opens"] = i == j == 0
            more = {"east": i < east - 1, "north": i < north - 1}
            last_stationary = j == planes[held] - 1
            if chunk["east"]:
                chunk["done_east"] = chunk["last_slice"] and last_stationary and not more["east"]
            if fused and chunk["north"]:
                chunk["done_north"] = last_stationary and not more["north"]
        self._in_rings(bare, steps, planes[streamed], fresh)
        count = self.tiles[steps["north"]] if not fresh else 0
        if fresh:
            self.tiles = {0: 0, 1: 0}
        for chunk in bare:
            chunk["tile"] = (count + chunk["tile"]) % self.plan.tiling.tiles_in_flight
        self.tiles[steps["north"]] = count + 1 + max(chunk.pop("number") for chunk in bare)
        return bare

    def _bare(self, steps, sizes, of_held, of_streamed):
        block, (t_size, lanes, contraction) = self.plan.block, sizes
        t_blocks = -(-t_size // block)
        tiles = list(product(range(0, t_blocks, steps["t_step"]), range(0, lanes, steps["l_step"])))
        if steps["lanes_outermost"]:
            tiles.sort(key=lambda tile: tile[::-1])
        for number, (t0, l0) in enumerate(tiles):
            for c0 in range(0, contraction, steps["c_step"]):
                for j, i in product(of_held, of_streamed):
                    last_slice = c0 + steps["c_step"] >= contraction
                    yield {
                        "number": number, "tile": number,
                        "t0": t0, "t_blocks": min(steps["t_step"], t_blocks - t0),
                        "t_count": min(steps["t_step"] * block, t_size - t0 * block),
                        "l0": l0, "l_blocks": min(steps["l_step"], lanes - l0),
                        "c0": c0, "c_blocks": min(steps["c_step"], contraction - c0),
                        "stream_plane": i, "stationary_plane": j,
                        "first": c0 == i == j == 0, "last_slice": last_slice,
                        "last": last_slice and i == of_streamed[-1] and j == of_held[-1],
                        "first_t": t0 == 0, "first_l": l0 == 0,
                    }  # fmt: skip

    def _in_rings(self, chunks, steps, streamed_planes, fresh):
        for operand, axis, plane in (
            ("stream", "t0", "stream_plane"),
            ("stationary", "l0", "stationary_plane"),
        ):
            keeps = steps[f"keep_{operand}"]
            ring = self.rings[operand]
            several = operand == "stream" and streamed_planes > 1
            ring.begin(steps[f"{operand}_slab"], fresh=fresh, stays=keeps or several)
            wants = {
                number: (chunk[axis], chunk["c0"], chunk[plane], None if keeps else chunk["number"])
                for number, chunk in enumerate(chunks)
                if operand == "stationary" or chunk["east"]
            }
            first = {want: number for number, want in reversed(wants.items())}
            last = {want: number for number, want in wants.items()}
            for number, chunk in enumerate(chunks):
                said = {f"load_{operand}": False, f"free_{operand}": False}
                if number in wants:
                    want = wants[number]
                    loads, frees = first[want] == number, last[want] == number
                    at = ring.take(want, loads=loads, frees=frees)
                    said = {f"load_{operand}": loads, f"free_{operand}": frees}
                    said[f"{operand}_base"] = at
                chunk |= said
            assert not ring.inside, "never freed"


def describe(ctx, dut, mode, steps, sizes, planes):
    """Say the product's sizes, its nest and in how many planes its tensors are."""
    t_size, lanes, contraction = sizes
    values = steps | {
        "mode": mode, "t_size": t_size, "t_blocks": -(-t_size // dut.plan.block),
        "l_blocks": lanes, "c_blocks": contraction,
    }  # fmt: skip
    for name, value in values.items():
        ctx.set(dut.product[name], value)
    for cls, count in planes.items():
        ctx.set(dut.product.planes[cls], count - 1)


async def walk_through(ctx, dut, walk, mode, sizes, planes, rng, nest=None, *, fresh):
    """One product, from its start to its last chunk."""
    steps = walk.nest(mode, nest)
    describe(ctx, dut, mode, steps, sizes, planes)
    ctx.set(dut.from_idle, fresh)
    await pulse(ctx, dut.start)
    for number, want in enumerate(walk.chunks(mode, steps, sizes, planes, fresh=fresh)):
        chunk = await get(ctx, dut.chunks, willing=lambda: rng.random() < 0.9)
        got = {name: chunk[name] for name in want}
        assert got == want, f"chunk {number}: {mode.name} {sizes} {planes} {nest}"
    assert not ctx.get(dut.busy)


def planar_plan(rows, cols, widths, block=4):
    fraction = 14 + 2 * widths[-1]
    return make_plan(
        make_numerics(block=block, formats="fast", fraction=fraction, widths=widths), rows, cols
    )


def drawn_planes(widths, rng):
    return {cls: rng.choice(widths) // 2 for cls in (X, W, DY)}


def operand_planes(mode, planes):
    return tuple(planes[cls] for cls in OPERANDS[mode])


@pytest.mark.parametrize("rows, cols, widths", [(1, 1, (2, 4)), (2, 3, (2, 4, 6, 8)), (2, 2, (8,))])
@pytest.mark.parametrize("mode", PRODUCTS, ids=lambda mode: mode.name)
@pytest.mark.sampled(3)
async def test_every_pair_of_planes(rows, cols, widths, mode, rng):
    """Once for each tile and chunk, in nests that keep nothing, one operand or both."""
    plan = planar_plan(rows, cols, widths)
    dut = design(TileWalk, plan)
    limits = plan.nests.of(mode.name.lower())
    kept = set()
    ctx = await simulation(dut, limit=60_000)
    for blocks in ((1, 1, 1), (3, 2, 2), (5, 9, 11), (17, 3, 5), (9, 10, 3), (6, 6, 6)):
        for keep in ("none", "stream", "stationary", "both"):
            planes = drawn_planes(widths, rng)
            nest = drawn_nest(limits, blocks, rng)
            asked = Nest(**{**vars(nest), "keep": keep})
            if limits.problem(asked, blocks, operand_planes(mode, planes)) is None:
                nest = asked
            if limits.problem(nest, blocks, operand_planes(mode, planes)) is not None:
                continue
            kept.add(nest.keep)
            sizes = blocks[0] * plan.block - rng.randrange(plan.block), *blocks[1:]
            walk = Walk(plan)
            await walk_through(ctx, dut, walk, mode, sizes, planes, rng, nest, fresh=True)
    assert kept == {"none", "stream", "stationary", "both"}


@pytest.mark.parametrize(
    "rows, cols, widths", [(1, 1, (2, 4)), (2, 2, (2, 4, 6, 8)), (3, 2, (2, 4))]
)
async def test_fused_pass(rows, cols, widths, rng):
    """Planes of X go east, those of W north, of one slice of dY after another; where one has more
    than the other, its last chunks have one direction. As much of dY as fits."""
    plan = planar_plan(rows, cols, widths)
    assert plan.fused
    dut = design(TileWalk, plan)
    counts = [width // 2 for width in widths]
    cases = list(product(counts, repeat=3))
    cases = cases if len(cases) < 10 else rng.sample(cases, 10)
    ctx = await simulation(dut, limit=60_000)
    for of_x, of_w, of_dy in cases:
        planes = {X: of_x, W: of_w, DY: of_dy}
        most_m = plan.fused_slices_m // of_dy * plan.cols
        n = rng.randrange(1, plan.fused_blocks_n + 1)
        m = rng.choice([1, most_m, rng.randrange(1, most_m + 1)])
        k = rng.randrange(1, 3 * plan.fused_tile_blocks * plan.block)
        sizes = (k, n, min(m, 12))
        await walk_through(ctx, dut, Walk(plan), Mode.FUSED, sizes, planes, rng, fresh=True)


@pytest.mark.parametrize("rows, cols, widths", [(2, 2, (2, 4)), (1, 1, (2, 4, 6, 8))])
async def test_products_behind_each_other(rows, cols, widths, rng):
    """In any widths: the rings go on, and where planes must be there together all have room."""
    plan = planar_plan(rows, cols, widths)
    dut = design(TileWalk, plan)
    begun = set()
    ctx = await simulation(dut, limit=60_000)
    walk, blocks = Walk(plan), (5, 3, 6)
    for number in range(50):
        mode, planes = rng.choice(PRODUCTS), drawn_planes(widths, rng)
        limits = plan.nests.of(mode.name.lower())
        nest = drawn_nest(limits, blocks, rng) if number % 3 else Nest()
        if limits.problem(nest, blocks, operand_planes(mode, planes)) is not None:
            continue
        sizes = blocks[0] * plan.block - rng.randrange(plan.block), *blocks[1:]
        begun.add((walk.rings["stream"].place > 0, planes[OPERANDS[mode][0]] > 1))
        await walk_through(ctx, dut, walk, mode, sizes, planes, rng, nest, fresh=number == 0)
    assert begun >= {(True, True), (True, False)}


async def test_cycles():
    """A chunk in every second cycle after ``start``, with planes too."""
    plan = planar_plan(2, 2, (2, 4))
    dut = design(TileWalk, plan)
    walk, sizes = Walk(plan), (100, 9, 17)
    steps = walk.nest(Mode.FORWARD, Nest())
    planes = {X: 2, W: 2, DY: 1}
    count = len(walk.chunks(Mode.FORWARD, steps, sizes, planes, fresh=True))
    seen = []
    ctx = await simulation(dut)
    describe(ctx, dut, Mode.FORWARD, steps, sizes, planes)
    ctx.set(dut.from_idle, 1)
    ctx.set(dut.chunks.ready, 1)
    ctx.set(dut.start, 1)
    for _ in range(2 * count + 4):
        _, _, *now = await ctx.tick().sample(dut.chunks.valid, dut.busy)
        seen.append(now)
        ctx.set(dut.start, 0)
    assert seen == [[0, 0]] + [[0, 1], [1, 1]] * count + [[0, 0]] * 3
