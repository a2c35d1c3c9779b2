"""Passes against nested loops."""

import pytest

from diastole_hw.execute.passes import PassWalk
from diastole_hw.plan.uses import Mode
from support.bench import design, put, run
from support.plans import make_numerics, make_plan

MACHINES = {
    "1x1": {"rows": 1, "cols": 1},
    "2x3": {"rows": 2, "cols": 3},
    "3x2": {"rows": 3, "cols": 2},
    "edge2x1": {"rows": 2, "cols": 1, "in_place": False},
    "vectors3x2": {"rows": 3, "cols": 2},
}
CASES = [
    (machine, mode)
    for machine in MACHINES
    for mode in Mode
    if mode != Mode.FUSED or machine not in ("edge2x1", "vectors3x2")  # no such use
]


def machine_plan(name, block=4):
    groupings = f"1x{2 * block}" if name.startswith("vectors") else None
    return make_plan(make_numerics(block=block, groupings=groupings), **MACHINES[name])


def goes_north(plan, mode):
    return mode != Mode.FUSED and plan.use(mode).north


def random_chunks(rng, plan, mode, tiles):
    """The chunks of some output tiles, with lengths that need not be those of a walk."""
    north = goes_north(plan, mode)
    side_c, side_l = (plan.rows, plan.cols) if north else (plan.cols, plan.rows)
    for _ in range(tiles):
        count = rng.randrange(1, 4)
        lanes = rng.randrange(1, plan.groups * side_l + 1)
        t_count = rng.randrange(1, plan.tile_words + 1)
        for index in range(count):
            most = side_c if mode == Mode.FUSED else plan.chunk(north=side_c == plan.rows)
            yield {
                "t_count": t_count,
                "l_blocks": lanes,
                "c_blocks": rng.randrange(1, most + 1),
                "index": index,
                "first": index == 0,
                "last": index == count - 1,
            }


class Walk:
    """The passes of a run of chunks; which halves are at work is counted here."""

    def __init__(self, plan, mode):
        self.plan, self.mode = plan, mode
        self.fused = mode == Mode.FUSED
        self.north = goes_north(plan, mode)
        self.half = self.tile = self.east = self.bank_north = 0

    def passes(self, chunk):
        plan = self.plan
        side_c, side_l = (plan.rows, plan.cols) if self.north else (plan.cols, plan.rows)
        for slice_, c in enumerate(range(0, chunk["c_blocks"], side_c)):
            for group, lane in enumerate(range(0, chunk["l_blocks"], side_l)):
                c_valid = min(side_c, chunk["c_blocks"] - c)
                l_valid = min(side_l, chunk["l_blocks"] - lane)
                last_c = c + side_c >= chunk["c_blocks"]
                last_l = lane + side_l >= chunk["l_blocks"]
                first_c = chunk["first"] and slice_ == 0
                ends = chunk["last"] and last_c and last_l
                want = {
                    "t_count": chunk["t_count"],
                    "rows_valid": c_valid if self.north else l_valid,
                    "cols_valid": l_valid if self.north else c_valid,
                    "use_east": not self.north,
                    "use_north": self.north or self.fused,
                    "release": last_c and last_l,
                    "done_east": ends and not self.north,
                    "done_north": last_l if self.fused else ends and self.north,
                }
                if want["use_east"]:
                    want["fresh_east"] = first_c
                if want["use_north"]:
                    want["fresh_north"] = group == 0 if self.fused else first_c
                opens = first_c and group == 0
                takes = (opens and not self.north, group == 0 if self.fused else opens & self.north)
                yield want | self._addresses(chunk, slice_, group), takes
                self.bank_north ^= want["done_north"]
                self.east ^= want["done_east"]
        self.half ^= 1
        self.tile ^= chunk["last"]

    def _addresses(self, chunk, slice_, group):
        plan = self.plan
        words = plan.rows * plan.block  # of a pass, in each held bank
        if self.fused:
            k_tile = group * plan.fused_tile_words
            return {
                "held_addr": chunk["index"] * plan.fused_held_stride + group * words,
                "south_addr": self.half * plan.half_words,
                "west_addr": self.tile * plan.half_words + k_tile,
                "east_addr": self.east * plan.half_words + k_tile,
                "north_addr": self.bank_north * plan.half_words,
            }
        row, col = (group, slice_) if self.north else (slice_, group)
        held = self.half * plan.held_half_words + row * plan.held_stride + col * words
        streamed = self.half * plan.half_words + slice_ * plan.tile_words
        sums = (self.bank_north if self.north else self.east) * plan.half_words
        side, port = ("west_addr", "north_addr") if self.north else ("south_addr", "east_addr")
        return {"held_addr": held, side: streamed, port: sums + group * plan.tile_words}


@pytest.mark.parametrize("machine, mode", CASES, ids=lambda value: getattr(value, "name", value))
def test_passes_are_the_slices_and_groups_of_the_chunks(machine, mode, rng):
    plan = machine_plan(machine)
    dut = design(PassWalk, plan)
    chunks = list(random_chunks(rng, plan, mode, tiles=3))

    async def drive(ctx):
        ctx.set(dut.north, goes_north(plan, mode))
        ctx.set(dut.fused, mode == Mode.FUSED)
        await put(ctx, dut.chunks, chunks, lambda: rng.random() < 0.7)

    async def check(ctx):
        walk = Walk(plan, mode)
        for chunk in chunks:
            for want, takes in walk.passes(chunk):
                got = await next_pass(ctx, dut, rng, takes)
                assert {name: got[name] for name in want} == want, f"{chunk=}"
        await ctx.tick()
        assert not ctx.get(dut.passes.valid), "an extra pass"

    run(dut, drive, check)


async def next_pass(ctx, dut, rng, takes):
    """Take one pass; banks are free and the taker is ready at random."""
    while True:
        free = [rng.random() < 0.6 for _ in range(2)]
        ready = rng.random() < 0.6
        ctx.set(dut.banks.east.free, free[0])
        ctx.set(dut.banks.north.free, free[1])
        ctx.set(dut.passes.ready, ready)
        _, _, offered, valid, waits, got, tile, given, *taken = await ctx.tick().sample(
            dut.chunks.valid, dut.passes.valid, dut.wait_accumulator, dut.passes.payload,
            dut.tile, dut.chunks.payload, dut.banks.east.take, dut.banks.north.take,
        )  # fmt: skip
        may = all(f or not t for f, t in zip(free, takes, strict=True))
        assert (valid, waits) == (offered and may, offered and not may)
        moved = valid and ready
        assert taken == [moved and t for t in takes]
        if moved:
            assert tile == given, "not the chunk whose pass is shown"
            return got
