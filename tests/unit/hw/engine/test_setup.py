"""The set-up of a product against the layouts of the memory image."""

from itertools import product

import pytest

from diastole_hw.engine.setup import Setup
from diastole_hw.plan.modes import Mode
from diastole_hw.schedule.lengths import longest_lengths
from diastole_hw.schedule.tokens import LENGTH
from diastole_sim.spec.image import EXTENT_BITS, FloatLayout, ImageLayout
from support.bench import design, pulse, simulation
from support.plans import make_numerics, make_plan, with_vector

SHAPES = {"x": "mk", "w": "kn", "dy": "mn"}  # rows and columns, by class
# Streamed dimension, lanes and contraction; the result to the east, and the one to the north.
USES = {
    Mode.FORWARD: ("mnk", "y", None),
    Mode.DX: ("mkn", None, "dx"),
    Mode.DW: ("knm", "dw", None),
    Mode.FUSED: ("knm", "dw", "dx"),
}
# Which image of a tensor in vector groups a product reads: of the tensor or of its transpose.
TRANSPOSED = {
    Mode.FORWARD: {"x": False, "w": True},
    Mode.DX: {"w": False, "dy": False},
    Mode.DW: {"x": True, "dy": True},
    Mode.FUSED: {"x": True, "w": False, "dy": False},
}
RESULTS = {"y": "mn", "dw": "kn", "dx": "mk"}
FORMATS = ("bfp3", "bfp5", "bfp2")
FAST = {"formats": "fast", "widths": (2, 4, 6, 8), "fraction": 30}
MACHINES = {
    "textbook": ({"block": 1, "formats": FORMATS}, {"data_width": 32}),
    "edge": ({"block": 4, "formats": FORMATS}, {"in_place": False}),
    "squares": ({"block": 8, "formats": FORMATS}, {"data_width": 128}),
    "large": ({"block": 32, "formats": FORMATS}, {"data_width": 512}),
    "vectors": ({"block": 4, "formats": "mxfp8_e4m3"}, {"data_width": 128}),
    "x in vectors": ({"block": 8, "groupings": ("1x16", "8x8", "8x8")}, {}),
    "w in squares": ({"block": 8, "formats": "nvfp4"}, {"data_width": 32}),
    "planes": (FAST | {"block": 4}, {"data_width": 128}),
    "planes in vectors": (FAST | {"block": 8, "groupings": "1x16"}, {}),
    "planes of x in vectors": (FAST | {"block": 4, "groupings": ("1x8", "4x4", "8x8")}, {}),
}
MOST = 2**EXTENT_BITS - 1


def random_operands(rng, plan, large):
    bits = EXTENT_BITS if large else 7
    operands = {name: rng.randrange(1, 2 ** rng.randrange(2, bits + 1)) for name in "mnk"}
    places = {name: rng.randrange(2**30) * plan.beat_bytes for name in (*SHAPES, *RESULTS)}
    return operands | places | dict.fromkeys(("nest_t", "nest_groups", "nest_chunk"), 0)


@pytest.mark.parametrize("rows, cols", [(1, 16), (1, 64), (64, 1), (64, 64)])
def test_lengths_of_large_machines_fit(rows, cols):
    """Some have memories of more blocks than a length can count; no chunk takes so many."""
    plan = make_plan(make_numerics(block=1, formats="bfp4"), rows, cols, data_width=512)
    longest = longest_lengths(plan)
    assert longest["t_step"] == plan.tile_blocks
    assert longest["stream_slab"] <= plan.stream_blocks
    assert longest["stationary_slab"] <= plan.stationary_blocks
    assert max(longest.values()) < 2**LENGTH.width


def is_whole(plan, words):
    """A tile with so many words takes more than a quarter of the sums behind a port."""
    return words * 4 > plan.sum_words


