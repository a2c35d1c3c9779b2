"""The model against the hardware that it describes: sizes, beats to the last, cycles nearly."""

from itertools import chain

import pytest

from diastole_hw.engine.product_engine import ProductEngine
from diastole_hw.plan.modes import Mode
from diastole_hw.plan.plan import Plan
from diastole_hw.random.draws import Draws
from diastole_sim.perf import Memory, ModelledMachine, estimate
from diastole_sim.perf.draw_delays import line_delay, max_slack, row_delay
from diastole_sim.spec.command import DEFAULT_NEST
from diastole_sim.spec.command_table import NEST_FIELDS
from diastole_sim.spec.image import FloatLayout, image_layouts, round_up
from diastole_sim.spec.nest import KEEP_VALUES, OUTER, Nest
from support.bench import design, put, run
from support.bus import ServiceMemory
from support.nests import blocks_of, drawn_nest
from support.plans import make_numerics, make_plan
from support.sweep import alternating, sweep

FORMATS = (*(f"bfp{m}" for m in range(1, 9)), "fp8_e4m3", "fp8_e5m2", "bf16", "e2m1")
SERVICES = Memory(read_cycles=1, write_gap_cycles=0, response_cycles=1)
ALWAYS_NESTED = ("forward", "dx", "dw")
MODES = {"forward": Mode.FORWARD, "dx": Mode.DX, "dw": Mode.DW, "backward": Mode.FUSED}


def machine_of(plan: Plan, memory: Memory = SERVICES) -> ModelledMachine:
    return ModelledMachine.of(
        plan.numerics, rows=plan.rows, cols=plan.cols,
        data_width=plan.data_width, in_place=plan.in_place, memory=memory,
    )  # fmt: skip


def run_engine(plan: Plan, op: str, m: int, n: int, k: int, nest: Nest = DEFAULT_NEST):
    """(cycles, read beats, write beats, stalls by cause) of a product of zeros."""
    operands = {"m": m, "n": n, "k": k}
    operands |= {"nest_outer": OUTER.index(nest.outer), "nest_keep": KEEP_VALUES.index(nest.keep)}
    operands |= {field: getattr(nest, name) for name, field in NEST_FIELDS.items()}
    at = 0
    sides = {"x": (m, k), "w": (k, n), "dy": (m, n)}
    for name, shape in sides.items():
        chosen = plan.numerics.tensor_class(name)
        images = image_layouts(chosen, shape, block=plan.block, data_width=plan.data_width)
        operands[name] = at
        at += round_up(max(image.total_bytes for image in images), 4096)
    for name, (rows, cols) in {"y": (m, n), "dw": (k, n), "dx": (m, k)}.items():
        operands[name] = at
        result = FloatLayout(rows=rows, cols=cols, data_width=plan.data_width)
        at += round_up(result.total_bytes, 4096)
    memory = ServiceMemory(at, plan.beat_bytes)
    dut = design(ProductEngine, plan)
    seen = {"cycles": 0, "load": 0, "accumulator": 0}

    async def bench(ctx):
        ctx.set(dut.control.mode, MODES[op])
        for name, value in operands.items():
            ctx.set(dut.control.operands[name], value)
        ctx.set(dut.control.start, 1)
        done, stalls = 0, dut.control.stalls
        while not done:
            _, _, done, load, accumulator = await ctx.tick().sample(
                dut.control.done, stalls.load, stalls.accumulator
            )
            ctx.set(dut.control.start, 0)
            seen["cycles"] += 1
            seen["load"] += load
            seen["accumulator"] += accumulator

    async def reads(ctx):
        await memory.read(ctx, dut.read.requests, dut.read.beats)

    async def writes(ctx):
        await memory.write(ctx, dut.requests, dut.beats)

    async def headers(ctx):
        await memory.read(ctx, dut.headers.requests, dut.headers.beats)

    readers = (reads, headers) if plan.significands else (reads,)
    run(dut, bench, background=(*readers, writes), limit=30_000)
    beats = [sum(count for _, count in requests) for requests in (memory.reads, memory.writes)]
    return seen, *beats


