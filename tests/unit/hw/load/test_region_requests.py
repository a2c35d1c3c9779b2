"""Read requests against the layout of the memory image."""

import pytest

from diastole_hw.load.region_requests import RegionRequests
from diastole_hw.plan.modes import Mode
from diastole_hw.schedule.lengths import longest_lengths
from diastole_hw.schedule.tokens import Region
from diastole_sim.spec.image import GROUP_BLOCKS, ImageLayout, round_up
from diastole_sim.spec.sizes.uses import DY, W
from support.bench import design, simulation
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
    "2x4, even rows": {"block": 4, "data_width": 128, "rows": 2, "cols": 4, "ports": 2},
    "2x4, odd rows": {"block": 4, "data_width": 128, "rows": 2, "cols": 4, "ports": 2},
    "vectors, odd rows": {"block": 8, "rows": 2, "cols": 2, "formats": "mxfp8_e4m3", "ports": 2},
    "planes": {"block": 4, "rows": 2, "cols": 3, "formats": "fast", "widths": (2, 4, 6, 8)},
    "planes, odd rows": {"block": 8, "rows": 2, "cols": 2, "formats": "fast", "ports": 2},
    "planes in vectors": {"block": 4, "data_width": 128, "groupings": "1x8", "formats": "fast"},
}
NUMBERS = ("block", "formats", "groupings", "widths", "fraction")
CLASSES = ("x", "w", "dy")


def machine_plan(name):
    sizes = {"formats": ("bfp3", "bfp5", "bfp2")} | MACHINES[name]
    if name.startswith("planes"):
        sizes["fraction"] = 30
    numerics = make_numerics(**{key: sizes.pop(key) for key in NUMBERS if key in sizes})
    return make_plan(numerics, **sizes)


def port_of(machine):
    """Of several: whose requests they are."""
    return int("odd rows" in machine)


