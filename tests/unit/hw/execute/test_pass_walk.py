"""Passes against nested loops."""

import pytest

from diastole_hw.execute.pass_walk import PassWalk
from diastole_hw.plan.modes import Mode
from diastole_sim.spec.sizes.uses import W
from support.bench import design, put, simulation
from support.plans import make_numerics, make_plan

MACHINES = {
    "1x1": {"rows": 1, "cols": 1},
    "2x3": {"rows": 2, "cols": 3},
    "3x2": {"rows": 3, "cols": 2},
    "edge2x1": {"rows": 2, "cols": 1, "in_place": False},
    "vectors3x2": {"rows": 3, "cols": 2},
    "floats2x3": {"rows": 2, "cols": 3},
    "vectors3x2 floats": {"rows": 3, "cols": 2},
    "planes2x3": {"rows": 2, "cols": 3},
    "planes1x1": {"rows": 1, "cols": 1},
}
FUSING = ("1x1", "2x3", "3x2", "floats2x3", "planes2x3", "planes1x1")
CHUNKS = {"floats2x3": 24, "vectors3x2 floats": 12}
"""Elements of a chunk, where sums are floats: 2 slices to the east and 3 to the north, or one."""
WIDTHS = (2, 4, 6, 8)
CASES = [
    (machine, mode)
    for machine in MACHINES
    for mode in Mode
    if mode != Mode.FUSED or machine in FUSING
]


def machine_plan(name, block=4):
    groupings = f"1x{2 * block}" if name.startswith("vectors") else None
    options = {"groupings": groupings}
    if name.startswith("planes"):
        options = {"formats": "fast", "widths": WIDTHS, "fraction": 30}
    if name in CHUNKS:
        options["accumulator"] = {"kind": "float", "mantissa": 9, "chunk": CHUNKS[name]}
    return make_plan(make_numerics(block=block, **options), **MACHINES[name])


def goes_north(plan, mode):
    return mode != Mode.FUSED and plan.use(mode).north


def sides(plan, mode):
    """Blocks of a slice: of the contraction, and of the lanes."""
    return (plan.rows, plan.cols) if goes_north(plan, mode) else (plan.cols, plan.rows)


def random_lengths(rng, plan, mode):
    """T tile and stride of held slices, in blocks, and whether a tile takes a whole memory of
    sums, as one that fits in half of it may; they need not be those of a nest."""
    if mode == Mode.FUSED:
        lengths = {"t_step": plan.fused_tile_blocks, "stationary_stride": rng.randrange(1, 1000)}
        words = plan.fused_slices_n * plan.fused_tile_words, plan.fused_tile_words
    else:
        t_step = rng.randrange(1, plan.tile_blocks + 1)
        stride = rng.randrange(1, plan.groups * plan.rows + 1)
        lengths = {"t_step": t_step, "stationary_stride": stride}
        words = (plan.groups * t_step * plan.block,) * 2
    for name, count in zip(("east_whole", "north_whole"), words, strict=True):
        lengths[name] = 2 * count > plan.tile_sums or rng.random() < 0.3
    return lengths


def random_planes(rng, chunk):
    """What a chunk says of its pair of planes; of some directions it may have nothing."""
    first, last_slice = chunk["first"], chunk["last"]
    said = {
        "stream_plane": 0 if first else rng.randrange(4),
        "stationary_plane": 0 if first else rng.randrange(4),
        "opens": first or rng.random() < 0.4,
        "last_slice": last_slice or rng.random() < 0.3,
        "load_west": rng.random() < 0.4,
    }
    said["east"] = said["opens"] or rng.random() < 0.6
    said["north"] = said["opens"] or not said["east"] or rng.random() < 0.6
    said["done_east"] = said["east"] and said["last_slice"] and rng.random() < 0.6
    said["done_north"] = said["north"] and rng.random() < 0.5
    return said


