"""What each step of a chunk asks for, against the equations of the products."""

import pytest

from diastole_hw.plan.modes import Mode
from diastole_hw.schedule.regions import STEPS, RegionSteps
from diastole_hw.schedule.tokens import Region
from support.bench import simulation
from support.plans import make_numerics, make_plan
from support.uses import pieces

MACHINES = {
    "squares": {},
    "edge": {"in_place": False},
    "vectors": {"groupings": ("1x8", "1x32", "1x4")},
    "vectors of X": {"groupings": ("1x8", None, None)},
    "vectors of W": {"groupings": (None, "1x8", None)},
    "vectors of dY": {"groupings": (None, None, "1x8")},
    "squares of X alone": {"groupings": (None, "1x8", "1x8")},
    "vectors of X, edge": {"groupings": ("1x8", None, None), "in_place": False},
    "planes": {"formats": "fast", "widths": (2, 4, 6, 8), "fraction": 30},
    "planes in vectors": {"formats": "fast", "groupings": ("1x8",) * 3, "fraction": 22},
}
FUSED = (
    "squares",
    "vectors of X",
    "vectors of W",
    "planes",
)  # dY in squares, an array that transposes
CASES = [(name, mode) for name in MACHINES for mode in Mode if mode != Mode.FUSED or name in FUSED]


def make(name, rows=3, cols=2):
    options = dict(MACHINES[name])
    in_place = options.pop("in_place", True)
    return make_plan(make_numerics(block=4, **options), rows, cols, in_place, data_width=32)


def pieces_of(name, mode):
    groupings = MACHINES[name].get("groupings", (None,) * 3)
    return pieces(mode, [each is not None for each in groupings], "in_place" not in MACHINES[name])


def is_due(piece, chunk):
    """In a machine of planes a chunk says itself whether it loads one from the west."""
    if "load_west" in chunk and piece.due == "first" and not piece.side:
        return chunk["load_west"]
    return {
        "stationary": chunk["load_stationary"],
        "stream": chunk["load_stream"],
        "first": chunk["first"],
        "once": chunk["first"] and chunk["first_t"] and chunk["first_l"],
    }[piece.due]


def asked(piece, chunk, mode, c_blocks):
    """The outputs of a step that asks for it."""
    spans = {axis: (chunk[f"{axis}0"], chunk[f"{axis}_blocks"]) for axis in "tlc"}
    found = {"kind": piece.kind}
    if piece.side:
        first, count = spans[piece.side]
        if mode == Mode.FUSED and piece.side == "c":  # of all of dY
            first, count = 0, c_blocks
        of_columns = piece.side == piece.cols
        found |= {"entry0": first, "rows": count, "maxima_of_columns": of_columns}
        return found | {"col0": 0, "cols": 0}
    (row0, rows), (col0, cols) = spans[piece.rows], spans[piece.cols]
    found |= {"row0": row0, "rows": rows, "col0": col0, "cols": cols}
    if "stationary_plane" in chunk:
        found["plane"] = chunk[
            "stationary_plane" if piece.kind == Region.STATIONARY else "stream_plane"
        ]
    return found | {"by_column": piece.by_column, "transposed": piece.transposed}


def random_chunk(rng, plan, mode):
    fused = mode == Mode.FUSED
    most = {
        "t": plan.fused_tile_blocks if fused else plan.tile_blocks,
        "l": plan.fused_blocks_n if fused else plan.groups * min(plan.rows, plan.cols),
        "c": plan.cols if fused else min(plan.chunk(north=False), plan.chunk(north=True)),
    }
    flags = ("first", "first_t", "first_l", "load_stream", "load_stationary")
    chunk = {name: rng.random() < 0.5 for name in flags}
    for axis, blocks in most.items():
        chunk[f"{axis}0"] = rng.choice([0, rng.randrange(2**24 // plan.block)])
        chunk[f"{axis}_blocks"] = rng.randrange(1, blocks + 1)
    if fused:  # all of N; what streams never stays
        chunk |= {"l0": 0, "load_stream": True}
    if plan.planar:  # planes of what streams are there for all of what is held
        chunk |= {name: rng.randrange(4) for name in ("stream_plane", "stationary_plane")}
        chunk |= {name: rng.random() < 0.5 for name in ("load_stream", "load_west")}
    return chunk


@pytest.mark.parametrize("name, mode", CASES, ids=lambda value: getattr(value, "name", value))
@pytest.mark.sampled(3)
async def test_steps_are_those_of_the_equation(name, mode, rng):
    plan = make(name)
    dut = RegionSteps(plan)
    by_step = {piece.step: piece for piece in pieces_of(name, mode)}
    seen = set()
    ctx = await simulation(dut)
    ctx.set(dut.mode, mode)
    for _ in range(40):
        chunk = random_chunk(rng, plan, mode)
        c_blocks = rng.randrange(1, plan.fused_blocks_m + 1) if mode == Mode.FUSED else 7
        ctx.set(dut.chunk, chunk)
        ctx.set(dut.offered, chunk)
        ctx.set(dut.c_blocks, c_blocks)
        for step in rng.sample(range(STEPS), STEPS):
            ctx.set(dut.step, step)
            await ctx.delay(1e-9)
            piece = by_step.get(step)
            wanted = piece is not None and is_due(piece, chunk)
            assert ctx.get(dut.needed) >> step & 1 == wanted, f"step {step} of {chunk}"
            seen.add((step, wanted))
            if wanted:
                assert ctx.get(dut.tensors)[step] == piece.cls
                want = asked(piece, chunk, mode, c_blocks)
                alike = (p for p in by_step.values() if bool(p.side) == bool(piece.side))
                later = (each for each in alike if each.step > step and is_due(each, chunk))
                want["last"] = not any(later)
                got = {output: ctx.get(getattr(dut, output)) for output in want}
                assert got == want, f"step {step} of {chunk}"
    always = {6} if mode == Mode.FUSED and not plan.planar else set()
    for step in range(STEPS):
        assert ((step, True) in seen) == (step in by_step), step
        assert ((step, False) in seen) == (step not in always), step


def test_fused_where_it_should_be():
    """So that no case above is left out unseen."""
    assert tuple(name for name in MACHINES if make(name).fused) == FUSED
