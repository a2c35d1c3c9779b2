"""The tile walk against nested loops in Python, and against a ring of slabs that is kept here."""

from dataclasses import dataclass
from itertools import product

import pytest

from diastole_hw.plan.modes import PRODUCTS, Mode
from diastole_hw.schedule.tile_walk import TileWalk
from diastole_sim.spec.nest import KEEP_VALUES, OUTER, Nest
from support.bench import design, get, pulse, simulation
from support.nests import drawn_nest
from support.plans import make_numerics, make_plan

KEYS = {"stream": ("t0", "c0"), "stationary": ("l0", "c0")}
"""What the blocks of an operand that a chunk needs depend on."""


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The nest of a product in blocks; ``slabs`` and ``rooms``: of what streams, what is held."""

    t: int
    lanes: int
    chunk: int
    lanes_outermost: bool
    keeps: tuple[bool, bool]
    slabs: tuple[int, int]
    rooms: tuple[int, int]


def steps_of(plan, mode, nest=None):
    """The fused pass has its own: dY stays, and what streams does not."""
    rooms = plan.stream_blocks, plan.stationary_blocks
    if mode == Mode.FUSED:
        return Steps(
            t=plan.fused_tile_blocks, lanes=plan.fused_blocks_n, chunk=plan.cols,
            lanes_outermost=False, keeps=(False, True), rooms=rooms,
            slabs=(plan.fused_tile_blocks, plan.fused_slices_n * plan.rows),
        )  # fmt: skip
    north = plan.use(mode).north
    c_side, l_side = (plan.rows, plan.cols) if north else (plan.cols, plan.rows)
    filled = plan.nests.of(mode.name.lower()).with_defaults(nest)
    slices = filled.chunk // c_side
    return Steps(
        t=filled.t_blocks, lanes=filled.groups * l_side, chunk=filled.chunk,
        lanes_outermost=filled.outer == "l", rooms=rooms,
        keeps=(filled.keep in ("stream", "both"), filled.keep in ("stationary", "both")),
        slabs=(slices * filled.t_blocks, slices * filled.groups * plan.rows),
    )  # fmt: skip


def chunks_of(plan, steps, t_size, lanes, contraction):
    """Chunks in their order, without what the rings say of them."""
    t_blocks = -(-t_size // plan.block)
    tiles = list(product(range(0, t_blocks, steps.t), range(0, lanes, steps.lanes)))
    if steps.lanes_outermost:
        tiles.sort(key=lambda tile: tile[::-1])
    for number, (t0, l0) in enumerate(tiles):
        t_count = min(steps.t * plan.block, t_size - t0 * plan.block)
        for c0 in range(0, contraction, steps.chunk):
            yield {
                "t0": t0, "t_blocks": min(steps.t, t_blocks - t0), "t_count": t_count,
                "l0": l0, "l_blocks": min(steps.lanes, lanes - l0),
                "c0": c0, "c_blocks": min(steps.chunk, contraction - c0),
                "first": c0 == 0, "last": c0 + steps.chunk >= contraction,
                "first_t": t0 == 0, "first_l": l0 == 0,
                "tile": number % plan.tiling.tiles_in_flight,
            }  # fmt: skip


def in_rings(chunks, steps, starts=(0, 0)):
    """Say of each chunk where its blocks stand, which it loads, and which it frees; returns where
    the rings end.

    Blocks that are kept are loaded where they are wanted first, and go where they are wanted last.
    One after the other the chunks must find what they want, and room for what they load. Rings
    begin at ``starts``.
    """
    ends = []
    for number, (operand, key) in enumerate(KEYS.items()):
        room, slab, keeps = (each[number] for each in (steps.rooms, steps.slabs, steps.keeps))
        wanted = [tuple(chunk[name] for name in key) for chunk in chunks]
        first = {want: index for index, want in reversed([*enumerate(wanted)])}
        last = {want: index for index, want in enumerate(wanted)}
        place, inside = starts[number], {}  # by place: whose blocks
        for index, (chunk, want) in enumerate(zip(chunks, wanted, strict=True)):
            loads = not keeps or first[want] == index
            frees = not keeps or last[want] == index
            if loads:
                assert place + slab <= room
                assert all(abs(place - other) >= slab for other in inside), "no room"
                inside[place] = want
                place = place + slab if place + 2 * slab <= room else 0
            (mine,) = (at for at, whose in inside.items() if whose == want)
            chunk |= {f"load_{operand}": loads, f"free_{operand}": frees, f"{operand}_base": mine}
            if frees:
                del inside[mine]
        assert not inside
        ends.append(place)
    return ends


def expected(plan, steps, sizes):
    chunks = list(chunks_of(plan, steps, *sizes))
    in_rings(chunks, steps)
    return chunks


def describe(ctx, dut, steps, sizes):
    """Say the product's sizes and its nest."""
    t_size, lanes, contraction = sizes
    values = {
        "t_size": t_size, "t_blocks": -(-t_size // dut.plan.block), "l_blocks": lanes,
        "c_blocks": contraction, "t_step": steps.t, "l_step": steps.lanes, "c_step": steps.chunk,
        "lanes_outermost": steps.lanes_outermost,
        "keep_stream": steps.keeps[0], "keep_stationary": steps.keeps[1],
        "stream_slab": steps.slabs[0], "stationary_slab": steps.slabs[1],
    }  # fmt: skip
    for name, value in values.items():
        ctx.set(dut.product[name], value)


async def check_walk(ctx, dut, steps, sizes, willing, wanted=None):
    """One product, from its start to its last chunk; ``wanted``: its chunks, where it goes on
    behind another one."""
    describe(ctx, dut, steps, sizes)
    ctx.set(dut.from_idle, wanted is None)
    await pulse(ctx, dut.start)
    for want in expected(dut.plan, steps, sizes) if wanted is None else wanted:
        chunk = await get(ctx, dut.chunks, willing=willing)
        got = {name: chunk[name] for name in want}
        assert got == want, f"{sizes} {steps}"
    assert not ctx.get(dut.busy)


def sizes_of(plan, mode, blocks, rng):
    """Blocks along what streams, the lanes and the contraction; the last one streams in part."""
    t_blocks, lanes, contraction = blocks
    if mode == Mode.FUSED:
        lanes = min(lanes, plan.fused_blocks_n)
        contraction = min(contraction, plan.fused_blocks_m)
    return t_blocks * plan.block - rng.randrange(plan.block), lanes, contraction


@pytest.mark.parametrize(
    "rows, cols, in_place, groupings",
    [
        (1, 1, True, None),
        (2, 2, True, None),
        (3, 2, True, None),
        (2, 3, False, None),
        (3, 2, True, "1x8"),
        (3, 1, True, ("1x8", "4x4", "1x8")),
    ],
)
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.sampled(2)
async def test_every_chunk_once_in_order(rows, cols, in_place, groupings, mode, rng):
    plan = make_plan(make_numerics(groupings=groupings), rows, cols, in_place)
    if mode == Mode.FUSED and not plan.fused:
        return  # no such use
    dut = design(TileWalk, plan)
    limits = plan.nests.of(mode.name.lower())
    ctx = await simulation(dut)
    for blocks in ((1, 1, 1), (17, 3, 5), (38, 40, 70)):
        steps = steps_of(plan, mode, limits and drawn_nest(limits, blocks, rng))
        sizes = sizes_of(plan, mode, blocks, rng)
        await check_walk(ctx, dut, steps, sizes, lambda: rng.random() < 0.7)


def every_nest(limits, blocks):
    for t_blocks, groups, chunk, outer, keep in product(
        limits.t_blocks, limits.groups, limits.chunk, OUTER, KEEP_VALUES
    ):
        nest = Nest(t_blocks=t_blocks, groups=groups, chunk=chunk, outer=outer, keep=keep)
        if limits.problem(nest, blocks) is None:
            yield nest


def left_over(plan, mode, nest, blocks):
    """Of the slabs of what stays, the part that the larger panel leaves; 1 if nothing stays."""
    steps = steps_of(plan, mode, nest)
    panels = plan.nests.of(mode.name.lower()).panels(nest, blocks)
    shares = (
        1 - panel / (room // slab * slab) if keeps else 1
        for keeps, panel, slab, room in zip(
            steps.keeps, panels, steps.slabs, steps.rooms, strict=True
        )
    )
    return min(shares)


@pytest.mark.parametrize("mode", PRODUCTS, ids=lambda mode: mode.name)
@pytest.mark.parametrize(
    "rows, cols, in_place, blocks",
    [(2, 2, True, (19, 9, 17)), (2, 2, False, (21, 6, 14)), (1, 2, True, (12, 9, 42))],
)
@pytest.mark.sampled(9)
async def test_every_nest_that_fits(rows, cols, in_place, blocks, mode, rng):
    """Rings that fill to the last slab are among them, and panels of one and of many tiles."""
    plan = make_plan(make_numerics(block=8), rows, cols, in_place)
    dut = design(TileWalk, plan)
    nests = list(every_nest(plan.nests.of(mode.name.lower()), blocks))
    by_keep = {keep: sum(nest.keep == keep for nest in nests) for keep in KEEP_VALUES}
    assert by_keep["none"] > by_keep["both"] >= 20
    nests.sort(key=lambda nest: left_over(plan, mode, nest, blocks))
    assert left_over(plan, mode, nests[0], blocks) <= 0.3, "none that nearly fills a ring"
    ctx = await simulation(dut, limit=60_000)
    for nest in nests[:8] + rng.sample(nests[8:], 32):
        steps, sizes = steps_of(plan, mode, nest), sizes_of(plan, mode, blocks, rng)
        await check_walk(ctx, dut, steps, sizes, lambda: True)


class Behind:
    """Where a product begins that follows another: rings and numbers of tiles."""

    def __init__(self, plan):
        self.plan = plan
        self.at, self.grids = [0, 0], [0, 0]
        self.tiles = {0: 0, 1: 0}  # by direction, begun so far

    def chunks(self, steps, sizes, north, number):
        """Of the next product, as they must come."""
        starts = []
        for ring, (room, slab, keeps) in enumerate(
            zip(steps.rooms, steps.slabs, steps.keeps, strict=True)
        ):
            start = self.at[ring] if self.at[ring] + slab <= room else 0
            if keeps and self.grids[ring] != slab:
                start = 0
            if start and self.grids[ring] != slab:
                self.grids[ring] = 0  # slabs of other lengths stand below
            else:
                self.grids[ring] = slab
            starts.append(start)
        chunks = list(chunks_of(self.plan, steps, *sizes))
        self.at = in_rings(chunks, steps, starts)
        before = self.tiles[north]
        for chunk in chunks:
            chunk["tile"] = (before + chunk["tile"]) % self.plan.tiling.tiles_in_flight
            chunk["product"] = number
        self.tiles[north] += sum(chunk["first"] for chunk in chunks)
        return chunks


@pytest.mark.parametrize("rows, cols", [(2, 2), (3, 1)])
async def test_products_behind_each_other(rows, cols, rng):
    """Rings go on, but what is kept finds all its room; tiles are numbered by direction."""
    plan = make_plan(make_numerics(), rows, cols)
    dut = design(TileWalk, plan)
    blocks = (9, 3, 8)
    north = {mode: int(plan.use(mode).north) for mode in PRODUCTS}
    assert set(north.values()) == {0, 1}
    ctx = await simulation(dut, limit=60_000)
    behind, begun = Behind(plan), set()
    for number in range(60):
        mode = rng.choice(PRODUCTS)
        limits = plan.nests.of(mode.name.lower())
        nest = drawn_nest(limits, blocks, rng)
        if number % 2:  # often the same loops again
            nest = Nest(keep=rng.choice(("none", "both")))
            nest = nest if limits.problem(nest, blocks) is None else Nest()
        steps = steps_of(plan, mode, nest)
        ctx.set(dut.product.north, north[mode])
        ctx.set(dut.number, number % 2)
        sizes = sizes_of(plan, mode, blocks, rng)
        wanted = behind.chunks(steps, sizes, north[mode], number % 2)
        begun |= {(chunk["stream_base"] > 0, steps.keeps[0]) for chunk in wanted[:1]}
        await check_walk(ctx, dut, steps, sizes, lambda: rng.random() < 0.9, wanted)
    assert begun >= {(False, True), (True, False), (True, True)}


@pytest.mark.parametrize("rests", [False, True])
async def test_cycles(rests, rng):
    """A chunk in every second cycle after ``start``, which is ignored until the last is taken;
    where the walk rests before it, from the next cycle on."""
    plan = make_plan(make_numerics(), 2, 2)
    sizes = (300, 40, 70)
    steps = steps_of(plan, Mode.FORWARD, Nest(keep="stationary", groups=2))
    count = len(list(chunks_of(plan, steps, *sizes)))
    dut = design(TileWalk, plan)
    valid, busy = [], []
    ctx = await simulation(dut)
    describe(ctx, dut, steps, sizes)
    ctx.set(dut.chunks.ready, 1)
    if rests:
        await ctx.tick()
    ctx.set(dut.start, 1)
    for cycle in range(2 * count + 5):
        _, _, *now = await ctx.tick().sample(dut.chunks.valid, dut.busy)
        valid.append(now[0])
        busy.append(now[1])
        ctx.set(dut.start, cycle < 2 * count - 3 and rng.randrange(2))
    chunks = ([0, 1] * count)[rests:]
    assert valid == [0] + chunks + [0] * (4 + rests)
    assert busy == [0] + [1] * len(chunks) + [0] * (4 + rests)