def check_nest(ctx, plan, product, operands, mode):
    """Lengths in blocks; what is not given is the plan's, and all of the fused pass."""
    if mode == Mode.FUSED:  # dY stays, as one panel of slices of M
        of_slice = plan.fused_slices_n * plan.rows
        want = {
            "t_step": plan.fused_tile_blocks, "l_step": plan.fused_blocks_n, "c_step": plan.cols,
            "lanes_outermost": 0, "keep_stream": 0, "keep_stationary": 1,
            "stream_slab": plan.fused_tile_blocks, "stationary_slab": of_slice,
            "east_whole": is_whole(plan, plan.fused_slices_n * plan.fused_tile_words),
            "north_whole": is_whole(plan, plan.fused_tile_words),
        }  # fmt: skip
        assert plan.fused_slices_m * of_slice <= plan.stationary_blocks, "all of dY fits"
    else:
        north = plan.use(mode).north
        l_side, c_side = (plan.cols, plan.rows) if north else (plan.rows, plan.cols)
        groups = operands["nest_groups"] or plan.groups
        t_step = operands["nest_t"] or plan.tile_blocks
        chunk = operands["nest_chunk"] or plan.chunk(north=north)
        slices = chunk // c_side
        want = {
            "t_step": t_step, "l_step": groups * l_side, "c_step": chunk,
            "lanes_outermost": operands["nest_outer"],
            "keep_stream": operands["nest_keep"] & 1, "keep_stationary": operands["nest_keep"] >> 1,
            "stream_slab": slices * t_step, "stationary_slab": slices * groups * plan.rows,
            # One bank has all lanes of a slice of rows, or all of the contraction of one of lanes.
            "stationary_stride": slices * plan.rows if north else groups * plan.rows,
            "north_whole" if north else "east_whole": is_whole(plan, groups * t_step * plan.block),
        }  # fmt: skip
    assert {name: ctx.get(product[name]) for name in want} == want


def random_nest(rng, plan, mode):
    """Lengths that a product takes, some of them left to the machine."""
    limits = plan.nests.of(mode.name.lower())
    if limits is None:
        return {"nest_outer": 0, "nest_keep": 0}
    lengths = {
        "nest_t": limits.t_blocks, "nest_groups": limits.groups, "nest_chunk": limits.chunk,
    }  # fmt: skip
    drawn = {name: rng.choice([0, *accepted]) for name, accepted in lengths.items()}
    return drawn | {"nest_outer": rng.randrange(2), "nest_keep": rng.randrange(4)}


async def set_up(ctx, dut, mode, operands):
    """Start, wait, and say how many cycles it took, and the results that were said. Both are looked
    at with the start: then they are something else."""
    ctx.set(dut.mode, mode)
    for name, value in operands.items():
        if name != "planes":
            ctx.set(dut.operands[name], value)
    for cls, count in enumerate(operands.get("planes", ())):
        ctx.set(dut.operands.planes[cls], count - 1)
    ctx.set(dut.start, 1)
    _, _, results = await ctx.tick().sample(dut.results)
    ctx.set(dut.start, 0)
    ctx.set(dut.mode, Mode.DX if mode != Mode.DX else Mode.DW)
    ctx.set(dut.operands, {})
    cycles = 1
    while not ctx.get(dut.done):
        await ctx.tick()
        cycles += 1
    return cycles, results


def tallest(plan, mode, blocks):
    """Rows of blocks of the tallest image, those that the mode does not read included."""
    transposed = {
        name
        for name, transposed in TRANSPOSED[mode].items()
        if transposed and plan.numerics.tensor_class(name).two_copies
    }
    return max(blocks[sides[name in transposed]] for name, sides in SHAPES.items())