MACHINES = {
    "1x1b4": {"block": 4, "data_width": 32},
    "2x2b4": {"block": 4, "rows": 2, "cols": 2},
    "3x2b2": {"block": 2, "rows": 3, "cols": 2, "formats": ("bfp3", "bfp5", "bfp2")},
    "2x1b4": {"block": 4, "rows": 2, "formats": ("bfp8", "bfp8", "bfp8"), "data_width": 32},
    "1x2b1": {"block": 1, "rows": 1, "cols": 2},
    "edge2x1b8": {"block": 8, "rows": 2, "cols": 1, "in_place": False},
    "vectors": {"block": 4, "rows": 2, "cols": 2, "groupings": "1x16"},
    "mxfp8": {"block": 4, "cols": 2, "formats": "mxfp8_e4m3"},
    "nvfp4": {"block": 8, "rows": 1, "cols": 2, "formats": "nvfp4", "data_width": 32},
    "vectors of x": {"block": 8, "cols": 2, "groupings": ("1x16", "8x8", "8x8")},
    "3x2b4, words of two": {"block": 4, "rows": 3, "cols": 2, "data_width": 256},
    "2x4b4, columns of two": {"block": 4, "rows": 2, "cols": 4, "data_width": 256},
    "4x5b4, words of four": {"block": 4, "rows": 4, "cols": 5, "data_width": 512},
}
SIZES = {
    "1x1b4": [("forward", 130, 9, 11), ("backward", 13, 30, 22)],
    "2x2b4": [("dx", 5, 70, 67), ("backward", 33, 57, 19)],
    "3x2b2": [("forward", 1, 1, 1), ("dw", 31, 17, 40)],
    "2x1b4": [("dw", 40, 12, 35)],  # vectors of 36 bits through a bus of 32, turned
    "1x2b1": [("backward", 9, 13, 18)],
    "edge2x1b8": [("dx", 40, 35, 33)],
    "vectors": [("forward", 40, 35, 70), ("dw", 70, 21, 35)],
    "mxfp8": [("forward", 33, 40, 66), ("dx", 35, 70, 20)],
    "nvfp4": [("forward", 33, 21, 70), ("dw", 40, 33, 17)],
    "vectors of x": [("backward", 40, 24, 16)],
    "3x2b4, words of two": [("forward", 70, 29, 9), ("dx", 70, 5, 29), ("backward", 13, 30, 22)],
    "4x5b4, words of four": [("dx", 60, 6, 83), ("backward", 41, 13, 33)],
    "2x4b4, columns of two": [("backward", 38, 21, 50)],
}
EXACTLY = (
    "3x2b2", "2x1b4", "1x2b1", "edge2x1b8", "vectors of x",
)  # fmt: skip
"""Of these the cycles of a whole product in ``make test``; nests are run on all."""
ALWAYS = [(name, *SIZES[name][0]) for name in EXACTLY]


CASES = [(name, *case) for name, cases in SIZES.items() for case in cases]


def plan_of(name):
    sizes = dict(MACHINES[name])
    numerics = make_numerics(
        block=sizes.pop("block"),
        formats=sizes.pop("formats", "bfp4"),
        groupings=sizes.pop("groupings", None),
    )
    return make_plan(numerics, **sizes)


def check(plan, op, sizes, share, nest=DEFAULT_NEST):
    """Beats are equal, cycles to four and a share."""
    seen, reads, writes = run_engine(plan, op, *sizes, nest)
    guess = estimate(machine_of(plan), op, *sizes, nest)
    assert guess.fused == (op == "backward")
    assert (guess.read_beats, guess.write_beats) == (reads, writes)
    text = f"{guess.cycles} cycles for {seen['cycles']}: {guess.idle}, {seen}, {nest}"
    assert abs(guess.cycles - seen["cycles"]) <= share * seen["cycles"] + 4, text


