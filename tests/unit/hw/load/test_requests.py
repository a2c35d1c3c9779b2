"""Read requests against the layout of the memory image."""

import pytest

from diastole_hw.load.requests import RegionRequests
from diastole_hw.plan.uses import DY, Mode, W
from diastole_hw.schedule.regions import STEPS
from diastole_sim.spec.image import GROUP_BLOCKS, ImageLayout, round_up
from support.bench import design, put, run
from support.plans import make_numerics, make_plan
from support.regions import BLOCKS, ROW_MAX, operands_of, regions_of
from support.uses import pieces

MACHINES = {
    "1x1": {"block": 2, "data_width": 32},
    "2x2": {"block": 8, "data_width": 64, "rows": 2, "cols": 2},
    "3x2": {"block": 4, "data_width": 256, "rows": 3, "cols": 2},
    "edge2x1": {"block": 1, "data_width": 32, "rows": 2, "in_place": False},
    "wide": {"block": 2, "data_width": 512},
    "vectors": {"block": 8, "data_width": 64, "rows": 3, "cols": 2, "formats": "mxfp8_e4m3"},
    "short vectors": {"block": 4, "data_width": 256, "groupings": "1x8"},
    "x in vectors": {"block": 8, "rows": 2, "cols": 3, "groupings": ("1x16", "8x8", "8x8")},
}
NUMBERS = ("block", "formats", "groupings")
CLASSES = ("x", "w", "dy")


def machine_plan(name):
    sizes = {"formats": ("bfp3", "bfp5", "bfp2")} | MACHINES[name]
    numerics = make_numerics(**{key: sizes.pop(key) for key in NUMBERS if key in sizes})
    return make_plan(numerics, **sizes)


CASES = [
    (machine, mode)
    for machine in MACHINES
    for mode in Mode
    if mode != Mode.FUSED or machine_plan(machine).fused
]