def check_tensors(ctx, plan, product, operands, mode):
    for cls, (name, (rows, cols)) in enumerate(SHAPES.items()):
        if name not in TRANSPOSED[mode]:
            continue
        chosen = plan.numerics.tensor_class(name)
        if chosen.two_copies and TRANSPOSED[mode][name]:
            rows, cols = cols, rows
        layout = ImageLayout(
            rows=operands[rows],
            cols=operands[cols],
            block=plan.block,
            element_bits=3 if plan.planar else chosen.format.element_bits,
            vector=chosen.grouping.size if chosen.two_copies else None,
            header=chosen.format.name == "nvfp4",
            data_width=plan.data_width,
        )
        base = operands[name]
        if base + layout.total_bytes > 2**40:
            continue  # not inside memory; refused before
        tensor = product.tensors[cls]
        got = {field: ctx.get(getattr(tensor, field)) for field in ("base", "pitch")}
        got["row_max"] = ctx.get(tensor.row_max)
        want = {
            "base": base + layout.group_offset(0, 0),
            "pitch": layout.pitch_bytes,
            "row_max": base + layout.row_max_offset,
        }
        if not chosen.two_copies and rows == USES[mode][0][2]:  # else they are not read
            got["to_columns"] = ctx.get(product.to_columns)
            want["to_columns"] = layout.col_max_offset - layout.row_max_offset
        if plan.planar:  # from one plane to the next: an image
            got |= {"planes": ctx.get(product.planes[cls]), "length": ctx.get(product.lengths[cls])}
            want |= {"planes": operands["planes"][cls] - 1, "length": layout.total_bytes}
        assert got == want, f"{name} of {operands[rows]} x {operands[cols]}"


