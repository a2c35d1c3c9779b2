"""Whole products on the engine, operands already converted, against the golden model."""

from itertools import product

import numpy as np
import pytest

from diastole_hw.engine.product_engine import ProductEngine
from diastole_hw.plan.modes import Mode
from diastole_hw.ports import of_ports
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.command_table import NEST_FIELDS
from diastole_sim.spec.image import FloatLayout
from diastole_sim.spec.nest import KEEP_VALUES, OUTER, Nest
from support.bench import design, pulse, run
from support.bus import ServiceMemory
from support.engines import GUARD, READ, asked_of, image_of, random_nest, tensors
from support.plans import make_numerics, make_plan
from support.sweep import sweep


def run_products(
    plan, numerics, modes, sizes, seed, stall=lambda: False, limit=60_000, nest=lambda mode: Nest(),
    together=1,
):  # fmt: skip
    """Products of the same operands on one engine, so many of them ``together``: given as soon as
    the engine takes them. Then all are judged: the results' bytes, that no other byte has changed,
    and, where they are one by one, whether each was exact."""
    m, n, k = sizes
    golden = NumpyDevice(numerics, seed=1)
    given = tensors(m, n, k, seed, special=numerics.special == "poison")
    x, w, dy = (
        golden.convert(given[name], cls, tag=tag)
        for tag, (name, cls) in enumerate((("X", "x"), ("W", "w"), ("dY", "dy")))
    )
    memory = ServiceMemory(1 << 20, plan.beat_bytes, stall)
    memory.bytes[:] = b"\xa5" * len(memory.bytes)
    at = 4096
    sources = {}
    for name, q in (("x", x), ("w", w), ("dy", dy)):
        for copy in range(2):
            image = image_of(q, copy, plan.data_width).tobytes()
            memory.bytes[at : at + len(image)] = image
            sources[name, copy] = at
            at += len(image) + GUARD
    places = []  # of the results of each of those together
    for _ in range(together):
        results = {}
        for name, rows, cols in (("y", m, n), ("dw", k, n), ("dx", m, k)):
            layout = FloatLayout(rows=rows, cols=cols, data_width=plan.data_width)
            results[name] = (at, layout)
            at += layout.total_bytes + GUARD
        places.append(results)
    blank = bytes(memory.bytes)
    dut = design(ProductEngine, plan)

    def given_to(mode, results):
        given = {"m": m, "n": n, "k": k} | {name: at for name, (at, _) in results.items()}
        given |= {name: sources[name, copy] for name, copy in READ[mode].items()}
        loops = nest(mode)
        for name, field in NEST_FIELDS.items():
            given[field] = getattr(loops, name)
        return given | {
            "nest_outer": OUTER.index(loops.outer),
            "nest_keep": KEEP_VALUES.index(loops.keep),
        }

    async def start(ctx, mode, results, command):
        control = dut.control
        while not ctx.get(control.ready):
            await ctx.tick()
        ctx.set(control.mode, mode)
        ctx.set(control.command, command)
        for name, value in given_to(mode, results).items():
            ctx.set(control.operands[name], value)
        await pulse(ctx, control.start)
        ctx.set(control.operands, {})  # they are looked at once

    async def ends(ctx, commands):
        control, seen = dut.control, {"inexact": 0, "overflow": 0}
        for command in commands:
            done = False
            while not done:
                _, _, done, owner_tag, inexact, overflow = await ctx.tick().sample(
                    control.done, control.done_command, control.inexact, control.overflow
                )
                seen["inexact"] |= inexact
                seen["overflow"] |= overflow
            assert owner_tag == command, "another command's product"
        return seen

    def judge(expected, mode, results):
        """The result; its bytes are taken over into ``expected``."""
        exact = True
        for name, result in asked_of(golden, mode, x, w, dy).items():
            start, layout = results[name]
            place = slice(start, start + layout.total_bytes)
            got = layout.unpack(np.frombuffer(bytes(memory.bytes[place]), np.uint8))
            want = getattr(result, name)
            same = got.view(np.uint32) == want.view(np.uint32)
            assert same.all(), (
                f"{mode.name}, {name}: {(~same).sum()} of {same.size} differ, first at "
                f"{np.argwhere(~same)[0]}: {got[~same][0]} for {want[~same][0]}"
            )
            expected[place] = memory.bytes[place]
            exact = result.exact
        return exact

    batches = [modes[first : first + together] for first in range(0, len(modes), together)]
    begun, ended = [], []

    async def starts(ctx):
        for number, batch in enumerate(batches):
            memory.bytes[:] = blank
            for each, (mode, results) in enumerate(zip(batch, places, strict=False)):
                await start(ctx, mode, results, each & 1)
            begun.append(number)
            while number not in ended:
                await ctx.tick()

    async def bench(ctx):
        for number, batch in enumerate(batches):
            seen = await ends(ctx, [each & 1 for each in range(len(batch))])
            assert number in begun
            await ctx.tick()
            assert not ctx.get(dut.busy)
            expected = bytearray(blank)
            exact = [judge(expected, *each) for each in zip(batch, places, strict=False)]
            assert memory.bytes == expected, f"{batch}: memory outside the results changed"
            assert seen["inexact"] == (not all(exact)), batch
            ended.append(number)

    def served(read, requests, beats):
        async def reads(ctx):
            await memory.read(ctx, read.requests, read.beats)

        async def writes(ctx):
            await memory.write(ctx, requests, beats)

        return reads, writes

    async def headers(ctx):
        await memory.read(ctx, dut.headers.requests, dut.headers.beats)

    names = ("read", "requests", "beats")
    ports = zip(*(of_ports(dut, name, plan.ports) for name in names), strict=True)
    background = [each for port in ports for each in served(*port)]
    background += [headers] if plan.significands else []
    run(dut, starts, bench, background=background, limit=limit)