def random_chunks(rng, plan, mode, lengths, tiles):
    """The chunks of some output tiles, with lengths that need not be those of a walk, and blocks
    that stand anywhere."""
    side_c, side_l = sides(plan, mode)
    for tile in range(tiles):
        count = rng.randrange(1, 4)
        lanes = rng.randrange(1, plan.groups * side_l + 1)
        t_count = rng.randrange(1, lengths["t_step"] * plan.block + 1)
        for index in range(count):
            north = goes_north(plan, mode)
            most = side_c if mode == Mode.FUSED else plan.chunk(north=north)
            chunk = {
                "t_count": t_count,
                "l_blocks": lanes,
                "c_blocks": rng.randrange(1, most + 1),
                "first": index == 0,
                "last": index == count - 1,
                "tile": tile % plan.tiling.tiles_in_flight,
            }
            flags = ("load_stream", "load_stationary", "free_stream", "free_stationary")
            chunk |= {name: rng.random() < 0.6 for name in flags}
            slices = -(-chunk["c_blocks"] // side_c)
            groups = -(-lanes // side_l)
            streamed = (slices - 1) * lengths["t_step"] + -(-t_count // plan.block)
            apart, beside = (groups, slices) if north else (slices, groups)
            stationary = (apart - 1) * lengths["stationary_stride"] + beside * plan.rows
            chunk["stream_base"] = rng.randrange(max(plan.stream_blocks - streamed, 0) + 1)
            chunk["stationary_base"] = rng.randrange(
                max(plan.stationary_blocks - stationary, 0) + 1
            )
            if plan.planar:
                chunk |= random_planes(rng, chunk)
            yield chunk


class Walk:
    """The passes of a run of chunks; which accumulators are at work is counted here."""

    def __init__(self, plan, mode, lengths, west_planes=1):
        self.plan, self.lengths, self.west_planes = plan, lengths, west_planes
        self.fused = mode == Mode.FUSED
        self.north = goes_north(plan, mode)
        self.side_c, self.side_l = sides(plan, mode)
        self.east = self.to_north = 0  # tiles of sums
        self.slices = 0  # of the contraction of a tile, that are done

    def passes(self, chunk):
        """Each with what it takes: banks to the east and to the north, blocks and maxima."""
        side_c, side_l = self.side_c, self.side_l
        for slice_, c in enumerate(range(0, chunk["c_blocks"], side_c)):
            for group, lane in enumerate(range(0, chunk["l_blocks"], side_l)):
                c_valid = min(side_c, chunk["c_blocks"] - c)
                l_valid = min(side_l, chunk["l_blocks"] - lane)
                last_c = c + side_c >= chunk["c_blocks"]
                last_l = lane + side_l >= chunk["l_blocks"]
                first_c = chunk["first"] and slice_ == 0
                ends = chunk["last"] and last_c and last_l
                # Where there are no planes, chunks have one of each: the first, which is the last.
                east, north, opened = (chunk.get(n, True) for n in ("east", "north", "opens"))
                done_east = chunk.get("done_east", chunk["last"]) and last_c and last_l
                want = {
                    "t_count": chunk["t_count"],
                    "rows_valid": c_valid if self.north else l_valid,
                    "cols_valid": l_valid if self.north else c_valid,
                    "use_east": not self.north and east,
                    "use_north": self.north or (self.fused and north),
                    "frees": {
                        "stream": last_c and last_l and chunk["free_stream"],
                        "stationary": last_c and last_l and chunk["free_stationary"],
                        "west": ends and self.fused,
                    },
                    "done_east": done_east and not self.north,
                    "done_north": ends and self.north,
                }
                if self.fused:
                    want["done_north"] = last_l and chunk.get("done_north", True)
                if want["use_east"]:
                    want["fresh_east"] = first_c
                if want["use_north"]:
                    want["fresh_north"] = group == 0 and opened if self.fused else first_c
                if self.plan.floats:
                    want |= self._of_chunks(group, last_l, chunk["last"] and last_c)
                self.slices += last_l
                if ends:
                    self.slices = 0
                opens = first_c and group == 0
                begins = slice_ == group == 0
                takes = (
                    opens and not self.north,
                    group == 0 and opened if self.fused else opens and self.north,
                    begins
                    and any(chunk.get(f"load_{what}") for what in ("stream", "stationary", "west")),
                    begins and chunk["first"],
                )
                yield want | self._addresses(chunk, slice_, group), takes
                self.to_north += want["done_north"]
                self.east += want["done_east"]

    def _of_chunks(self, group, last_l, last):
        """Where sums of chunks begin and end that are added as floats, and the first of them."""
        plan, want = self.plan, {}
        elements = plan.numerics.accumulator.chunk
        for name, used, side in (
            ("east", not self.north, plan.cols), ("north", self.north or self.fused, plan.rows)
        ):  # fmt: skip
            if not used:
                continue
            in_chunk = elements // (side * plan.block)
            over_lanes = self.fused and name == "north"
            number, at_end = (group, last_l) if over_lanes else (self.slices, last)
            want[f"fresh_{name}"] = number < in_chunk
            want[f"begins_{name}"] = number % in_chunk == 0
            want[f"ends_{name}"] = number % in_chunk == in_chunk - 1 or at_end
        return want

    def _addresses(self, chunk, slice_, group):
        """Lanes to the east and the contraction to the north stand side by side in a held bank; the
        other one's slices are a stride apart (:class:`diastole_hw.load.block_targets`)."""
        plan, lengths = self.plan, self.lengths
        apart, beside = (group, slice_) if self.north else (slice_, group)
        if self.fused:  # a chunk is a slice
            apart = 0
        stationary = (
            chunk["stationary_base"] + apart * lengths["stationary_stride"] + beside * plan.rows
        )
        streamed = (chunk["stream_base"] + slice_ * lengths["t_step"]) * plan.block
        found = {"stationary_addr": stationary * plan.block}
        beside = group * lengths["t_step"] * plan.block
        if self.fused:
            half = plan.stream_words // 2
            west = chunk["tile"] % 2 * half  # W alternates from tile to tile
            parts = {1: 1, 2: 2, 3: 4, 4: 4}[self.west_planes]
            west += half // parts * chunk.get("stream_plane", 0)
            return found | {
                "south_addr": streamed,
                "west_addr": west + beside,
                "east_addr": self._sum("east", beside),
                "north_addr": self._sum("north", 0),
            }
        side, to = ("west_addr", "north") if self.north else ("south_addr", "east")
        return found | {side: streamed, f"{to}_addr": self._sum(to, beside)}

    def _sum(self, to, word):
        """Where a word of the tile at hand stands: in both memories in turn, and in one half of
        them after the other unless it takes them whole."""
        number = self.to_north if to == "north" else self.east
        memory, half = number % 2, number // 2 % 2 * (not self.lengths[f"{to}_whole"])
        return memory * self.plan.tile_sums + half * self.plan.tile_sums // 2 + word


def plain(view):
    """A struct as a dictionary."""
    return {name: view[name] for name in view.shape().members}


@pytest.mark.parametrize("machine, mode", CASES, ids=lambda value: getattr(value, "name", value))
@pytest.mark.sampled(6)
async def test_passes_are_the_slices_and_groups_of_the_chunks(machine, mode, rng):
    plan = machine_plan(machine)
    dut = design(PassWalk, plan)
    lengths = random_lengths(rng, plan, mode)
    chunks = list(random_chunks(rng, plan, mode, lengths, tiles=4))
    west_planes = 1
    if plan.planar:
        chunks += random_chunks(rng, plan, mode, lengths, tiles=8)
        west_planes = rng.randrange(1, 5)
        for chunk in chunks:  # beyond those of W nothing is read from the west
            chunk["stream_plane"] %= west_planes

    async def drive(ctx):
        ctx.set(dut.north, goes_north(plan, mode))
        ctx.set(dut.fused, mode == Mode.FUSED)
        for name, value in lengths.items():
            ctx.set(getattr(dut, name), value)
        if plan.planar:
            ctx.set(dut.planes[W], west_planes - 1)
        await put(ctx, dut.chunks, chunks, lambda: rng.random() < 0.7)

    ctx = await simulation(dut, drive)
    walk = Walk(plan, mode, lengths, west_planes)
    for chunk in chunks:
        for want, takes in walk.passes(chunk):
            got = await next_pass(ctx, dut, rng, takes)
            found = {name: got[name] for name in want} | {"frees": plain(got.frees)}
            assert found == want, f"{chunk=}"
    await ctx.tick()
    assert not ctx.get(dut.passes.valid), "an extra pass"


async def next_pass(ctx, dut, rng, takes):
    """Take one pass; banks are free, chunks loaded and the taker ready at random."""
    banks = (dut.banks.east, dut.banks.north)
    loads = (dut.loaded.blocks, dut.loaded.maxima)
    sources = [*(unit.free for unit in banks), *(unit.available for unit in loads)]
    while True:
        there = [rng.random() < 0.6 for _ in sources]
        ready = rng.random() < 0.6
        for source, value in zip(sources, there, strict=True):
            ctx.set(source, value)
        ctx.set(dut.passes.ready, ready)
        _, _, offered, valid, *waits, got, tile, given, east, north, blocks, maxima = (
            await ctx.tick().sample(
                dut.chunks.valid, dut.passes.valid, dut.wait_accumulator, dut.wait_load,
                dut.passes.payload, dut.tile, dut.chunks.payload,
                *(unit.take for unit in (*banks, *loads)),
            )
        )  # fmt: skip
        has = [value or not take for value, take in zip(there, takes, strict=True)]
        free, loaded = all(has[:2]), all(has[2:])
        assert valid == (offered and free and loaded)
        assert waits == [offered and loaded and not free, offered and not loaded]
        moved = valid and ready
        assert [east, north, blocks, maxima] == [moved and take for take in takes]
        if moved:
            shown, given = plain(tile), plain(given)
            if "last_slice" in given:  # what a drain asks: no matter which planes
                given["last"] = given["last_slice"]
            assert shown == given, "not the chunk whose pass is shown"
            return got