@pytest.mark.parametrize(
    "name, op, m, n, k",
    [case if case in ALWAYS else sweep(*case) for case in CASES],
)
@pytest.mark.sampled(8)
def test_beats_and_cycles_of_the_engine(name, op, m, n, k):
    plan = plan_of(name)
    # Small blocks fill the queues between units.
    check(plan, op, (m, n, k), 0.003 if plan.block >= 4 else 0.015)


@pytest.mark.parametrize("name, op", alternating(MACHINES, {op: (op,) for op in ALWAYS_NESTED}))
@pytest.mark.sampled(8)
def test_beats_and_cycles_of_nests(name, op, rng):
    """Tiles and chunks of any length, on shapes that they cut unevenly."""
    plan = plan_of(name)
    sizes = [rng.randrange(1, 28) for _ in range(3)]
    nest = drawn_nest(plan.nests.of(op), blocks_of(op, sizes, plan.block), rng)
    check(plan, op, sizes, 0.01, nest)


def drawn_at(lanes, places):
    """In which cycle the draws of each of the words are there: nothing waits but for hashes."""
    dut = design(Draws, lanes=lanes, random_bits=4, copies=1, rows=32)
    cycles = []

    async def words(ctx):
        await put(ctx, dut.i, places)

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        cycle = 0
        while len(cycles) < len(places):
            if (await ctx.tick().sample(dut.o.valid))[-1]:
                cycles.append(cycle)
            cycle += 1

    run(dut, bench, background=(words,), limit=20_000)
    return cycles


def block_row(block, lanes, begin, pitch, cols):
    """Words of a row of blocks that begins with the element ``begin``, block by block."""
    return [
        {"index": begin + row * pitch + left + col, "row": row, "goes_on": left + col > 0}
        for left in range(0, cols, block)
        for row in range(block)
        for col in range(0, block, lanes)
    ]


@pytest.mark.parametrize("tiles", [1, 2])
@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16])
@pytest.mark.sampled(2)
def test_rows_of_draws(lanes, tiles, rng):
    """A row of blocks behind others without a pause, of one tile after another or of two side by
    side, and rows one by one: to the cycle."""
    for _ in range(4):
        block = rng.choice([size for size in (2, 4, 8) if size >= lanes] or [lanes])
        index, pitch = rng.randrange(99), rng.randrange(99, 120)
        columns = [block * rng.randint(1, 5) for _ in range(tiles)]
        cols = columns[0]
        lines = [
            (index + line * block * pitch + sum(columns[:tile]), columns[tile])
            for line in range(3)
            for tile in range(tiles)
        ]
        *before, (last, _) = lines[: 2 * tiles + 1]
        words = [
            block_row(block, lanes, begin, pitch, size) for begin, size in (*before, (last, cols))
        ]
        size = len(words[-1])
        cycles = drawn_at(lanes, [*chain.from_iterable(words)])
        shape = lanes, block, pitch, (last, cols)
        delay = line_delay(*shape, max_slack(lanes), tuple(before))
        assert delay == cycles[-1] - cycles[-size - 1] - size, (shape, before)
        rows = rng.randint(1, 9)
        by_rows = [(row, col) for row in range(rows) for col in range(0, cols, lanes)]
        cycles = drawn_at(
            lanes,
            [
                {"index": index + row * pitch + col, "row": row, "goes_on": col > 0}
                for row, col in by_rows
            ],
        )
        aligned = drawn_at(lanes, [{"index": 0, "row": 0, "goes_on": 0}])
        delay = row_delay(lanes, index, pitch, rows, cols)
        assert delay == cycles[-1] - aligned[0] - len(by_rows) + 1, (
            lanes,
            index,
            pitch,
            rows,
            cols,
        )