MACHINES = {
    "1x1": {"rows": 1, "cols": 1},
    "2x2": {"rows": 2, "cols": 2},
    "3x2": {"rows": 3, "cols": 2},
    "edge2x1": {"rows": 2, "cols": 1, "in_place": False},
}


ALL = [Mode.FORWARD, Mode.DX, Mode.DW, Mode.FUSED]


def modes_of(plan):
    """All that the machine has; a fused pass needs a west side and squares."""
    return ALL if plan.fused else ALL[:3]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.sampled(4)
def test_less_than_a_tile(machine):
    numerics = make_numerics(block=2)
    plan = make_plan(numerics, **MACHINES[machine])
    assert plan.fused == (machine != "edge2x1")
    run_products(plan, numerics, modes_of(plan), (3, 5, 7), seed=3)


@pytest.mark.parametrize("mode", [sweep(Mode.DX), Mode.FUSED, sweep(Mode.FORWARD), sweep(Mode.DW)])
def test_several_tiles_and_chunks(mode):
    """On 3x2 cells of side 2: lanes beyond one tile, a contraction of two chunks, two k tiles."""
    numerics = make_numerics(block=2)
    plan = make_plan(numerics, **MACHINES["3x2"])
    sizes = {Mode.FORWARD: (9, 51, 35), Mode.DX: (9, 51, 35), Mode.DW: (35, 51, 9)}
    run_products(plan, numerics, [mode], sizes.get(mode, (13, 9, 35)), seed=4)


TWO_PORTS = {
    "words of two beats": ({"block": 2}, {"rows": 2, "cols": 4, "data_width": 64}),
    "odd slabs": ({"block": 4, "formats": "bfp7"}, {"rows": 2, "cols": 2, "data_width": 128}),
    "vectors": ({"block": 4, "formats": "mxfp8_e4m3"}, {"rows": 2, "cols": 2}),
    "nvfp4": ({"block": 4, "formats": "nvfp4", "fraction": 4}, {"rows": 2, "cols": 2}),
}


@pytest.mark.parametrize(
    "machine, sizes",
    [
        *(
            (machine, (3, 9, 2)) if machine == "odd slabs" else sweep(machine, (3, 9, 2))
            for machine in TWO_PORTS
        ),
        sweep("odd slabs", (9, 13, 10)),
        *(sweep(machine, (13, 21, 18)) for machine in TWO_PORTS),
    ],
)
def test_two_ports(machine, sizes, rng):
    """In nests of all kinds, T tiles of one block and slabs of odd lengths among them; the units'
    invariants hold, one of which is that no part of a bank is written by both."""
    numbers, shape = TWO_PORTS[machine]
    numerics = make_numerics(**numbers)
    plan = make_plan(numerics, **shape, ports=2)
    for stalls in (0, 0.4):
        run_products(
            plan, numerics, modes_of(plan), sizes, seed=7, stall=lambda p=stalls: rng.random() < p,
            nest=lambda mode: Nest() if mode == Mode.FUSED else random_nest(plan, mode, sizes, rng),
        )  # fmt: skip