def random_chunk(rng, plan, mode):
    """First block and number of blocks by dimension; columns start on a granule, as in a walk."""
    fused = mode == Mode.FUSED
    most = {
        "t": plan.fused_tile_blocks if fused else plan.tile_blocks,
        "l": min(plan.fused_blocks_n if fused else plan.groups * min(plan.rows, plan.cols), 20),
        "c": plan.cols if fused else min(plan.chunk(north=True), plan.chunk(north=False)),
    }
    granule = {"t": 1, "l": 1, "c": 1}
    for cls, (_, cols) in operands_of(plan)[mode].items():
        granule[cols] = max(granule[cols], plan.granule(cls))
    chunk = {
        axis: (granule[axis] * rng.randrange(24 // granule[axis]), rng.randrange(1, most[axis] + 1))
        for axis in "tlc"
    }
    if fused:  # all of N
        chunk["l"] = (0, chunk["l"][1])
    index = rng.randrange(plan.fused_slices_m) if fused else 0
    chunk |= {"index": index, "tile": rng.randrange(4)}
    return chunk | {"first": rng.random() < 0.6, "first_tile": rng.random() < 0.6}


def images(rng, plan, mode, chunks, whole_c):
    """By class, an address and a layout that holds what the chunks want."""
    ends = {axis: max(sum(chunk[axis]) for chunk in chunks) for axis in "tl"} | {"c": whole_c}
    found = {}
    for cls, axes in operands_of(plan)[mode].items():
        rows, cols = (plan.block * (ends[axis] + rng.randrange(9)) for axis in axes)
        layout = ImageLayout(
            rows=rows, cols=cols, block=plan.block, element_bits=plan.formats[cls].element_bits,
            vector=plan.chosen(cls).grouping.size if plan.grouped(cls) else None, header=False,
            data_width=plan.data_width,
        )  # fmt: skip
        found[cls] = rng.randrange(2**20) * plan.beat_bytes, layout
    return found


def maxima_requests(base, layout, part, first, count):
    if layout.vector:  # a maximum per element
        first, count = first * layout.block, count * layout.block
    start = base + (layout.row_max_offset if part == ROW_MAX else layout.col_max_offset)
    beat = layout.beat_bytes
    begin, end = first // beat * beat, round_up(first + count, beat)
    yield start + begin, (end - begin) // beat


def block_requests(base, layout, rows, cols):
    """Exponents and elements of each group; together where the region has its first block."""
    beat = layout.beat_bytes
    bits = layout.block**2 * layout.element_bits
    granule = next((n for n in (1, 2, 4) if n * bits % (8 * beat) == 0), GROUP_BLOCKS)
    for row in range(rows[0], sum(rows)):
        col = cols[0]
        while col < sum(cols):
            group, place = divmod(col, GROUP_BLOCKS)
            end = min(sum(cols) - group * GROUP_BLOCKS, GROUP_BLOCKS)
            start = base + layout.group_offset(row, group)
            elements = start + layout.exponent_bytes
            first = place * bits // 8
            last = round_up(round_up(end, granule) * bits, 8 * beat) // 8
            if place == 0:
                yield start, (layout.exponent_bytes + last) // beat
            else:
                yield start, layout.exponent_bytes // beat
                yield elements + first, (last - first) // beat
            col = (group + 1) * GROUP_BLOCKS


def due(mode, cls, part, chunk):
    """What stays from earlier chunks is not loaded again."""
    first, first_tile = chunk["first"], chunk["first_tile"]
    if mode != Mode.FUSED:
        return part == BLOCKS or first
    if part != BLOCKS:
        return first and (cls != DY or first_tile)
    return {W: first, DY: first_tile}.get(cls, True)


def expected(plan, mode, chunk, found, whole_c):
    """Of a chunk: regions (kind, class, rows, columns, offset, last), their requests and steps."""
    for kind, (step, cls, part) in regions_of(mode, plan).items():
        if not due(mode, cls, part, chunk):
            continue
        rows, cols = (chunk[axis] for axis in operands_of(plan)[mode][cls])
        if part == BLOCKS:
            requests = block_requests(*found[cls], rows, cols)
            size = (rows[1], cols[1], cols[0] % GROUP_BLOCKS)
        else:
            side = rows if part == ROW_MAX else cols
            if mode == Mode.FUSED and (cls, part) == (DY, ROW_MAX):
                side = (0, whole_c)
            requests = maxima_requests(*found[cls], part, *side)
            size = None
        yield (kind, cls, size, step == STEPS - 1), list(requests), step


def set_product(ctx, dut, mode, found, whole_c):
    ctx.set(dut.product.mode, mode)
    ctx.set(dut.product.c_blocks, whole_c)
    for cls, (base, layout) in found.items():
        tensor = dut.product.tensors[cls]
        ctx.set(tensor.base, base)
        ctx.set(tensor.pitch, layout.pitch_bytes)
        ctx.set(tensor.row_max, base + layout.row_max_offset)
        ctx.set(tensor.col_max, base + layout.col_max_offset)


def chunk_members(chunk):
    members = {name: chunk[name] for name in ("first", "first_tile", "index", "tile")}
    for axis in "tlc":
        members[f"{axis}0"], members[f"{axis}_blocks"] = chunk[axis]
    return members


@pytest.mark.parametrize("machine, mode", CASES, ids=lambda value: getattr(value, "name", value))
def test_requests_are_those_of_the_image(machine, mode, rng):
    plan = machine_plan(machine)
    dut = design(RegionRequests, plan)
    chunks = [random_chunk(rng, plan, mode) for _ in range(7)]
    whole_c = max(sum(chunk["c"]) for chunk in chunks) + rng.randrange(9)
    found = images(rng, plan, mode, chunks, whole_c)
    want = [list(expected(plan, mode, chunk, found, whole_c)) for chunk in chunks]
    halves = []

    async def bench(ctx):
        set_product(ctx, dut, mode, found, whole_c)
        ctx.set(dut.chunks_in.valid, 1)
        for number, (chunk, regions) in enumerate(zip(chunks, want, strict=True)):
            await take_chunk(ctx, dut, chunk, rng)
            for region, requests, step in regions:
                got, asked = await take_region(ctx, dut, len(requests), rng)
                size = (got.rows, got.cols, got.offset) if region[2] is not None else None
                assert (got.kind, got.cls, size, got.last) == region, f"{number=} {chunk}"
                assert asked == requests, f"{region}, {chunk}"
                if size is None:
                    assert got.beats == requests[0][1]
                check_shared(plan, mode, got, chunk, step)
                halves.append((number, got.half, got.west_half))
        ctx.set(dut.chunks_in.valid, 0)
        for stream in (dut.requests, dut.regions):
            ctx.set(stream.ready, 1)
        for _ in range(10):
            _, _, *valid = await ctx.tick().sample(dut.requests.valid, dut.regions.valid)
            assert valid == [0, 0], "extra output"

    run(dut, bench)
    assert halves == list(halves_of(mode, chunks, want))


def check_shared(plan, mode, got, chunk, step):
    """What every region of a chunk says of it, and the image's axes of what."""
    grouped = [plan.numerics.to_dict()[name]["grouping"].startswith("1x") for name in CLASSES]
    vectors = [plan.block > 1 and each for each in grouped]
    (piece,) = (each for each in pieces(mode, vectors, plan.in_place) if each.step == step)
    assert (got.tile, got.index, got.fused) == (chunk["tile"], chunk["index"], mode == Mode.FUSED)
    if mode == Mode.FUSED:
        assert got.c0 == chunk["c"][0]
    per_block = plan.block if vectors[got.cls] else 1
    assert got.stream_offset == chunk["t"][0] * per_block % plan.beat_bytes
    assert got.held_offset == chunk["l"][0] * per_block % plan.beat_bytes
    if not piece.side:
        assert (got.by_column, got.turned) == (piece.by_column, piece.turned)


def halves_of(mode, chunks, want):
    """Halves alternate from chunk to chunk; in the fused pass the west's from tile to tile."""
    tiles = -1
    for number, (chunk, regions) in enumerate(zip(chunks, want, strict=True)):
        tiles += chunk["first"]
        west = tiles if mode == Mode.FUSED else number
        yield from [(number, number % 2, west % 2)] * len(regions)


async def take_chunk(ctx, dut, chunk, rng):
    """Once there is a credit and room, the chunk goes on and the credit is taken."""
    ctx.set(dut.chunks_in.payload, chunk_members(chunk))
    while True:
        credit, room = rng.randrange(2), rng.randrange(2)
        ctx.set(dut.credit, credit)
        ctx.set(dut.chunks_out.ready, room)
        _, _, ready, take, valid, came, went = await ctx.tick().sample(
            dut.chunks_in.ready, dut.take, dut.chunks_out.valid,
            dut.chunks_in.payload, dut.chunks_out.payload,
        )  # fmt: skip
        if take:
            assert (credit, room, ready, valid) == (1, 1, 1, 1)
            assert came == went
            ctx.set(dut.credit, 0)
            ctx.set(dut.chunks_out.ready, 0)
            return
        assert not (valid and room)
        assert not (ready and room)


async def take_region(ctx, dut, count, rng):
    """One region, then its requests; maxima come in the same cycle."""
    region, asked = None, []
    while region is None or len(asked) < count:
        ready = [rng.random() < 0.7 for _ in range(2)]
        ctx.set(dut.regions.ready, ready[0] and region is None)
        ctx.set(dut.requests.ready, ready[1])
        _, _, announced, described, asks, request = await ctx.tick().sample(
            dut.regions.valid & dut.regions.ready, dut.regions.payload,
            dut.requests.valid & dut.requests.ready, dut.requests.payload,
        )  # fmt: skip
        if announced:
            region = described
        if asks:
            assert region is not None, "asked before the region is known"
            asked.append((request.addr, request.beats))
    ctx.set(dut.regions.ready, 0)
    ctx.set(dut.requests.ready, 0)
    return region, asked


def cycles_of(operands, chunks, want):
    """When chunks are taken, regions described and requests made, where nothing ever waits."""
    cycle, found = 0, []
    for chunk, regions in zip(chunks, want, strict=True):
        found.append(("chunk", cycle))
        cycle += 1
        by_step = {step: (region, requests) for region, requests, step in regions}
        for step in range(STEPS):
            region, requests = by_step.get(step, (None, []))
            if region is not None:
                found.append(("region", cycle))
            if region is None or region[2] is None:
                found += [("request", cycle)] * len(requests)
                cycle += 1
                continue
            rows = region[2][0]
            first_row = chunk[operands[region[1]][0]][0]
            cycle += first_row.bit_length() + 2
            for _ in range(rows):
                of_row = len(requests) // rows
                found += [("request", cycle + 1 + k) for k in range(of_row)]
                cycle += 1 + of_row
            cycle += 1
    return found


@pytest.mark.parametrize("machine, mode", CASES, ids=lambda value: getattr(value, "name", value))
def test_cycles(machine, mode, rng):
    plan = machine_plan(machine)
    dut = design(RegionRequests, plan)
    chunks = [random_chunk(rng, plan, mode) for _ in range(3)]
    whole_c = max(sum(chunk["c"]) for chunk in chunks)
    found = images(rng, plan, mode, chunks, whole_c)
    want = [list(expected(plan, mode, chunk, found, whole_c)) for chunk in chunks]
    events = []

    async def drive(ctx):
        set_product(ctx, dut, mode, found, whole_c)
        for stream in (dut.chunks_out, dut.regions, dut.requests):
            ctx.set(stream.ready, 1)
        ctx.set(dut.credit, 1)
        await put(ctx, dut.chunks_in, [chunk_members(chunk) for chunk in chunks])
        await ctx.tick().repeat(300)

    async def watch(ctx):
        moves = (dut.take, dut.regions.valid, dut.requests.valid)
        cycle = 0
        async for _, _, *moved in ctx.tick().sample(*moves):
            names = ("chunk", "region", "request")
            events.extend((name, cycle) for name, move in zip(names, moved, strict=True) if move)
            cycle += 1

    run(dut, drive, background=(watch,))
    assert events == cycles_of(operands_of(plan)[mode], chunks, want)