def own_rows(plan, port, rows):
    """Those that a port of several asks for: the first one, if it has none."""
    found = range(rows[0] + port, sum(rows), plan.ports)
    return found or range(rows[0], rows[0] + 1)


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
        granule[cols] = max(granule[cols], plan.group_layouts[cls].granule)
    chunk = {
        axis: (granule[axis] * rng.randrange(24 // granule[axis]), rng.randrange(1, most[axis] + 1))
        for axis in "tlc"
    }
    if fused:  # all of N
        chunk["l"] = (0, chunk["l"][1])
    flags = ("first", "first_t", "first_l", "load_stream", "load_stationary")
    chunk |= {name: rng.random() < 0.6 for name in flags}
    if fused:  # what streams never stays
        chunk["load_stream"] = True
    chunk["stream_base"] = rng.randrange(plan.stream_blocks)
    chunk["stationary_base"] = rng.randrange(plan.stationary_blocks)
    if plan.planar:
        flags = ("load_stream", "load_west")
        chunk |= {name: rng.random() < 0.6 for name in flags}
        chunk |= {name: rng.randrange(max_planes(plan)) for name in PLANES}
    return chunk | {"tile": rng.randrange(4)}


PLANES = ("stream_plane", "stationary_plane")


def max_planes(plan):
    return max(plan.numerics.widths) // 2 if plan.planar else 1


def images(rng, plan, mode, chunks, whole_c):
    """By class, an address and a layout that holds what the chunks want: of a plane, where there
    are several, one behind the other."""
    ends = {axis: max(sum(chunk[axis]) for chunk in chunks) for axis in "tl"} | {"c": whole_c}
    sizes = {axis: plan.block * (end + rng.randrange(9)) for axis, end in ends.items()}
    found = {}
    for cls, axes in operands_of(plan)[mode].items():
        rows, cols = (sizes[axis] for axis in axes)
        bits = 3 if plan.planar else plan.formats[cls].element_bits
        layout = ImageLayout(
            rows=rows, cols=cols, block=plan.block, element_bits=bits,
            vector=plan.tensor_class(cls).grouping.size if plan.grouped(cls) else None,
            header=False, data_width=plan.data_width,
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


def block_requests(base, layout, numbers, cols):
    """Exponents and elements of each group; together where the region has its first block."""
    beat = layout.beat_bytes
    bits = layout.block**2 * layout.element_bits
    granule = next((n for n in (1, 2, 4) if n * bits % (8 * beat) == 0), GROUP_BLOCKS)
    for row in numbers:
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


def due(mode, kind, cls, part, chunk):
    """What stays from earlier chunks is not loaded again."""
    first = chunk["first"]
    if part != BLOCKS:
        return first and (
            mode != Mode.FUSED or cls != DY or (chunk["first_t"] and chunk["first_l"])
        )
    if kind == Region.STATIONARY:
        return chunk["load_stationary"]
    if (mode, cls) == (Mode.FUSED, W):
        return chunk.get("load_west", first)
    return chunk["load_stream"]


def place_of(plan, mode, kind, chunk, shared):
    """First block in the banks, and from slice to slice."""
    if kind == Region.STATIONARY:
        return chunk["stationary_base"], shared["stationary_stride"]
    base = chunk["stream_base"]
    if mode == Mode.FUSED and kind == Region.WEST:  # two halves, from tile to tile
        half = plan.stream_blocks // 2
        base = chunk["tile"] % 2 * half
        parts = {1: 1, 2: 2, 3: 4, 4: 4}[shared["west_planes"]]
        base += half // parts * chunk.get("stream_plane", 0)
    return base, shared["t_step"]


def expected(plan, port, mode, chunk, found, shared):
    """Of a chunk: regions (kind, class, their place), their requests and steps."""
    for kind, (step, cls, part) in regions_of(mode, plan).items():
        if not due(mode, kind, cls, part, chunk):
            continue
        rows, cols = (chunk[axis] for axis in operands_of(plan)[mode][cls])
        if part == BLOCKS:
            base, layout = found[cls]
            number = chunk.get(
                "stationary_plane" if kind == Region.STATIONARY else "stream_plane", 0
            )
            base += number * layout.total_bytes
            requests = block_requests(base, layout, own_rows(plan, port, rows), cols)
            place = place_of(plan, mode, kind, chunk, shared)
            size = (rows[1], cols[1], cols[0] % GROUP_BLOCKS, *place)
        else:
            side = rows if part == ROW_MAX else cols
            if mode == Mode.FUSED and (cls, part) == (DY, ROW_MAX):
                side = (0, shared["c_blocks"])
            requests = maxima_requests(*found[cls], part, *side)
            size = None
        yield (kind, cls, size), list(requests), step


def is_last(regions, number):
    """Whether no later region of the chunk is of the same: of maxima, or of blocks."""
    of_blocks = [region[2] is not None for region, _, _ in regions]
    return of_blocks[number] not in of_blocks[number + 1 :]


def drawn_product(rng, plan, chunks):
    """What all chunks have in common."""
    most = max(sum(chunk["c"]) for chunk in chunks)
    longest = longest_lengths(plan)
    lengths = {
        name: rng.randint(1, min(longest[name], 40)) for name in ("t_step", "stationary_stride")
    }
    west = 1
    if plan.planar:  # enough for what chunks ask of the west
        west = rng.randrange(max(chunk["stream_plane"] for chunk in chunks), max_planes(plan)) + 1
    return lengths | {"c_blocks": most + rng.randrange(9), "west_planes": west}


def set_product(ctx, dut, mode, found, shared):
    ctx.set(dut.product.mode, mode)
    for name, value in shared.items():
        if name != "west_planes":
            ctx.set(dut.product[name], value)
    if dut.plan.planar:
        ctx.set(dut.product.planes[W], shared["west_planes"] - 1)
    for cls, (base, layout) in found.items():
        tensor = dut.product.tensors[cls]
        ctx.set(tensor.base, base)
        ctx.set(tensor.pitch, layout.pitch_bytes)
        if dut.plan.planar:
            ctx.set(dut.product.lengths[cls], layout.total_bytes)
        ctx.set(tensor.row_max, base + layout.row_max_offset)
        if not layout.vector and operands_of(dut.plan)[mode][cls][0] == "c":
            ctx.set(dut.product.to_columns, layout.col_max_offset - layout.row_max_offset)


def chunk_members(chunk):
    members = {name: value for name, value in chunk.items() if name not in ("t", "l", "c")}
    for axis in "tlc":
        members[f"{axis}0"], members[f"{axis}_blocks"] = chunk[axis]
    return members


@pytest.mark.parametrize("machine, mode", CASES, ids=lambda value: getattr(value, "name", value))
@pytest.mark.sampled(6)
async def test_requests_are_those_of_the_image(machine, mode, rng):
    plan, port = machine_plan(machine), port_of(machine)
    dut = design(RegionRequests, plan, port)
    chunks = [random_chunk(rng, plan, mode) for _ in range(7)]
    shared = drawn_product(rng, plan, chunks)
    found = images(rng, plan, mode, chunks, shared["c_blocks"])
    want = [list(expected(plan, port, mode, chunk, found, shared)) for chunk in chunks]
    ctx = await simulation(dut)
    set_product(ctx, dut, mode, found, shared)
    await ctx.tick()
    ctx.set(dut.chunks.valid, 1)
    for chunk, regions in zip(chunks, want, strict=True):
        await take_chunk(ctx, dut, chunk, rng)
        for number, (region, requests, step) in enumerate(regions):
            got, asked = await take_region(ctx, dut, len(requests), rng)
            size = None
            if region[2] is not None:
                size = (got.rows, got.cols, got.offset, got.base, got.stride)
            assert (got.kind, got.cls, size) == region, f"{number=} {chunk}"
            assert got.last == is_last(regions, number), f"{number=} {chunk}"
            assert asked == requests, f"{region}, {chunk}"
            if size is None:
                assert got.beats == requests[0][1]
            check_shared(plan, mode, got, chunk, step)
    ctx.set(dut.chunks.valid, 0)
    for stream in (dut.requests, dut.regions):
        ctx.set(stream.ready, 1)
    for _ in range(10):
        _, _, *valid = await ctx.tick().sample(dut.requests.valid, dut.regions.valid)
        assert valid == [0, 0], "extra output"


def check_shared(plan, mode, got, chunk, step):
    """What every region of a chunk says of it, and the image's axes of what."""
    grouped = [plan.numerics.to_dict()[name]["grouping"].startswith("1x") for name in CLASSES]
    vectors = [plan.block > 1 and each for each in grouped]
    (piece,) = (each for each in pieces(mode, vectors, plan.in_place) if each.step == step)
    assert (got.tile, got.fused) == (chunk["tile"], mode == Mode.FUSED)
    if plan.planar and not piece.side:
        assert (
            got.plane
            == chunk["stationary_plane" if got.kind == Region.STATIONARY else "stream_plane"]
        )
    per_block = plan.block if vectors[got.cls] else 1
    assert got.stream_offset == chunk["t"][0] * per_block % plan.beat_bytes
    of_held = chunk["l"][0] * per_block % plan.beat_bytes
    assert got.stationary_offset == (chunk["c"][0] if mode == Mode.FUSED else of_held)
    if not piece.side:
        assert (got.by_column, got.transposed) == (piece.by_column, piece.transposed)


async def take_chunk(ctx, dut, chunk, rng):
    """Once there is room, the chunk is taken; a cycle in which nothing else happens."""
    ctx.set(dut.chunks.payload, chunk_members(chunk))
    ctx.set(dut.space, 0)
    await ctx.tick()
    for _ in range(50):
        room = rng.randrange(2)
        ctx.set(dut.space, room)
        watched = (dut.chunks.ready, dut.regions.valid, dut.requests.valid)
        _, _, ready, *others = await ctx.tick().sample(*watched)
        assert not (ready and not room), "taken without room"
        assert not (ready and any(others))
        if ready:
            ctx.set(dut.space, rng.randrange(2))  # it is looked at with the chunk only
            return
    raise AssertionError("not taken")


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


def cycles_of(plan, port, mode, chunks, want):
    """When chunks are taken, regions described and requests made, where nothing ever waits."""
    taken, cycle, found, operands = 0, 0, [], operands_of(plan)[mode]
    for chunk, regions in zip(chunks, want, strict=True):
        cycle = max(cycle, taken + 2)  # it has been offered for a cycle
        found.append(("chunk", cycle))
        taken, cycle = cycle, cycle + 1
        for region, requests, _ in regions:
            of_maxima = region[2] is None
            cycle += of_maxima  # their address
            found.append(("region", cycle + (not of_maxima)))
            if of_maxima:
                found += [("request", cycle)] * len(requests)
                cycle += 1
                continue
            rows = own_rows(plan, port, chunk[operands[region[1]][0]])
            cycle += rows[0].bit_length() + 2
            for _ in rows:
                of_row = len(requests) // len(rows)
                found += [("request", cycle + 1 + 2 * k) for k in range(of_row)]
                cycle += 2 * of_row
            cycle += 1
    return found


@pytest.mark.parametrize("machine, mode", CASES, ids=lambda value: getattr(value, "name", value))
@pytest.mark.sampled(2)
async def test_cycles(machine, mode, rng):
    plan, port = machine_plan(machine), port_of(machine)
    dut = design(RegionRequests, plan, port)
    chunks = [random_chunk(rng, plan, mode) for _ in range(3)]
    shared = drawn_product(rng, plan, chunks)
    found = images(rng, plan, mode, chunks, shared["c_blocks"])
    want = [list(expected(plan, port, mode, chunk, found, shared)) for chunk in chunks]
    events = []

    async def watch(ctx):
        moves = (dut.chunks.valid & dut.chunks.ready, dut.regions.valid, dut.requests.valid)
        cycle = 0
        async for _, _, *moved in ctx.tick().sample(*moves):
            names = ("chunk", "region", "request")
            events.extend((name, cycle) for name, move in zip(names, moved, strict=True) if move)
            cycle += 1

    ctx = await simulation(dut, background=(watch,))
    set_product(ctx, dut, mode, found, shared)
    await ctx.tick()
    for stream in (dut.regions, dut.requests):
        ctx.set(stream.ready, 1)
    ctx.set(dut.chunks.valid, 1)
    for chunk in chunks:
        ctx.set(dut.chunks.payload, chunk_members(chunk))
        ctx.set(dut.space, 0)
        await ctx.tick()
        ctx.set(dut.space, 1)
        await ctx.tick().until(dut.chunks.ready)
    ctx.set(dut.chunks.valid, 0)
    await ctx.tick().repeat(300)
    assert events == cycles_of(plan, port, mode, chunks, want)