@pytest.mark.parametrize("ports, count", [(1, 1), sweep(1, 2), sweep(2, 2)])
def test_chunks_that_load_nothing_are_asked_for(ports, count):
    """Where all is kept on chip, and memory answers at once, the array comes to a chunk before the
    load unit does; what is ahead of the array must stay counted."""
    numbers, shape = TWO_PORTS["odd slabs"]
    numerics = make_numerics(**numbers)
    nest = Nest(t_blocks=2, groups=1, chunk=2, outer="l", keep="both")
    sizes = (13, 21, 18)
    plan = make_plan(numerics, **shape, ports=ports)
    run_products(plan, numerics, [Mode.DX] * count, sizes, seed=7, nest=lambda mode: nest)


NESTED = {
    "squares": ({"block": 2}, {"rows": 3, "cols": 2}),
    "edge": ({"block": 2}, {"rows": 2, "cols": 1, "in_place": False}),
    "beats of several blocks": ({"block": 4}, {"rows": 2, "cols": 2, "data_width": 256}),
    "vectors": ({"block": 4, "groupings": "1x16"}, {"rows": 2, "cols": 1}),
    "nvfp4": ({"block": 4, "formats": "nvfp4", "fraction": 4}, {"cols": 2, "data_width": 32}),
}


@pytest.mark.parametrize(
    "machine, sizes",
    [
        *(sweep(*case) for case in product(NESTED, [(13, 21, 18), (35, 9, 40), (9, 50, 5)])),
        ("edge", (5, 9, 7)),
    ],
)
def test_nests_change_nothing(machine, sizes, rng):
    """Other tiles and chunks than the machine's own, one after the other, the last one stalled."""
    numbers, shape = NESTED[machine]
    numerics = make_numerics(**numbers)
    plan = make_plan(numerics, **shape)
    modes = [Mode.FORWARD, Mode.DX, Mode.DW]
    for stalls in (0, 0.3):
        run_products(
            plan, numerics, modes, sizes, seed=9, stall=lambda p=stalls: rng.random() < p,
            nest=lambda mode: random_nest(plan, mode, sizes, rng),
        )  # fmt: skip


FLYING = {
    "squares": ({"block": 2}, {"rows": 3, "cols": 2}),
    "vectors": ({"block": 4, "groupings": "1x16"}, {"rows": 2, "cols": 1}),
    "nvfp4": ({"block": 4, "formats": "nvfp4", "fraction": 4}, {"cols": 2, "data_width": 32}),
}


@pytest.mark.parametrize(
    "machine, sizes, count",
    [
        ("squares", (3, 5, 7), 3),
        *(sweep(machine, (3, 5, 7), 9) for machine in ("squares", "nvfp4")),
        sweep("vectors", (9, 13, 10), 9),
        *(sweep(machine, (13, 21, 18), 9) for machine in FLYING),
    ],
)
def test_products_in_flight(machine, sizes, count, rng):
    """One begins while another ends, in every order, with tiles, rings and places of sums of other
    sizes, and stalls."""
    numbers, shape = FLYING[machine]
    numerics = make_numerics(**numbers)
    plan = make_plan(numerics, **shape)
    modes = [rng.choice(modes_of(plan)) for _ in range(count)]
    for stalls in (0, 0.3):
        run_products(
            plan, numerics, modes, sizes, seed=10, stall=lambda p=stalls: rng.random() < p,
            nest=lambda mode: Nest() if mode == Mode.FUSED else random_nest(plan, mode, sizes, rng),
            together=len(modes), limit=200_000,
        )  # fmt: skip


@pytest.mark.parametrize("sizes", [(5, 7, 6), sweep((9, 13, 10))])
def test_stalls_change_nothing(sizes, rng):
    numerics = make_numerics(block=2, formats=("bfp3", "bfp5", "bfp2"), fraction=3)
    plan = make_plan(numerics, rows=2, cols=1)
    run_products(plan, numerics, ALL, sizes, 5, stall=lambda: rng.random() < 0.5)