def check_result(plan, got, name, operands):
    rows, cols = (operands[side] for side in RESULTS[name])
    pitch = FloatLayout(rows=rows, cols=cols, data_width=plan.data_width).pitch_bytes
    want = {"base": operands[name], "pitch": pitch, "rows": rows, "cols": cols}
    values = {field: got[field] for field in want}
    assert values == want, f"{name}, {rows} x {cols}"


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("mode", list(Mode), ids=lambda mode: mode.name)
@pytest.mark.sampled(4)
async def test_addresses_and_sizes(machine, mode, rng):
    numbers, sizes = MACHINES[machine]
    plan = make_plan(make_numerics(**numbers), rows=2, **sizes)
    if mode == Mode.FUSED and not plan.fused:
        return  # no such use
    dut = design(Setup, plan)
    ctx = await simulation(dut)
    for number in range(20):
        others = random_operands(rng, plan, large=False) | {"nest_outer": 1, "nest_keep": 3}
        await set_up(ctx, dut, Mode.DX, others)  # leaves north, an order, and what is kept
        operands = random_operands(rng, plan, large=number % 2)
        if number == 0:
            operands |= {"m": MOST, "n": 1, "k": 1}
        operands |= random_nest(rng, plan, mode)
        if plan.planar:
            operands["planes"] = [rng.randrange(1, 5) for _ in range(3)]
        cycles, results = await set_up(ctx, dut, mode, operands)
        blocks = {name: -(-operands[name] // plan.block) for name in "mnk"}
        assert cycles == tallest(plan, mode, blocks).bit_length() + 2
        product = dut.product
        assert ctx.get(product.mode) == mode
        check_tensors(ctx, plan, product, operands, mode)
        (t, lanes, contraction), east, north = USES[mode]
        if north == "dx" and machine == "edge":
            east, north = "dx", None
        held = {Mode.FORWARD: "w", Mode.DW: "dy"}.get(mode)
        if held and plan.numerics.tensor_class(held).two_copies:
            east, north = None, east
        assert ctx.get(product.north) == (mode != Mode.FUSED and north is not None)
        sizes = (product.t_size, product.t_blocks, product.l_blocks, product.c_blocks)
        want = (operands[t], blocks[t], blocks[lanes], blocks[contraction])
        assert tuple(ctx.get(size) for size in sizes) == want, operands
        check_nest(ctx, plan, product, operands, mode)
        for got, name in ((results.east, east), (results.north, north)):
            if name is not None:
                check_result(plan, got, name, operands)


@pytest.mark.parametrize("machine", ["squares", "planes"])
async def test_a_fused_pass_after_a_product(machine, rng):
    """It has an order of its own, whatever that of the product before was."""
    await test_addresses_and_sizes(machine, Mode.FUSED, rng)


@pytest.mark.parametrize("in_place", [True, False])
async def test_fits_says_whether_dy_can_stay(in_place):
    plan = make_plan(make_numerics(block=4), rows=3, cols=2, in_place=in_place)
    dut = design(Setup, plan)
    m, n = (blocks * plan.block for blocks in (plan.fused_blocks_m, plan.fused_blocks_n))
    ctx = await simulation(dut)
    for over_m, over_n in ((0, 0), (1, 0), (0, 1), (1 - m, 1 - n), (MOST - m, 0)):
        ctx.set(dut.operands.m, m + over_m)
        ctx.set(dut.operands.n, n + over_n)
        ctx.set(dut.operands.k, MOST)
        await ctx.tick()
        assert ctx.get(dut.fits) == (in_place and over_m <= 0 and over_n <= 0)


async def test_fits_with_planes():
    """All planes of dY stay, whole slices of M each; half a bank has those of W, whose parts are 1,
    2, 4 and 4 for so many planes."""
    plan = make_plan(make_numerics(**FAST | {"block": 4}), rows=3, cols=2)
    dut = design(Setup, plan)
    parts = {1: 1, 2: 2, 3: 4, 4: 4}
    ctx = await simulation(dut)
    ctx.set(dut.operands.k, MOST)
    for of_w, of_dy in product(parts, parts):
        m = plan.fused_slices_m // of_dy * plan.cols * plan.block
        n = plan.fused_slices_n * plan.rows // parts[of_w] * plan.block
        # Blocks of a slice of the lanes must have their place in a part of the bank.
        slices = -(-n // (plan.block * plan.rows))
        room = plan.stream_blocks // 2 // parts[of_w]
        assert slices * plan.fused_tile_blocks <= room
        assert (
            of_dy * (plan.fused_slices_m // of_dy) * plan.fused_slices_n <= plan.stationary_blocks
        )
        for cls, count in enumerate((4, of_w, of_dy)):
            ctx.set(dut.operands.planes[cls], count - 1)
        for over_m, over_n in ((0, 0), (1, 0), (0, 1), (1 - m, 1 - n)):
            ctx.set(dut.operands.m, m + over_m)
            ctx.set(dut.operands.n, n + over_n)
            await ctx.tick()
            assert ctx.get(dut.fits) == (over_m <= 0 and over_n <= 0), (of_w, of_dy)


@pytest.mark.parametrize("chain", [0, 1])
@pytest.mark.parametrize("mode", [Mode.FORWARD, Mode.DX, Mode.DW])
async def test_what_a_chain_asks_of_is_known_early(mode, chain, rng):
    """2 cycles after the start, while addresses are still being computed."""
    numbers, shape = MACHINES["squares"]
    plan = with_vector(make_plan(make_numerics(**numbers), rows=2, cols=3, **shape))
    dut = design(Setup, plan)
    operands = random_operands(rng, plan, large=False) | random_nest(rng, plan, mode)
    ctx = await simulation(dut)
    for name, value in (operands | {"chain": chain}).items():
        ctx.set(dut.operands[name], value)
    ctx.set(dut.mode, mode)
    await pulse(ctx, dut.start)
    ctx.set(dut.operands, {})
    await ctx.tick()
    assert not ctx.get(dut.done)
    product = dut.product
    names = ("chain", "t_step", "l_step", "lanes_outermost", "north")
    got = {name: ctx.get(product[name]) for name in names}
    side = plan.cols if plan.use(mode).north else plan.rows
    assert got == {
        "chain": chain,
        "t_step": operands["nest_t"] or plan.tile_blocks,
        "l_step": (operands["nest_groups"] or plan.groups) * side,
        "lanes_outermost": operands["nest_outer"],
        "north": plan.use(mode).north,
    }