FP8 = ("fp8_e4m3", "fp8_e4m3", "fp8_e5m2")
FORMATS = {
    "bfp4 vectors": {"groupings": "1x16"},
    "mixed bfp vectors": {"formats": ("bfp3", "bfp5", "bfp2"), "groupings": "1x4", "fraction": 5},
    "x in vectors": {"groupings": ("1x8", "4x4", "4x4")},
    "w in squares": {"groupings": ("1x8", "4x4", "1x8")},
    "dy in squares": {"groupings": ("1x8", "1x8", "4x4")},
    "dy in vectors": {"groupings": ("4x4", "4x4", "1x8")},
    "large squares": {"groupings": "16x16"},
    "mxint8": {"formats": "mxint8"},
    "mxfp8": {"formats": "mxfp8_e4m3"},
    "mxfp6": {"formats": "mxfp6_e3m2"},
    "mxfp4": {"formats": "mxfp4_e2m1", "fraction": 2},
    "fp8": {"formats": FP8},
    "fp8 squares": {"formats": FP8, "groupings": "4x4", "scales": "ceil"},
    "e5m2": {"formats": "fp8_e5m2", "fraction": 6},
    "exact e4m3": {"formats": "fp8_e4m3", "window": 0, "fraction": 0},
    "bf16": {"formats": "bf16"},
    "bf16 and bfp": {"formats": ("bfp4", "bf16", "e3m1")},
    "nvfp4": {"formats": "nvfp4"},
    "nvfp4 vectors": {"formats": "nvfp4", "groupings": "1x16", "fraction": 4},
    "nvfp4 squares": {"formats": "nvfp4", "groupings": "16x16"},
    "poisoned bfp4": {"special": "poison"},
    "poisoned bfp4 vectors": {"special": "poison", "groupings": "1x8"},
    "poisoned fp8": {"formats": FP8, "special": "poison"},
    "poisoned mxfp8": {"formats": "mxfp8_e5m2", "special": "poison"},
    "poisoned nvfp4": {"formats": "nvfp4", "special": "poison"},
    "fp8 by specification": {"formats": FP8, "overflows": "specification", "scales": "floor"},
}


ALWAYS = ("poisoned nvfp4",)


@pytest.mark.parametrize("name", [name if name in ALWAYS else sweep(name) for name in FORMATS])
def test_every_kind_of_format(name):
    numerics = make_numerics(block=4, **FORMATS[name])
    plan = make_plan(numerics, rows=2, cols=1)
    assert plan.fused or numerics.dy.two_copies or numerics.x.two_copies, "squares can be fused"
    run_products(plan, numerics, modes_of(plan), (5, 11, 18), seed=6)


@pytest.mark.parametrize(
    "groupings, sizes",
    [
        (("1x16", "1x8", "8x8"), (9, 11, 10)),
        sweep(("1x16", "8x8", "8x8"), (19, 21, 18)),
        sweep(("1x16", "1x8", "8x8"), (19, 21, 18)),
    ],
)
def test_fused_with_vectors(groupings, sizes):
    """dY in squares; X and W are read along M and N, whose slices begin on a beat."""
    numerics = make_numerics(block=8, groupings=groupings)
    plan = make_plan(numerics, rows=1, cols=2)
    assert plan.fused
    run_products(plan, numerics, [Mode.FUSED], sizes, seed=8)


WIDTHS = [
    (formats, block, data_width)
    for formats in ("bfp4", "mxfp8_e4m3", "nvfp4")
    for block, data_width in ((1, 32), (2, 256), (8, 32), (8, 128))
]
ALWAYS_WIDTHS = (("mxfp8_e4m3", 2, 256),)


@pytest.mark.parametrize(
    "formats, block, data_width",
    [case if case in ALWAYS_WIDTHS else sweep(*case) for case in WIDTHS],
)
def test_vectors_of_every_width(formats, block, data_width):
    """Maxima of a block that fill part of a beat, one, and several."""
    grouping = "1x16"
    numerics = make_numerics(block=block, formats=formats, groupings=grouping)
    plan = make_plan(numerics, rows=1, cols=2, data_width=data_width)
    run_products(plan, numerics, ALL[:3], (9, 18, 11), seed=7)
